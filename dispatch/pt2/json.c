/* The archive's JSON: judged and thinned out before cJSON sees it, and read in torch.export's
 * terms.
 *
 * Half and more of a graph's text are stack traces, in members "metadata"; these are blanked out
 * first, so that the tree is as small as what is wanted of it. The same pass counts values and
 * nesting: what the tree will take is taken of the process's memory before it is made. */
#include "dispatch/pt2/pt2.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_BYTES 160 /* of a value in cJSON's tree, beside its texts */
#define MAX_DEPTH 256   /* some 30 graphs in each other */

struct scan {
    char *at, *end;
    char *metadata; /* where its bracket is, while in one */
    int depth, metadata_depth;
    size_t values;
};

/* From a quote to behind the closing one; false when there is none. */
static bool skip_string(struct scan *s)
{
    for (s->at++; s->at < s->end && *s->at != '"'; s->at++)
        s->at += *s->at == '\\';
    return s->at++ < s->end;
}

/* Behind a key: whether an object follows that nobody reads. */
static bool is_metadata(const struct scan *s, const char *key)
{
    if (s->at - key != 10 || memcmp(key, "\"metadata\"", 10))
        return false;
    const char *at = s->at;
    while (at < s->end && (*at == ' ' || *at == ':'))
        at++;
    return at < s->end && *at == '{';
}

/* Walks the text once: -1 when it is wrong, -2 when it is nested too deep. */
static int scan(struct scan *s)
{
    while (s->at < s->end) {
        char *start = s->at, c = *start;
        if (c == '"') {
            if (!skip_string(s))
                return -1;
            if (!s->metadata && is_metadata(s, start)) {
                s->metadata = strchr(s->at, '{');
                s->metadata_depth = s->depth;
            }
            continue;
        }
        s->at++;
        if (c == '{' || c == '[')
            s->depth++;
        if (s->depth > MAX_DEPTH)
            return -2;
        s->values += !s->metadata && (c == '{' || c == '[' || c == ',');
        if ((c == '}' || c == ']') && --s->depth < 0)
            return -1;
        if (s->metadata && s->depth == s->metadata_depth && c == '}') {
            memset(s->metadata + 1, ' ', (size_t)(start - s->metadata - 1));
            s->metadata = NULL;
        }
    }
    return s->depth ? -1 : 0;
}

/* ---- numbers that no double holds ---- */

struct numbers {
    const char *at, *end; /* in the text, whose numbers are the tree's, in its order */
};

/* The next number's text: so many letters, 0 at the end. */
static size_t next_number(struct numbers *n)
{
    static const char letters[] = "0123456789+-.eE";
    struct scan s = {.at = (char *)n->at, .end = (char *)n->end};
    while (s.at < s.end && *s.at != '-' && (*s.at < '0' || *s.at > '9'))
        if (*s.at != '"')
            s.at++;
        else if (!skip_string(&s))
            return 0;
    size_t length = s.at < s.end ? strspn(s.at, letters) : 0;
    n->at = s.at + length;
    return length;
}

/* Integers that may be beyond 2^53 get what their double has lost as valueint. */
static void keep_exact(struct numbers *n, cJSON *item)
{
    for (; item; item = item->next) {
        size_t length = cJSON_IsNumber(item) ? next_number(n) : 0;
        const char *text = n->at - length;
        if (length > 15 && length < 38 && strspn(text, "-0123456789") >= length) {
            __int128 exact = 0;
            for (size_t i = *text == '-'; i < length; i++)
                exact = 10 * exact + (text[i] - '0');
            exact = *text == '-' ? -exact : exact;
            if (fabs(item->valuedouble) < 0x1p65)
                item->valueint = (int)(exact - (__int128)item->valuedouble);
        }
        keep_exact(n, item->child);
    }
}

int td_pt2_parse(struct td_pt2_json *json, char *text, size_t size, const char *what,
                 struct td_problem *problem)
{
    struct scan s = {.at = text, .end = text + size};
    *json = (struct td_pt2_json){0};
    int wrong = memchr(text, 0, size) ? -1 : scan(&s);
    if (wrong == -2)
        return td_problem_set(problem, EINVAL, "%s: nested more than %d deep", what, MAX_DEPTH);
    if (wrong)
        return td_problem_set(problem, EINVAL, "%s: is no JSON", what);
    size_t tree = size + (s.values + 1) * VALUE_BYTES;
    if (td_budget_take(&td_memory, tree))
        return td_problem_set(problem, ENOMEM, "%s: no memory for it", what);
    json->taken = tree;
    json->root = cJSON_ParseWithLengthOpts(text, size + 1, NULL, 1);
    if (!json->root)
        return td_problem_set(problem, EINVAL, "%s: is no JSON", what);
    keep_exact(&(struct numbers){text, text + size}, json->root);
    return 0;
}

void td_pt2_free(struct td_pt2_json *json)
{
    cJSON_Delete(json->root);
    if (json->taken)
        td_budget_give(&td_memory, json->taken);
    *json = (struct td_pt2_json){0};
}

/* ---- members ---- */

const cJSON *td_pt2_get(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

const char *td_pt2_text(const cJSON *object, const char *name)
{
    return cJSON_GetStringValue(td_pt2_get(object, name));
}

/* Of one with an exponent cJSON has put the last int into valueint, which says nothing. */
bool td_pt2_whole(const cJSON *number, int64_t *v)
{
    double f = cJSON_IsNumber(number) ? number->valuedouble : (double)NAN;
    if (!(f == floor(f)) || !(fabs(f) < 0x1p65))
        return false;
    bool wide = fabs(f) >= 0x1p49 && abs(number->valueint) <= 1 << 13;
    __int128 exact = (__int128)f + (wide ? number->valueint : 0);
    *v = (int64_t)exact;
    return *v == exact;
}

enum td_dtype td_pt2_dtype(const cJSON *number)
{
    static const enum td_dtype types[] = {
        [1] = TD_u8,   [2] = TD_i8,   [3] = TD_i16,  [4] = TD_i32,   [5] = TD_i64,
        [6] = TD_f16,  [7] = TD_f32,  [8] = TD_f64,  [12] = TD_bool, [13] = TD_bf16,
        [28] = TD_u16, [34] = TD_u32, [35] = TD_u64,
    };
    int64_t i;
    return td_pt2_whole(number, &i) && i >= 0 && i < (int64_t)(sizeof types / sizeof *types)
               ? types[i]
               : TD_DTYPE_none;
}

/* ---- arguments ---- */

const cJSON *td_pt2_argument(const cJSON *argument)
{
    const cJSON *member = cJSON_IsObject(argument) ? argument->child : NULL;
    while (member && (cJSON_IsNull(member) || !member->string))
        member = member->next;
    return member;
}

struct td_pt2_leaf td_pt2_leaf(const char *as, const cJSON *item)
{
    if (!cJSON_IsObject(item))
        return (struct td_pt2_leaf){
            .as = as, .constant = cJSON_IsNull(item) || !strncmp(as, "as_none", 7) ? NULL : item};
    const char *name = td_pt2_text(item, "name");
    name = name ? name : td_pt2_text(item, "as_name");
    if (name)
        return (struct td_pt2_leaf){.as = as, .name = name};
    const cJSON *inner = td_pt2_argument(item);
    if (inner && cJSON_IsObject(inner))
        return (struct td_pt2_leaf){.as = inner->string, .name = td_pt2_text(inner, "name")};
    return inner ? td_pt2_leaf(inner->string, inner) : (struct td_pt2_leaf){.as = as};
}

/* JSON has no such numbers: they are texts. */
static double special(const char *text)
{
    return !strcmp(text, "Infinity")    ? HUGE_VAL
           : !strcmp(text, "-Infinity") ? -HUGE_VAL
                                        : (double)NAN;
}

int td_pt2_constant(const struct td_pt2_leaf *leaf, struct td_value *value)
{
    const cJSON *c = leaf->constant;
    const char *as = leaf->as + 3 * !strncmp(leaf->as, "as_", 3);
    as += 4 * !strncmp(as, "sym_", 4);
    *value = (struct td_value){.kind = TD_KIND_none};
    if (!c)
        return 0;
    if (!strncmp(as, "int", 3) && td_pt2_whole(c, &value->i)) {
        value->kind = TD_KIND_int;
    } else if (!strncmp(as, "bool", 4) && cJSON_IsBool(c)) {
        value->kind = TD_KIND_bool;
        value->i = cJSON_IsTrue(c);
    } else if (!strncmp(as, "float", 5) && (cJSON_IsNumber(c) || cJSON_IsString(c))) {
        value->kind = TD_KIND_float;
        value->f = cJSON_IsNumber(c) ? c->valuedouble : special(c->valuestring);
    } else if (!strcmp(as, "string") && cJSON_IsString(c)) {
        value->kind = TD_KIND_str;
        value->str = c->valuestring; /* the JSON's */
    } else if (!strcmp(as, "scalar_type") && td_pt2_dtype(c)) {
        value->kind = TD_KIND_dtype;
        value->dtype = td_pt2_dtype(c);
    } else {
        return -1;
    }
    return 0;
}
