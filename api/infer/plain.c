/* Tensors as plain (nested) arrays or numbers, which the short form of a call has. */
#include "api/infer/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- array -> tensor ---- */

static bool is_value(const cJSON *item)
{
    return cJSON_IsBool(item) || cJSON_IsNumber(item) ||
           (cJSON_IsString(item) &&
            (!strcmp(item->valuestring, "NaN") || !strcmp(item->valuestring, "Infinity") ||
             !strcmp(item->valuestring, "-Infinity")));
}

enum { BOOLS, WHOLE, FLOATS, TOO_WIDE }; /* the last: beyond INT64 */

/* Whether sizes are those of the first element of each level, and what holds all values. */
static int survey(const cJSON *item, int depth, struct td_tensor *t, int *category, const char *who,
                  struct td_problem *problem)
{
    if (!cJSON_IsArray(item)) {
        __int128 whole;
        int own = cJSON_IsBool(item)                                       ? BOOLS
                  : !cJSON_IsNumber(item) || td_json_is_float(item)        ? FLOATS
                  : td_json_whole(item, &whole) && whole == (int64_t)whole ? WHOLE
                                                                           : TOO_WIDE;
        if (!is_value(item))
            return td_infer_refuse(problem, who,
                                   "must hold numbers, bools, \"NaN\" and \"Infinity\", or arrays "
                                   "of them");
        *category = own > *category ? own : *category;
        return depth == t->rank ? 0
                                : td_infer_refuse(problem, who, "its rows are not of one shape");
    }
    if (depth == t->rank)
        return td_infer_refuse(problem, who, "its rows are not of one shape");
    const cJSON *one;
    int64_t n = 0;
    cJSON_ArrayForEach(one, item)
    {
        int err = survey(one, depth + 1, t, category, who, problem);
        if (err)
            return err;
        n++;
    }
    return n == t->shape[depth] ? 0
                                : td_infer_refuse(problem, who, "its rows are not of one length");
}

/* The values one after the other, each with a comma behind it. */
static char *write_values(const cJSON *item, char *out)
{
    const cJSON *one;
    if (cJSON_IsArray(item)) {
        cJSON_ArrayForEach(one, item) out = write_values(one, out);
        return out;
    }
    __int128 whole;
    if (cJSON_IsBool(item))
        *out++ = cJSON_IsTrue(item) ? '1' : '0';
    else if (td_json_whole(item, &whole))
        out = whole < 0 ? td_print_i64((int64_t)whole, out) : td_print_u64((uint64_t)whole, out);
    else if (cJSON_IsNumber(item))
        out = td_print_f64(item->valuedouble, out);
    else
        out += sprintf(out, "\"%s\"", item->valuestring);
    *out++ = ',';
    return out;
}

/* By way of a text, which is read as that of a tensor's data is. */
static int fill(struct td_infer *in, const cJSON *item, struct td_tensor *t, const char *who,
                struct td_problem *problem)
{
    char *text = td_arena_alloc(in->req->arena, (TD_NUMBER_ROOM + 1) * (size_t)td_numel(t) + 2);
    if (!text)
        return td_problem_set(problem, ENOMEM, "no memory for %s", who);
    *text = '[';
    char *end = write_values(item, text + 1);
    end -= end[-1] == ',';
    *end++ = ']';
    struct td_json_span span = {text, (size_t)(end - text)};
    return td_json_decode(&span, t->dtype, td_numel(t), t->data, who, problem);
}

int td_infer_read_plain(struct td_infer *in, const cJSON *item, const char *who,
                        enum td_dtype dtype, struct td_tensor *t, struct td_problem *problem)
{
    static const enum td_dtype types[] = {TD_bool, TD_i64, TD_f32, TD_i64};
    int category = -1;
    *t = (struct td_tensor){0};
    for (const cJSON *one = item; cJSON_IsArray(one); one = one->child) {
        if (t->rank == TD_MAX_RANK)
            return td_problem_set(problem, EINVAL, "%s: is nested deeper than %d", who,
                                  TD_MAX_RANK);
        t->shape[t->rank++] = cJSON_GetArraySize(one);
    }
    int err = survey(item, 0, t, &category, who, problem);
    if (err)
        return err;
    category = category < 0 ? FLOATS : category; /* of none */
    t->dtype = dtype ? dtype : types[category];
    if (category == TOO_WIDE && t->dtype & TD_INTS)
        return td_infer_refuse(problem, who,
                               "a whole number is beyond INT64; write floats, with a point");
    t->data = td_arena_alloc(in->req->arena, td_nbytes(t) + 1);
    if (!t->data)
        return td_problem_set(problem, ENOMEM, "no memory for %s", who);
    return fill(in, item, t, who, problem);
}

/* ---- tensor -> array ---- */

void td_infer_write_nested(struct td_writer *w, const struct td_tensor *t, td_infer_leaf *leaf,
                           void *arg)
{
    struct td_tensor part = *t;
    if (t->rank < 2) {
        leaf(w, t, arg);
        return;
    }
    part.rank--;
    memmove(part.shape, t->shape + 1, (size_t)part.rank * sizeof *part.shape);
    td_write_open(w, NULL, '[');
    for (int64_t i = 0; i < t->shape[0]; i++) {
        part.data = (char *)t->data + (size_t)i * td_nbytes(&part);
        td_infer_write_nested(w, &part, leaf, arg);
    }
    td_write_close(w, ']');
}

/* row: room for its text. */
static void write_row(struct td_writer *w, const struct td_tensor *t, void *row)
{
    char *text = row;
    size_t length = td_json_encode(t, text);
    td_write_raw(w, NULL, text + !t->rank, length - 2 * (size_t)!t->rank); /* its brackets */
}

void td_infer_write_plain(struct td_writer *w, const struct td_tensor *t)
{
    struct td_tensor last = *t;
    last.rank = t->rank ? 1 : 0;
    last.shape[0] = t->rank ? t->shape[t->rank - 1] : 1;
    char *row = td_arena_alloc(w->arena, td_json_data_bound(&last));
    if (row)
        td_infer_write_nested(w, t, write_row, row);
    w->failed = w->failed || !row;
}
