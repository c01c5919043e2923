/* A JSON text into a cJSON tree, with the tensors' number arrays left out.
 *
 * One pass over the text keeps track of strings and nesting (a counter, no recursion) and copies
 * it, writing a mark wherever a "data" array stood; what was left out is remembered as a span of
 * the text. cJSON then parses the copy, which is as short as the request's structure. The mark is a
 * string that begins with the byte 0xFF: no client can write it, neither in UTF-8, which is
 * demanded here, nor by an escape. */
#include "api/json/json.h"
#include "api/json/kept.h"
#include "api/json/marks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a value takes in cJSON's tree, beside the text of its key and its own: the item and the
 * allocator's share of all three. */
#define VALUE_BYTES 144

struct scan {
    const char *text, *end, *at;
    size_t out, room;                     /* the copy's length, and what is allocated for it */
    int depth, max_depth, values, digits; /* digits: one after the other, up to here */
    bool floats;                          /* some number has a point or an exponent */
    bool wide;                            /* or more digits than a double keeps */
    struct td_json *json;
    struct td_problem *problem;
};

static int fail(struct scan *s, int error, const char *what)
{
    return td_problem_set(s->problem, error, "the JSON is wrong at byte %zu: %s",
                          (size_t)(s->at - s->text), what);
}

static int too_deep(struct scan *s)
{
    return td_problem_set(s->problem, EINVAL,
                          "the JSON is nested too deep at byte %zu; at most %d levels are taken",
                          (size_t)(s->at - s->text), s->max_depth);
}

/* The copy grows with what is written: a block of the body's size, for every request, would cost
 * the allocator more than the scan. */
static int put(struct scan *s, const char *text, size_t n)
{
    if (s->room - s->out <= n) { /* a 0 fits behind it, always */
        size_t room = 2 * (s->out + n) + 1024;
        if (td_budget_take(&td_memory, room - s->room))
            return fail(s, ENOMEM, "no memory for it");
        s->json->copy_bytes_ = room;
        char *copy = realloc(s->json->copy_, room);
        if (!copy)
            return fail(s, ENOMEM, "no memory for it");
        s->json->copy_ = copy;
        s->room = room;
    }
    memcpy(s->json->copy_ + s->out, text, n);
    s->out += n;
    return 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

int td_utf8_length(const char *text, const char *end)
{
    const unsigned char *c = (const unsigned char *)text;
    static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (*c < 0x80)
        return 1;
    int n = *c >= 0xf0 ? 4 : *c >= 0xe0 ? 3 : 2;
    if (*c < 0xc2 || *c > 0xf4 || end - text < n)
        return 0;
    uint32_t code = *c & (0x7fu >> n);
    for (int i = 1; i < n; i++) {
        if ((c[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (c[i] & 0x3f);
    }
    bool surrogate = code >= 0xd800 && code < 0xe000;
    return code < lowest[n] || code > 0x10ffff || surrogate ? 0 : n;
}

/* From an opening quote to behind the closing one. cJSON would take control characters, broken
 * UTF-8 and a zero character, at which its text then ended. */
static int skip_string(struct scan *s)
{
    for (s->at++; s->at < s->end;) {
        char c = *s->at;
        if (c == '"') {
            s->at++;
            return 0;
        }
        if (c == '\\') {
            if (s->end - s->at >= 6 && !memcmp(s->at + 1, "u0000", 5))
                return fail(s, EINVAL, "a zero character");
            s->at++;
            if (s->at == s->end)
                break;
        }
        if ((unsigned char)*s->at < 32)
            return fail(s, EINVAL, "a control character in a string; write it as an escape");
        int n = td_utf8_length(s->at, s->end);
        if (!n)
            return fail(s, EINVAL, "not UTF-8");
        s->at += n;
    }
    return fail(s, EINVAL, "the text ends in a string");
}

/* Whether the 64 bytes at text hold what nesting depends on. Compiles to vector compares. */
static bool has_bracket(const char *text)
{
    unsigned char any = 0;
    for (int i = 0; i < 64; i++) {
        unsigned char c = (unsigned char)text[i];
        unsigned char bracket = c | 0x20; /* [ becomes {, ] becomes } */
        any |= (unsigned char)((bracket == '{') | (bracket == '}') | (c == '"'));
    }
    return any;
}

/* Walks to stop, or to behind the bracket that closes the last of *open ones: 1. */
static int skip_block(struct scan *s, const char *stop, int *open)
{
    while (s->at < stop) {
        int err;
        switch (*s->at) {
        case '[':
            if (++*open + s->depth > s->max_depth)
                return too_deep(s);
            break;
        case ']':
            if (!--*open) {
                s->at++;
                return 1;
            }
            break;
        case '"':
            if ((err = skip_string(s)))
                return err;
            continue;
        case '{':
        case '}':
            return fail(s, EINVAL, "an object inside of tensor data");
        default:
            break;
        }
        s->at++;
    }
    return 0;
}

/* From an opening bracket to behind its closing one; the values are judged when decoded. */
static int skip_array(struct scan *s)
{
    int open = 0, done = 0;
    while (!done && s->at < s->end) {
        size_t left = (size_t)(s->end - s->at);
        if (left >= 64 && !has_bracket(s->at))
            s->at += 64;
        else
            done = skip_block(s, s->at + (left < 64 ? left : 64), &open);
    }
    if (!done)
        return fail(s, EINVAL, "the text ends in a data array");
    return done > 0 ? 0 : done;
}

/* At the bracket of a data array: remembers it, and writes the mark in its place. */
static int cut_span(struct scan *s)
{
    struct td_json *json = s->json;
    const char *start = s->at;
    if (json->n_spans == TD_MAX_SPANS)
        return td_problem_set(s->problem, EINVAL,
                              "the JSON has more data arrays than the %d that one request may have",
                              TD_MAX_SPANS);
    int err = skip_array(s);
    if (err)
        return err;
    json->span[json->n_spans] = (struct td_json_span){start, (size_t)(s->at - start)};
    const char mark[] = {'"', (char)0xff, (char)('0' + json->n_spans / 10),
                         (char)('0' + json->n_spans % 10), '"'};
    json->n_spans++;
    return put(s, mark, sizeof mark);
}

/* Behind a string: whether it was the key "data" with an array as its value, at whose bracket we
 * then are. */
static bool at_data_array(struct scan *s, const char *key, size_t length)
{
    if (length != 6 || memcmp(key, "\"data\"", 6))
        return false;
    const char *at = s->at;
    while (at < s->end && is_blank(*at))
        at++;
    if (at == s->end || *at != ':')
        return false;
    for (at++; at < s->end && is_blank(*at); at++)
        ;
    if (at == s->end || *at != '[')
        return false;
    s->at = at;
    return true;
}

static int copy_string(struct scan *s)
{
    const char *start = s->at;
    int err = skip_string(s);
    if (err)
        return err;
    size_t n = (size_t)(s->at - start);
    if ((err = put(s, start, n)) || !at_data_array(s, start, n))
        return err;
    return (err = put(s, ":", 1)) ? err : cut_span(s);
}

/* NaN and infinities as bare words become the strings that stand for them. */
static int copy_special(struct scan *s, bool *was)
{
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(s->end - s->at) < n || memcmp(s->at, words[i], n))
            continue;
        int err = put(s, "\"", 1);
        err = err ? err : put(s, words[i], n);
        err = err ? err : put(s, "\"", 1);
        s->at += n;
        *was = true;
        return err;
    }
    return 0;
}

static int scan(struct scan *s)
{
    while (s->at < s->end) {
        char c = *s->at;
        int err;
        if (c == '"') {
            if ((err = copy_string(s)))
                return err;
            continue;
        }
        if (c == 'N' || c == 'I' || c == '-') {
            bool was = false;
            if ((err = copy_special(s, &was)))
                return err;
            if (was)
                continue;
        }
        s->floats |= c == '.' || ((c | 0x20) == 'e' && s->digits);
        s->digits = c >= '0' && c <= '9' ? s->digits + 1 : 0;
        s->wide |= s->digits == TD_JSON_DIGITS;
        bool opens = c == '[' || c == '{';
        if (opens && ++s->depth > s->max_depth)
            return too_deep(s);
        if ((opens || c == ',') && ++s->values > TD_MAX_VALUES)
            return td_problem_set(s->problem, EINVAL,
                                  "the JSON has more values outside of data arrays than the %d "
                                  "that one request may have",
                                  TD_MAX_VALUES);
        if (c == ']' || c == '}')
            s->depth--;
        if ((unsigned char)c >= 0x7f || ((unsigned char)c < 32 && !is_blank(c)))
            return fail(s, EINVAL, "a character that is no JSON");
        bool blanks = is_blank(c) && s->at > s->text && is_blank(s->at[-1]);
        if (!blanks && (err = put(s, s->at, 1))) /* one stays, so that 1 2 is no number */
            return err;
        s->at++;
    }
    return 0;
}

/* What cJSON did not take, as the client has written it but for data arrays. */
static int refuse_text(const char *copy, const char *stop, struct td_problem *problem)
{
    char near[40];
    const char *at = stop - copy > 8 ? stop - 8 : copy;
    size_t n = 0;
    for (int k = 1; k < 5 && at - k >= copy; k++)
        if (at[1 - k] == (char)0xff) { /* amid a mark: at its quote */
            at -= k;
            break;
        }
    for (const char *end = at + 24; *at && at < end && n < sizeof near - 6;) {
        bool mark = *at == '"' && at[1] == (char)0xff;
        memcpy(near + n, mark ? "[...]" : at, mark ? 5 : 1);
        n += mark ? 5 : 1;
        at += mark ? 5 : 1;
    }
    near[n] = 0;
    return td_problem_set(problem, EINVAL, "the JSON is wrong near %s", near);
}

int td_json_parse(struct td_json *json, const char *text, size_t length, int depth,
                  struct td_problem *problem)
{
    td_json_init(json);
    if (!length) /* a request without a body has none */
        text = "";
    struct scan s = {.text = text,
                     .end = text + length,
                     .at = text,
                     .max_depth = depth,
                     .json = json,
                     .problem = problem};
    int err = put(&s, "", 0);
    if (err || (err = scan(&s)))
        return err;
    json->copy_[s.out] = 0;
    const char *copy = json->copy_, *stop = copy;
    size_t tree = s.out + (size_t)(s.values + 1) * VALUE_BYTES;
    if (td_budget_take(&td_memory, tree))
        return fail(&s, ENOMEM, "no memory for it");
    json->tree_bytes_ = tree;
    json->root = cJSON_ParseWithLengthOpts(copy, s.out + 1, &stop, 1);
    if (json->root) {
        const char *at = copy;
        if (s.floats || s.wide)
            td_json_mark(json->root, &at);
        err = td_json_unique(json->root, problem);
        if (err) {
            cJSON_Delete(json->root);
            json->root = NULL;
        }
        return err;
    }
    if (!copy[strspn(copy, " \t\r\n")])
        return td_problem_set(problem, EINVAL, "the JSON is empty");
    if (s.depth > 0 && stop >= copy + s.out)
        return td_problem_set(problem, EINVAL, "the JSON is wrong at byte %zu: the text ends early",
                              length);
    return refuse_text(copy, stop, problem);
}

void td_json_free(struct td_json *json)
{
    if (json->kept_)
        td_json_kept_drop(json->kept_);
    else
        cJSON_Delete(json->root);
    free(json->copy_);
    if (json->copy_bytes_ + json->tree_bytes_)
        td_budget_give(&td_memory, json->copy_bytes_ + json->tree_bytes_);
    td_json_init(json);
}

const struct td_json_span *td_json_span(const struct td_json *json, const cJSON *item)
{
    if (!cJSON_IsString(item) || *item->valuestring != (char)0xff)
        return NULL;
    return &json->span[(item->valuestring[1] - '0') * 10 + item->valuestring[2] - '0'];
}
