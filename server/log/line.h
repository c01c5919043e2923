/* One line of the log while it is put together, in either form: an object of JSON, or words
 * key=value behind the time. Internal to server/. */
#ifndef TD_SERVER_LOG_LINE_H
#define TD_SERVER_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct td_line {
    bool json;
    size_t length;
    char text[16384];
};

void td_line_begin(struct td_line *line, bool json); /* with the time of now */
/* Of a value 200 bytes count. What is not a printable character of ASCII is written \uXXXX, so that
 * whatever a client sends stays in its place of its line. NULL: nothing is written. */
void td_line_text(struct td_line *line, const char *key, const char *value);
void td_line_int(struct td_line *line, const char *key, int64_t value);
void td_line_us(struct td_line *line, const char *key, int64_t ns); /* as microseconds */
/* JSON as it is; left out where it is too long. NULL: nothing is written. */
void td_line_raw(struct td_line *line, const char *key, const char *json);
/* A sentence of ours, which is the rest of a line of text; a control character becomes a space. */
void td_line_sentence(struct td_line *line, const char *key, const char *sentence);
void td_line_end(struct td_line *line);

#endif
