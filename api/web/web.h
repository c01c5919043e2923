/* What a browser is given: the dashboard's files, which the build compresses into the program,
 * those of the reference and the book among them. */
#ifndef TD_API_WEB_H
#define TD_API_WEB_H

#include "api/api.h"

struct td_asset {
    const char *name, *type, *tag; /* the file's, its media type, its ETag */
    const unsigned char *packed;   /* gzip */
    size_t packed_size, size;
};
extern const struct td_asset td_assets[]; /* made by embed.py, ended by a row without name */

const struct td_asset *td_asset_find(const char *name); /* NULL: there is none */
/* The file itself, ended by a 0, in the arena; NULL: no memory. */
char *td_asset_text(struct td_arena *arena, const struct td_asset *asset);
/* Makes it the response, compressed for who takes that; 304 to who has it. What a handler returns.
 */
int td_asset_send(struct td_request *req, struct td_response *res, const struct td_asset *asset);

/* Whether the request's header, a list, has a word, as Accept-Encoding has "gzip". */
bool td_asks_for(struct td_request *req, const char *header, const char *word);

#endif
