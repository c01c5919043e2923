/* A line of the log, put together without memory of its own. No value can end it, or look like
 * another: in JSON all of them are quoted, in text all but plain words are, and nothing but
 * printable ASCII is written; of our own sentences, no control character. */
#include "server/log/line.h"

#include "api/json/json.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define LONGEST 200 /* bytes of a value */
#define LONGEST_SENTENCE 2000
#define LAST_PART 256 /* kept for what is short and comes last */

static void put(struct td_line *line, const char *text, size_t n)
{
    if (n > sizeof line->text - line->length)
        return;
    memcpy(line->text + line->length, text, n);
    line->length += n;
}

static void put_char(struct td_line *line, char c)
{
    put(line, &c, 1);
}

static void put_key(struct td_line *line, const char *key)
{
    if (line->json)
        put(line, ",\"", 2);
    else
        put_char(line, ' ');
    put(line, key, strlen(key));
    if (line->json)
        put(line, "\":", 2);
    else
        put_char(line, '=');
}

/* The character of so many bytes, by its number. */
static unsigned decode(const char *at, int bytes)
{
    unsigned code = bytes == 1 ? (unsigned char)*at : (unsigned char)*at & (0x7f >> bytes);
    for (int i = 1; i < bytes; i++)
        code = code << 6 | ((unsigned char)at[i] & 0x3f);
    return code;
}

static void put_escaped(struct td_line *line, unsigned code)
{
    char text[16];
    int n = code < 0x10000 ? snprintf(text, sizeof text, "\\u%04x", code)
                           : snprintf(text, sizeof text, "\\u%04x\\u%04x",
                                      0xd800 + ((code - 0x10000) >> 10), 0xdc00 + (code & 0x3ff));
    put(line, text, (size_t)n);
}

static void put_quoted(struct td_line *line, const char *value, size_t longest)
{
    put_char(line, '"');
    for (const char *at = value, *end = value + strnlen(value, longest); at < end;) {
        int bytes = td_utf8_length(at, end);
        if (!bytes) {
            put_escaped(line, 0xfffd);
        } else if (bytes > 1 || *at < ' ' || *at > '~') {
            put_escaped(line, decode(at, bytes));
        } else {
            if (*at == '"' || *at == '\\')
                put_char(line, '\\');
            put_char(line, *at);
        }
        at += bytes ? bytes : 1;
    }
    put_char(line, '"');
}

void td_line_begin(struct td_line *line, bool json)
{
    struct timespec now;
    struct tm utc;
    char time[64], text[96];
    line->json = json;
    line->length = 0;
    clock_gettime(CLOCK_REALTIME, &now);
    strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &utc));
    int n = snprintf(text, sizeof text, json ? "{\"time\":\"%s.%03dZ\"" : "%s.%03dZ", time,
                     (int)(now.tv_nsec / 1000000));
    put(line, text, (size_t)n);
}

void td_line_text(struct td_line *line, const char *key, const char *value)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-._~/:{}[]*@%+";
    if (!value)
        return;
    put_key(line, key);
    size_t n = strspn(value, plain);
    if (line->json || !n || value[n] || n > LONGEST)
        put_quoted(line, value, LONGEST);
    else
        put(line, value, n);
}

void td_line_int(struct td_line *line, const char *key, int64_t value)
{
    char text[TD_NUMBER_ROOM];
    put_key(line, key);
    put(line, text, (size_t)(td_print_i64(value, text) - text));
}

void td_line_us(struct td_line *line, const char *key, int64_t ns)
{
    char text[TD_NUMBER_ROOM];
    ns = ns > 0 ? ns : 0;
    put_key(line, key);
    put(line, text,
        (size_t)snprintf(text, sizeof text, "%lld.%03d", (long long)(ns / 1000), (int)(ns % 1000)));
}

void td_line_raw(struct td_line *line, const char *key, const char *json)
{
    size_t n = json ? strlen(json) : 0;
    if (!n || n + LAST_PART > sizeof line->text - line->length)
        return;
    for (const char *c = json; *c; c++)
        if (*c < ' ' || *c > '~')
            return;
    put_key(line, key);
    put(line, json, n);
}

void td_line_sentence(struct td_line *line, const char *key, const char *sentence)
{
    if (line->json) {
        put_key(line, key);
        put_quoted(line, sentence, LONGEST_SENTENCE);
        return;
    }
    put(line, " tensord: ", 10);
    for (const char *c = sentence; *c && line->length < sizeof line->text - LAST_PART; c++)
        put_char(line, (unsigned char)*c < ' ' || *c == 0x7f ? ' ' : *c);
}

void td_line_end(struct td_line *line)
{
    if (line->json)
        put_char(line, '}');
    put_char(line, '\n');
}
