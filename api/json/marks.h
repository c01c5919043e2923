/* Marks on the numbers of a tree, of which json.h says what they are. Internal to api/json/. */
#ifndef TD_API_MARKS_H
#define TD_API_MARKS_H

#include <cjson/cJSON.h>

#define TD_JSON_DIGITS 16 /* whole numbers of fewer are doubles */

/* Marks item, those behind it and all in them: text is what they were parsed from, from *at on,
 * which goes with them. */
void td_json_mark(cJSON *item, const char **at);

#endif
