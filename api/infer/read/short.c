/* The short form of a call, for people: {"self": [[1,2],[3,4]], "other": 10}, answered with
 * {"out": [[11,12],[13,14]]}. Members are arguments by name, or parameters that all calls share;
 * what stands in a member called parameters, as in the long form, counts as if it stood beside. An
 * array is a tensor where the operator has one of that name, and a list else; a number is a tensor
 * only where it can be nothing else; {"tensor": "w"} is a stored one. Types follow from the values:
 * floats are FP32, whole numbers INT64, unless "dtype" says otherwise; a model says itself. */
#include "api/infer/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* {"tensor": "w"}: a stored tensor. */
static bool is_stored(const cJSON *item)
{
    return cJSON_IsObject(item) && item->child && !item->child->next &&
           !strcmp(item->child->string, "tensor") && cJSON_IsString(item->child);
}

/* A tensor as an object of the long form, or a list that begins with one. */
static bool is_long(const cJSON *item)
{
    return (cJSON_IsObject(item) && !is_stored(item)) ||
           (cJSON_IsArray(item) && cJSON_IsObject(item->child) && !is_stored(item->child));
}

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
        brief = brief && !is_long(item);
    }
    for (size_t i = 0; i < sizeof full / sizeof *full; i++)
        brief = brief && !td_json_member(root, full[i]);
    return brief && beside;
}

/* ---- members ---- */

enum { IS_TENSOR = 1, IS_LIST = 2, IS_OTHER = 4 };

/* What the operator's overloads, or the one that is meant, have under that name; 0: nothing. An
 * expression's inputs are called as they like. */
static unsigned kinds_of(const struct td_infer *in, const char *name)
{
    if (in->served)
        return td_infer_find_port(in, name) ? IS_TENSOR : 0;
    unsigned kinds =
        in->eval && strcmp(name, "dtype") && !td_infer_is_shared(name) ? IS_TENSOR | IS_OTHER : 0;
    const struct td_handle *h = td_op_meant(in->op);
    bool one = h && strchr(in->op, '.'); /* it is named by its overload */
    for (; h; h = one ? NULL : h->next) {
        int i = td_schema_find(&h->schema, name);
        const struct td_type *type = i < 0 ? NULL : &h->schema.param[i].type;
        if (type)
            kinds |= type->base != TD_BASE_Tensor ? IS_OTHER : type->list ? IS_LIST : IS_TENSOR;
    }
    return kinds;
}

static int add_tensor(struct td_infer *in, const cJSON *item, const char *name, enum td_dtype dtype,
                      struct td_problem *problem)
{
    struct td_value v = {.kind = TD_KIND_tensor};
    td_keyset keys = 0;
    const struct td_model_port *port = in->served ? td_infer_find_port(in, name) : NULL;
    bool stored = is_stored(item);
    if (stored && in->n_args == TD_MAX_INPUTS)
        return td_infer_refuse(problem, name, "too many arguments");
    bool texts = port && port->texts;
    if (texts && stored)
        return td_infer_refuse(problem, name, "texts are not stored; an array of them is right");
    int err = texts    ? td_infer_read_texts(in, item, name, port, &v.tensor, problem)
              : stored ? td_infer_stored(in, item, item->child->valuestring, name, &v, problem)
                       : td_infer_read_plain(in, item, name, port ? port->dtype : dtype, &v.tensor,
                                             problem);
    if (!err)
        err = td_infer_keys(in, NULL, &v.tensor, name, &keys, problem);
    return err ? err : td_infer_add(in, name, &v, keys, problem);
}

static int read_member(struct td_infer *in, const cJSON *item, enum td_dtype dtype,
                       struct td_problem *problem)
{
    const char *name = td_infer_param(in, item->string);
    unsigned kinds = kinds_of(in, name);
    bool number = cJSON_IsNumber(item) || cJSON_IsBool(item), array = cJSON_IsArray(item);
    const cJSON *one;
    int i = 0, err = 0;
    if (((array || is_stored(item)) && kinds & IS_TENSOR) || (number && kinds == IS_TENSOR))
        return add_tensor(in, item, name, dtype, problem);
    if (!array || !(kinds & IS_LIST))
        return td_infer_read_parameter(in, item, problem);
    cJSON_ArrayForEach(one, item)
    {
        const char *place = td_arena_printf(in->req->arena, "%s.%d", name, i++);
        if (!place)
            return td_problem_set(problem, ENOMEM, "no memory for the request");
        err = cJSON_IsNull(one) ? 0 : add_tensor(in, one, place, dtype, problem);
        if (err)
            break;
    }
    return err;
}

/* A type for all tensors; not the operator's own argument of that name. */
static const cJSON *dtype_of(const struct td_infer *in, const cJSON *parameters)
{
    const cJSON *said = td_json_member(in->json.root, "dtype");
    if (in->served || kinds_of(in, "dtype"))
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
        dtype = td_dtype_called(said->valuestring);
    if (said && !dtype)
        return td_problem_set(problem, EINVAL, "dtype: must be one of%s", td_dtype_names);
    in->typed = dtype;
    in->options.number_type = dtype;
    int err = in->served ? 0 : td_infer_key_defaults(in, root, problem);
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

/* Texts are tokenized while the request is parsed, and the request's time limit bounds that too. So
 * the limit is parsed first. An invalid limit is ignored here and refused by the main parse. */
static void read_limit(struct td_infer *in, const cJSON *object)
{
    struct td_problem ignored;
    for (const cJSON *item = cJSON_IsObject(object) ? object->child : NULL; item;
         item = item->next) {
        bool limit = !strcmp(item->string, "timeout_ms") || !strcmp(item->string, "timeout");
        if (limit && !kinds_of(in, item->string))
            (void)td_infer_read_parameter(in, item, &ignored);
    }
}

static void read_limits(struct td_infer *in)
{
    if (in->ours)
        read_limit(in, in->json.root);
    read_limit(in, td_json_member(in->json.root, "parameters"));
    if (in->asked)
        read_limit(in, in->asked->root);
}

int td_infer_read(struct td_infer *in, struct td_problem *problem)
{
    bool brief = in->ours && is_brief(in->json.root);
    if (in->ours && !cJSON_IsObject(in->json.root))
        return td_infer_refuse_body(in, "the body", problem);
    int err = in->ours ? td_infer_parse_query(in, problem) : 0;
    if (!err && in->eval)
        err = td_infer_read_expr(in, problem);
    if (!err && in->served)
        read_limits(in);
    if (!err && in->file)
        err = td_infer_read_npy(in, problem);
    else if (!err)
        err = brief ? read_brief(in, problem) : td_infer_read_full(in, problem);
    if (!err && in->ours)
        err = td_infer_read_query(in, problem);
    if (!err && in->req->json_length >= 0 && in->binary_at != in->req->body_size)
        err = td_problem_set(problem, EINVAL, "the body has %zu bytes more than its tensors need",
                             in->req->body_size - in->binary_at);
    if (!err && !in->served)
        err = td_infer_gather_lists(in, problem);
    return err ? err : find_pool(in, problem);
}

/* ---- the reply ---- */

void td_infer_write_brief(struct td_infer *in, struct td_writer *w)
{
    char name[TD_NAME_SIZE + 16];
    struct td_tensor part;
    td_write_open(w, NULL, '{');
    for (int i = 0; i < in->n_outputs; i++) {
        if (in->output[i].form == TD_FORM_none)
            continue;
        if (!in->streams.apart)
            td_write_key(w, in->output[i].name);
        if (in->meta) { /* its shape is all there is */
            td_write_open(w, NULL, '{');
            td_write_str(w, "datatype", td_infer_type_name(in, i));
            td_infer_write_shape(in, w, &in->out[i]);
            td_write_close(w, '}');
        } else if (!in->streams.apart && td_infer_gives_texts(in, i)) {
            td_infer_write_texts(in, w, &in->out[i], true);
        } else if (!in->streams.apart) {
            td_infer_write_plain(w, &in->out[i]);
        }
        for (int k = 0; k < in->streams.parts && in->streams.apart; k++) {
            snprintf(name, sizeof name, "%.50s[%d]", in->output[i].name, k);
            td_streams_result(in, i, k, &part);
            td_write_key(w, name);
            if (td_infer_gives_texts(in, i))
                td_infer_write_texts(in, w, &part, true);
            else
                td_infer_write_plain(w, &part);
        }
    }
}
