/* A JSON text into a cJSON tree, with the tensors' number arrays left out.
 *
 * One pass over the text keeps track of strings and nesting (a counter, no recursion) and copies
 * it, writing a small number wherever a "data" array stood; what was left out is remembered as a
 * span of the text. cJSON then parses the copy, which is as short as the request's structure. A
 * number that a client itself wrote as "data" cannot pass for a span: its key becomes "data?". */
#include "api/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct scan {
    const char *text, *end, *at;
    char *out; /* the copy's end */
    int depth, max_depth;
    struct td_json *json;
    struct td_problem *problem;
};

static int fail(struct scan *s, int error, const char *what)
{
    return td_problem_set(s->problem, error, "the JSON is wrong at byte %zu: %s",
                          (size_t)(s->at - s->text), what);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* From an opening quote to behind the closing one. */
static int skip_string(struct scan *s)
{
    for (s->at++; s->at < s->end; s->at++) {
        if (*s->at == '\\')
            s->at++;
        else if (*s->at == '"') {
            s->at++;
            return 0;
        }
    }
    s->at = s->end;
    return fail(s, EINVAL, "a text that does not end");
}

/* From an opening bracket to behind its closing one; what is inside is judged when decoded. */
static int skip_array(struct scan *s)
{
    int open = 0;
    for (; s->at < s->end; s->at++) {
        if (*s->at == '[') {
            if (++open + s->depth > s->max_depth)
                return fail(s, E2BIG, "nested too deep");
        } else if (*s->at == ']') {
            if (!--open) {
                s->at++;
                return 0;
            }
        } else if (*s->at == '"') {
            int err = skip_string(s);
            if (err)
                return err;
            s->at--;
        } else if (*s->at == '{' || *s->at == '}') {
            return fail(s, EINVAL, "an object inside of tensor data");
        }
    }
    return fail(s, EINVAL, "an array that does not end");
}

static int cut_span(struct scan *s)
{
    struct td_json *json = s->json;
    const char *start = s->at;
    if (json->n_spans == TD_MAX_SPANS)
        return fail(s, EINVAL, "more than 64 data arrays");
    int err = skip_array(s);
    if (err)
        return err;
    json->span[json->n_spans] = (struct td_span){start, (size_t)(s->at - start)};
    *s->out++ = (char)('0' + json->n_spans / 10);
    s->out[0] = 0;
    if (json->n_spans < 10) /* no leading zero */
        s->out[-1] = (char)('0' + json->n_spans);
    else
        *s->out++ = (char)('0' + json->n_spans % 10);
    json->n_spans++;
    return 0;
}

/* Behind a key: whether it was "data" with an array as its value, at whose bracket we then are. */
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
    if (at < s->end && (*at == '-' || (*at >= '0' && *at <= '9'))) {
        s->out[-1] = '?';
        *s->out++ = '"';
    }
    if (at == s->end || *at != '[')
        return false;
    *s->out++ = ':';
    s->at = at;
    return true;
}

static int scan(struct scan *s)
{
    while (s->at < s->end) {
        char c = *s->at;
        if (c == '"') {
            const char *start = s->at;
            int err = skip_string(s);
            if (err)
                return err;
            size_t n = (size_t)(s->at - start);
            memcpy(s->out, start, n);
            s->out += n;
            if (at_data_array(s, start, n) && (err = cut_span(s)))
                return err;
            continue;
        }
        if ((c == '[' || c == '{') && ++s->depth > s->max_depth)
            return fail(s, E2BIG, "nested too deep");
        if (c == ']' || c == '}')
            s->depth--;
        if (!c)
            return fail(s, EINVAL, "a zero byte");
        if (!is_blank(c))
            *s->out++ = c;
        else if (s->out[-1] != ' ') /* blanks separate, so one stays: 1 2 is no number */
            *s->out++ = ' ';
        s->at++;
    }
    return 0;
}

int td_json_parse(struct td_json *json, const char *text, size_t length, int depth,
                  struct td_problem *problem)
{
    json->root = NULL;
    json->n_spans = 0;
    json->copy_ = malloc(2 * length + 16);
    if (!json->copy_)
        return td_problem_set(problem, ENOMEM, "no memory for the JSON");
    struct scan s = {text, text + length, text, json->copy_ + 1, 0, depth, json, problem};
    *json->copy_ = ' ';
    int err = scan(&s);
    if (err)
        return err;
    *s.out = 0;
    const char *stop = NULL;
    json->root =
        cJSON_ParseWithLengthOpts(json->copy_, (size_t)(s.out - json->copy_) + 1, &stop, 1);
    if (json->root)
        return 0;
    if (!length)
        return td_problem_set(problem, EINVAL, "the JSON is empty");
    size_t at = stop ? (size_t)(stop - json->copy_) : 0;
    return td_problem_set(problem, EINVAL, "the JSON is wrong near \"%.24s\"",
                          at ? json->copy_ + (at > 8 ? at - 8 : 1) : json->copy_ + 1);
}

void td_json_free(struct td_json *json)
{
    cJSON_Delete(json->root);
    free(json->copy_);
    json->root = NULL;
    json->copy_ = NULL;
}

const struct td_span *td_json_span(const struct td_json *json, const cJSON *item)
{
    if (!cJSON_IsNumber(item) || item->valueint < 0 || item->valueint >= json->n_spans)
        return NULL;
    return &json->span[item->valueint];
}
