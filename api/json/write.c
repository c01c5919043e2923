/* The writer: JSON text appended to a buffer that doubles in the request's arena. Old halves stay
 * until the arena goes, which at most doubles what a reply needs. */
#include "api/json/json.h"
#include "api/json/numbers.h"

#include <errno.h>
#include <math.h>
#include <string.h>

void td_write_init(struct td_writer *w, struct td_arena *arena, size_t room)
{
    *w = (struct td_writer){.arena = arena, .text = td_arena_alloc(arena, room), .room = room};
    w->failed = !w->text;
}

char *td_write_room(struct td_writer *w, size_t n)
{
    if (w->failed)
        return NULL;
    if (w->room - w->length < n) {
        size_t room = 2 * w->room > w->length + n ? 2 * w->room : w->length + n + w->room;
        char *text = td_arena_alloc(w->arena, room);
        if (!text) {
            w->failed = true;
            return NULL;
        }
        w->text = memcpy(text, w->text, w->length);
        w->room = room;
    }
    return w->text + w->length;
}

void td_write_took(struct td_writer *w, size_t n)
{
    w->length += n;
}

static void put(struct td_writer *w, const char *text, size_t n)
{
    char *room = td_write_room(w, n);
    if (room) {
        memcpy(room, text, n);
        w->length += n;
    }
}

static void put_char(struct td_writer *w, char c)
{
    if (w->length < w->room && !w->failed)
        w->text[w->length++] = c;
    else
        put(w, &c, 1);
}

/* Copies the front part in which every character stands for itself in JSON, eight at a time, and
 * returns its length; up to 7 bytes more are written. In a word of bytes below 0x80, those less
 * than what is subtracted borrow, which sets their upper bit. */
static size_t copy_plain(char *to, const char *text, size_t n)
{
    const uint64_t ones = 0x0101010101010101, high = 0x80 * ones;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = 'a' * ones;
        if (n - i >= 8)
            memcpy(&word, text + i, 8);
        else
            memcpy(&word, text + i, n - i);
        uint64_t control = word - 32 * ones, quote = (word ^ '"' * ones) - ones;
        uint64_t backslash = (word ^ '\\' * ones) - ones;
        if ((word | control | quote | backslash) & high)
            return i;
        memcpy(to + i, &word, 8);
    }
    return n;
}

static void put_quoted(struct td_writer *w, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = strlen(text);
    char *room = td_write_room(w, 6 * n + 10), *at = room;
    if (!room)
        return;
    *at++ = '"';
    size_t plain = copy_plain(at, text, n);
    at += plain;
    for (const char *c = text + plain, *end = text + n; c < end;) {
        int bytes = td_utf8_length(c, end);
        if (!bytes) { /* such as a name cut in the middle, or an unescaped path */
            memcpy(at, "\\ufffd", 6);
            at += 6;
            c++;
            continue;
        }
        if (*c == '"' || *c == '\\')
            *at++ = '\\';
        if ((unsigned char)*c < 32) {
            memcpy(at, "\\u00", 4);
            at[4] = hex[*c >> 4];
            at[5] = hex[*c & 15];
            at += 6;
        } else {
            memcpy(at, c, (size_t)bytes);
            at += bytes;
        }
        c += bytes;
    }
    *at++ = '"';
    w->length += (size_t)(at - room);
}

/* The comma and the key before any value. */
static void begin(struct td_writer *w, const char *key)
{
    bool comma = w->comma;
    w->comma = true;
    if (!key) {
        if (comma)
            put_char(w, ',');
        return;
    }
    size_t n = strlen(key);
    char *room = td_write_room(w, n + 4), *at = room;
    if (!room)
        return;
    if (comma)
        *at++ = ',';
    *at++ = '"';
    at = (char *)memcpy(at, key, n) + n;
    *at++ = '"';
    *at++ = ':';
    w->length += (size_t)(at - room);
}

void td_write_open(struct td_writer *w, const char *key, char bracket)
{
    begin(w, key);
    put_char(w, bracket);
    w->comma = false;
}

void td_write_close(struct td_writer *w, char bracket)
{
    put_char(w, bracket);
    w->comma = true;
}

void td_write_str(struct td_writer *w, const char *key, const char *value)
{
    begin(w, key);
    if (value)
        put_quoted(w, value);
    else
        put(w, "null", 4);
}

void td_write_key(struct td_writer *w, const char *key)
{
    td_write_str(w, NULL, key);
    put_char(w, ':');
    w->comma = false;
}

void td_write_int(struct td_writer *w, const char *key, int64_t value)
{
    begin(w, key);
    char *room = td_write_room(w, TD_NUMBER_ROOM);
    if (room)
        w->length += (size_t)(td_print_i64(value, room) - room);
}

void td_write_num(struct td_writer *w, const char *key, double value)
{
    begin(w, key);
    char *room = td_write_room(w, TD_NUMBER_ROOM);
    if (!room)
        return;
    if (isfinite(value))
        w->length += (size_t)(td_print_f64(value, room) - room);
    else
        put(w, "null", 4);
}

void td_write_us(struct td_writer *w, const char *key, int64_t ns)
{
    begin(w, key);
    char *room = td_write_room(w, TD_NUMBER_ROOM);
    if (!room)
        return;
    char *at = td_print_i64(ns / 1000, room);
    if (ns % 1000) {
        memcpy(at,
               (char[]){'.', (char)('0' + ns / 100 % 10), (char)('0' + ns / 10 % 10),
                        (char)('0' + ns % 10)},
               4);
        at += 4;
        while (at[-1] == '0')
            at--;
    }
    w->length += (size_t)(at - room);
}

void td_write_bool(struct td_writer *w, const char *key, bool value)
{
    td_write_raw(w, key, value ? "true" : "false", value ? 4 : 5);
}

void td_write_raw(struct td_writer *w, const char *key, const char *json, size_t length)
{
    begin(w, key);
    put(w, json, length);
}

static ssize_t append(void *arg, const char *text, size_t size)
{
    struct td_writer *w = arg;
    char *room = td_write_room(w, size);
    if (!room)
        return 0;
    memcpy(room, text, size);
    td_write_took(w, size);
    return (ssize_t)size;
}

FILE *td_write_file(struct td_writer *w)
{
    FILE *to = fopencookie(w, "w", (cookie_io_functions_t){.write = append});
    w->failed = w->failed || !to;
    return to;
}
