/* The short form of a call, for people: {"self": [[1,2],[3,4]], "other": 10}, answered with
 * {"out": [[11,12],[13,14]]}. Members are arguments by name, or parameters that all calls share;
 * what stands in a member called parameters, as in the long form, counts as if it stood beside. An
 * array is a tensor where the operator has one of that name, and a list else; a number is a tensor
 * only where it can be nothing else. Types follow from the values: floats are FP32, whole numbers
 * INT64, unless "dtype" says otherwise. */
#include "api/infer/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* It names something beside parameters and expr, which the long form has as well, or has nothing
 * but expr. */
static bool is_brief(const cJSON *root)
{
    static const char *const full[] = {"inputs", "args", "outputs", "id"};
    if (!cJSON_IsObject(root) || !root->child)
        return false;
    bool brief = true, beside = !td_json_member(root, "parameters");
    const cJSON *item;
    cJSON_ArrayForEach(item, root) /* tensors as objects: a name of the long form, written wrong */
    {
        if (!strcmp(item->string, "parameters"))
            continue;
        beside = beside || strcmp(item->string, "expr") != 0;
        brief = brief && !cJSON_IsObject(item) && !cJSON_IsObject(item->child);
    }
    for (size_t i = 0; i < sizeof full / sizeof *full; i++)
        brief = brief && !td_json_member(root, full[i]);
    return brief && beside;
}

/* ---- values ---- */

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

static int read_plain(struct td_infer *in, const cJSON *item, const char *who, enum td_dtype dtype,
                      struct td_tensor *t, struct td_problem *problem)
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

/* ---- members ---- */

enum { IS_TENSOR = 1, IS_LIST = 2, IS_OTHER = 4 };

static bool is_shared(const char *name)
{
    const char *const *shared = td_infer_shared;
    while (*shared && strcmp(*shared, name))
        shared++;
    return *shared;
}

/* What the operator's overloads, or the one that is meant, have under that name; 0: nothing. An
 * expression's inputs are called as they like. */
static unsigned kinds_of(const struct td_infer *in, const char *name)
{
    unsigned kinds =
        in->eval && strcmp(name, "dtype") && !is_shared(name) ? IS_TENSOR | IS_OTHER : 0;
    const struct td_handle *h = td_registry_find(in->op);
    bool one = h && strcmp(in->op, h->schema.name); /* it is named by its overload */
    for (; h; h = one ? NULL : h->next)
        for (int i = 0; i < h->schema.n_params; i++) {
            const struct td_type *type = &h->schema.param[i].type;
            if (!strcmp(h->schema.param[i].name, name))
                kinds |= type->base != TD_BASE_Tensor ? IS_OTHER : type->list ? IS_LIST : IS_TENSOR;
        }
    return kinds;
}

static int add_tensor(struct td_infer *in, const cJSON *item, const char *name, enum td_dtype dtype,
                      struct td_problem *problem)
{
    struct td_value v = {.kind = TD_KIND_tensor};
    td_keyset keys = 0;
    int err = read_plain(in, item, name, dtype, &v.tensor, problem);
    if (!err)
        err = td_infer_keys(in, NULL, &v.tensor, name, &keys, problem);
    return err ? err : td_infer_add(in, name, &v, keys, problem);
}

static int read_member(struct td_infer *in, const cJSON *item, enum td_dtype dtype,
                       struct td_problem *problem)
{
    unsigned kinds = kinds_of(in, item->string);
    bool number = cJSON_IsNumber(item) || cJSON_IsBool(item), array = cJSON_IsArray(item);
    const cJSON *one;
    int i = 0, err = 0;
    if ((array && kinds & IS_TENSOR) || (number && kinds == IS_TENSOR))
        return add_tensor(in, item, item->string, dtype, problem);
    if (!array || !(kinds & IS_LIST))
        return td_infer_read_parameter(in, item, problem);
    cJSON_ArrayForEach(one, item)
    {
        const char *name = td_arena_printf(in->req->arena, "%s.%d", item->string, i++);
        if (!name)
            return td_problem_set(problem, ENOMEM, "no memory for the request");
        err = cJSON_IsNull(one) ? 0 : add_tensor(in, one, name, dtype, problem);
        if (err)
            break;
    }
    return err;
}

/* A type for all tensors; not the operator's own argument of that name. */
static const cJSON *dtype_of(const struct td_infer *in, const cJSON *parameters)
{
    const cJSON *said = td_json_member(in->json.root, "dtype");
    if (kinds_of(in, "dtype"))
        return NULL;
    return said ? said : td_json_member(parameters, "dtype");
}

static int read_brief(struct td_infer *in, struct td_problem *problem)
{
    const cJSON *root = in->json.root, *parameters = td_json_member(root, "parameters"), *item;
    const cJSON *expr = in->eval ? td_json_member(root, "expr") : NULL;
    const cJSON *said = dtype_of(in, parameters);
    enum td_dtype dtype = TD_DTYPE_none;
    in->brief = true;
    if (parameters && !cJSON_IsObject(parameters))
        return td_infer_refuse(problem, "parameters", "must be an object");
    if (said && cJSON_IsString(said))
        dtype = td_dtype_find(said->valuestring);
    if (said && !dtype)
        return td_problem_set(problem, EINVAL, "dtype: must be one of%s", td_dtype_names);
    int err = td_infer_key_defaults(in, root, problem);
    if (!err)
        err = td_infer_key_defaults(in, parameters, problem);
    cJSON_ArrayForEach(item, root)
    {
        if (!err && item != said && item != expr && item != parameters)
            err = read_member(in, item, dtype, problem);
    }
    cJSON_ArrayForEach(item, parameters)
    {
        if (!err && item != said)
            err = read_member(in, item, dtype, problem);
    }
    return err;
}

/* ---- either form ---- */

static int find_pool(struct td_infer *in, struct td_problem *problem)
{
    in->pool = td_pools_find(in->req->service->pools, in->pool_name);
    if (!in->pool)
        return td_problem_set(problem, ENOENT, "pool: no pool '%.80s'; GET /v1/pools lists them",
                              in->pool_name);
    return 0;
}

int td_infer_read(struct td_infer *in, struct td_problem *problem)
{
    bool brief = in->model == in->op && is_brief(in->json.root); /* not by the protocol */
    int err = in->eval ? td_infer_read_expr(in, problem) : 0;
    if (!err)
        err = brief ? read_brief(in, problem) : td_infer_read_full(in, problem);
    if (!err && in->req->json_length >= 0 && in->binary_at != in->req->body_size)
        err = td_problem_set(problem, EINVAL, "the body has %zu bytes more than its tensors need",
                             in->req->body_size - in->binary_at);
    if (!err && !in->served)
        err = td_infer_gather_lists(in, problem);
    return err ? err : find_pool(in, problem);
}

/* ---- the reply ---- */

/* Nested arrays; a tensor of rank 0 is its value. row: room for the text of an innermost one. */
static void write_plain(struct td_writer *w, const char *key, const struct td_tensor *t, char *row)
{
    struct td_tensor part = *t;
    if (t->rank < 2) {
        size_t length = td_json_encode(t, row);
        td_write_raw(w, key, row + !t->rank, length - 2 * (size_t)!t->rank); /* its brackets */
        return;
    }
    part.rank--;
    memmove(part.shape, t->shape + 1, (size_t)part.rank * sizeof *part.shape);
    td_write_open(w, key, '[');
    for (int64_t i = 0; i < t->shape[0]; i++) {
        part.data = (char *)t->data + (size_t)i * td_nbytes(&part);
        write_plain(w, NULL, &part, row);
    }
    td_write_close(w, ']');
}

static void write_result(struct td_writer *w, const char *name, const struct td_tensor *t)
{
    struct td_tensor last = *t;
    last.rank = t->rank ? 1 : 0;
    last.shape[0] = t->rank ? t->shape[t->rank - 1] : 1;
    char *row = td_arena_alloc(w->arena, td_json_data_bound(&last));
    if (row)
        write_plain(w, name, t, row);
    w->failed = w->failed || !row;
}

void td_infer_write_brief(struct td_infer *in, struct td_writer *w)
{
    char name[TD_NAME_SIZE + 16];
    struct td_tensor part;
    td_write_open(w, NULL, '{');
    for (int i = 0; i < in->n_outputs; i++) {
        if (in->meta) { /* its shape is all there is */
            td_write_open(w, in->output[i].name, '{');
            td_write_str(w, "datatype", td_dtype_name(in->out[i].dtype));
            td_infer_write_shape(in, w, &in->out[i]);
            td_write_close(w, '}');
        } else if (!in->streams.apart) {
            write_result(w, in->output[i].name, &in->out[i]);
        }
        for (int k = 0; k < in->streams.parts && in->streams.apart; k++) {
            snprintf(name, sizeof name, "%s[%d]", in->output[i].name, k);
            td_streams_result(in, i, k, &part);
            write_result(w, name, &part);
        }
    }
}
