/* Reads a request of the inference protocol: tensors become views over the body, over decoded JSON
 * or over stored tensors; parameters become either an option of the call or an argument of the
 * operator. Everything a client can get wrong about the envelope is said here. */
#include "api/infer/call.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

const char *td_infer_param(const struct td_infer *in, const char *name)
{
    const struct td_handle *h =
        in->eval || in->served || td_infer_is_shared(name) ? NULL : td_op_meant(in->op);
    const char *own = h ? td_param_called(h, strchr(in->op, '.') != NULL, name) : NULL;
    return own ? own : name;
}

int td_infer_add(struct td_infer *in, const char *name, const struct td_value *value,
                 td_keyset keys, struct td_problem *problem)
{
    if (name && in->ours)
        name = td_infer_param(in, name);
    for (int i = 0; name && i < in->n_args; i++)
        if (in->args[i].name && !strcmp(in->args[i].name, name))
            return td_infer_refuse(problem, name, "is given twice");
    if (in->n_args == TD_MAX_INPUTS)
        return td_infer_refuse(problem, name ? name : "args", "too many arguments");
    in->args[in->n_args++] = (struct td_named){.name = name, .value = *value, .keys = keys};
    return 0;
}

/* ---- inputs ---- */

static int read_tensor(struct td_infer *in, const cJSON *object, const char *name, const char *who,
                       struct td_problem *problem)
{
    struct td_value v = {.kind = TD_KIND_tensor};
    td_keyset keys = 0;
    int err = td_infer_input(in, object, name, who, &v, &keys, problem);
    return err ? err : td_infer_add(in, name, &v, keys, problem);
}

/* A list of tensor objects; null stands for a tensor that there is not. */
static int read_tensors(struct td_infer *in, const cJSON *list, const char *name, const char *who,
                        struct td_problem *problem)
{
    struct td_value v = {.kind = TD_KIND_tensors};
    td_keyset all = 0;
    const cJSON *item;
    v.tensors.v =
        td_arena_zalloc(in->req->arena, (size_t)cJSON_GetArraySize(list) * sizeof *v.tensors.v + 1);
    if (!v.tensors.v)
        return td_problem_set(problem, ENOMEM, "no memory for %s", who);
    cJSON_ArrayForEach(item, list)
    {
        struct td_value one = {.kind = TD_KIND_tensor};
        td_keyset keys = 0;
        const char *which = td_arena_printf(in->req->arena, "%s[%d]", who, v.tensors.n);
        if (!which)
            return td_problem_set(problem, ENOMEM, "no memory for %s", who);
        if (!cJSON_IsNull(item) && !cJSON_IsObject(item))
            return td_infer_refuse(problem, which, "must be a tensor object or null");
        int err =
            cJSON_IsNull(item) ? 0 : td_infer_input(in, item, name, which, &one, &keys, problem);
        if (err)
            return err;
        if (!cJSON_IsNull(item))
            all |= keys ? keys : td_keyset_of(TD_KEY_CPU);
        v.tensors.v[v.tensors.n++] = one.tensor;
    }
    return td_infer_add(in, name, &v, all, problem);
}

static bool is_tensors(const cJSON *item)
{
    const cJSON *one;
    cJSON_ArrayForEach(one, item)
    {
        if (cJSON_IsNull(one) || cJSON_IsObject(one))
            return true;
    }
    return false;
}

static int read_input(struct td_infer *in, const cJSON *object, struct td_problem *problem)
{
    const cJSON *name = td_json_member(object, "name");
    if (!cJSON_IsObject(object))
        return td_infer_refuse(problem, "inputs", "must hold tensor objects");
    bool right = cJSON_IsString(name) && *name->valuestring;
    if (right && in->served) /* whose names are the file's */
        return read_tensor(in, object, name->valuestring, name->valuestring, problem);
    if (!right || strlen(name->valuestring) >= TD_NAME_SIZE)
        return td_infer_refuse(problem, "inputs", "every tensor needs a name of 1 to 47 letters");
    return read_tensor(in, object, name->valuestring, name->valuestring, problem);
}

/* ---- parameters ---- */

/* 2 is an integer; 2.0 a float, as in Python. */
static int read_number_of(const cJSON *item, const char *who, struct td_value *v,
                          struct td_problem *problem)
{
    __int128 whole;
    if (td_json_is_float(item)) {
        *v = (struct td_value){.kind = TD_KIND_float, .f = item->valuedouble};
        return 0;
    }
    if (!td_json_whole(item, &whole) || (whole != (int64_t)whole && whole != (uint64_t)whole))
        return td_infer_refuse(problem, who,
                               "is a whole number beyond INT64 and UINT64; write a float, with a "
                               "point");
    *v = (struct td_value){
        .kind = TD_KIND_int, .wide = whole > INT64_MAX, .i = (int64_t)(uint64_t)whole};
    return 0;
}

/* An argument of the operator. */
static int read_argument(struct td_infer *in, const cJSON *item, const char *name, const char *who,
                         struct td_problem *problem)
{
    struct td_value v = {0};
    int err = 0;
    if (cJSON_IsNumber(item)) {
        err = read_number_of(item, who, &v, problem);
    } else if (cJSON_IsBool(item)) {
        v.kind = TD_KIND_bool;
        v.i = cJSON_IsTrue(item);
    } else if (cJSON_IsString(item)) {
        v.kind = TD_KIND_str;
        v.str = item->valuestring;
    } else if (cJSON_IsArray(item)) {
        err = td_infer_read_list(item, who, &v, problem);
    } else if (!cJSON_IsNull(item)) {
        err = td_infer_refuse(problem, who,
                              "must be a number, bool, text, or list of numbers or bools");
    }
    return err ? err : td_infer_add(in, name, &v, 0, problem);
}

/* Arguments by position: tensors as objects, or lists of them, all others as they are. They come
 * first. */
static int read_positional(struct td_infer *in, const cJSON *args, struct td_problem *problem)
{
    const cJSON *item;
    int i = 0, err = 0;
    cJSON_ArrayForEach(item, args)
    {
        const char *who = td_arena_printf(in->req->arena, "args[%d]", i++);
        if (!who)
            return td_problem_set(problem, ENOMEM, "no memory for the request");
        err = cJSON_IsObject(item) ? read_tensor(in, item, NULL, who, problem)
              : is_tensors(item)   ? read_tensors(in, item, NULL, who, problem)
                                   : read_argument(in, item, NULL, who, problem);
        if (err)
            return err;
    }
    return 0;
}

static int read_number(const cJSON *item, double low, double high, int64_t *value,
                       struct td_problem *problem)
{
    if (!cJSON_IsNumber(item) || item->valuedouble != floor(item->valuedouble) ||
        item->valuedouble < low || item->valuedouble > high)
        return td_problem_set(problem, EINVAL, "%s: must be a whole number from %.0f to %.0f",
                              item->string, low, high);
    *value = (int64_t)item->valuedouble;
    return 0;
}

static int read_text(const cJSON *item, const char **value, struct td_problem *problem)
{
    if (!cJSON_IsString(item))
        return td_infer_refuse(problem, item->string, "must be a text");
    *value = item->valuestring;
    return 0;
}

const char *const td_infer_shared[] = {"pool",
                                       "kernel",
                                       "explain",
                                       "binary_data_output",
                                       "timeout_ms",
                                       "timeout",
                                       "priority",
                                       "device",
                                       "layout",
                                       "meta",
                                       "trace",
                                       "autocast",
                                       "include_keys",
                                       "exclude_keys",
                                       "streams",
                                       "stream_hints",
                                       "strict_divisible",
                                       NULL};

int td_infer_read_expr(struct td_infer *in, struct td_problem *problem)
{
    const cJSON *expr = td_json_member(in->json.root, "expr");
    if (!cJSON_IsString(expr))
        return td_infer_refuse(problem, "expr", "must be a text, such as \"relu(a * b + c)\"");
    in->req->trail.op = in->expr = expr->valuestring;
    return 0;
}

/* Whether an overload has an argument of that name: device and layout of those without tensors. */
static bool is_own(const struct td_infer *in, const char *key)
{
    for (const struct td_handle *h = td_op_meant(in->op); h; h = h->next)
        if (td_schema_find(&h->schema, key) >= 0)
            return true;
    return false;
}

/* Of a model's call, what not all calls share. */
static int read_model_parameter(struct td_infer *in, const cJSON *item, struct td_problem *problem)
{
    static const char *const right[] = {
        "pool",       "kernel",  "explain", "binary_data_output",  "priority",
        "timeout_ms", "timeout", "eager",   TD_STREAMS_PARAMETERS, TD_SESSION_PARAMETERS};
    int err = 0;
    if (td_streams_parameter(in, item) || td_infer_session_parameter(in, item, &err, problem))
        return err;
    if (!strcmp(item->string, "eager")) {
        if (!cJSON_IsBool(item))
            return td_infer_refuse(problem, "eager", "must be true or false");
        in->eager = in->eager || cJSON_IsTrue(item);
        return 0;
    }
    const char *near = td_nearest(item->string, right, sizeof right / sizeof *right);
    if (in->brief && !near)
        return td_infer_no_port(in, item->string, problem);
    return td_problem_set(problem, EINVAL,
                          "%.60s: is no parameter of a model's call; %s%s%sright are pool, kernel, "
                          "explain, binary_data_output, priority, timeout_ms, timeout, eager, "
                          "session, streams and what belongs to these",
                          item->string, near ? "the nearest is " : "", near ? near : "",
                          near ? "; " : "");
}

/* An option that all calls share, or else an argument of the operator. */
int td_infer_read_parameter(struct td_infer *in, const cJSON *item, struct td_problem *problem)
{
    const char *key = item->string;
    int64_t number = 0;
    int err;
    if (!strcmp(key, "pool"))
        return read_text(item, &in->pool_name, problem);
    if (!strcmp(key, "kernel"))
        return read_text(item, &in->forced, problem);
    if (!strcmp(key, "explain"))
        return td_infer_read_bool(item, &in->explain, problem);
    if (!strcmp(key, "binary_data_output"))
        return td_infer_read_bool(item, &in->binary_output, problem);
    if (!strcmp(key, "timeout_ms"))
        return read_number(item, 0, 1e9, &in->timeout_ms, problem);
    if (!strcmp(key, "timeout")) { /* the protocol's, in microseconds */
        if (!(err = read_number(item, 0, 1e12, &number, problem)))
            in->timeout_ms = (number + 999) / 1000;
        return err;
    }
    if (!strcmp(key, "priority")) { /* the protocol's: 0 is the default, 1 the highest */
        if (!(err = read_number(item, 0, 1e9, &number, problem)))
            in->priority = number ? (number < 4 ? 4 - (int)number : 0) : 0;
        return err;
    }
    if (!strncmp(key, "triton_", 7) || !strcmp(key, "headers"))
        return td_infer_refuse(problem, key, "is reserved by the protocol");
    if (in->served)
        return read_model_parameter(in, item, problem);
    if (!is_own(in, key) && td_infer_key_parameter(in, item, &err, problem))
        return err;
    if (td_streams_parameter(in, item))
        return 0;
    return read_argument(in, item, key, key, problem);
}

static int read_parameters(struct td_infer *in, const cJSON *parameters, struct td_problem *problem)
{
    const cJSON *item;
    int err = 0;
    cJSON_ArrayForEach(item, parameters)
    {
        if ((err = td_infer_read_parameter(in, item, problem)))
            break;
    }
    return err;
}

/* ---- the whole ---- */

bool td_infer_is_shared(const char *name)
{
    const char *const *shared = td_infer_shared;
    while (*shared && strcmp(*shared, name))
        shared++;
    return *shared;
}

/* The members of a long form's body: those of the protocol, and on our own routes the parameters
 * that all calls share, which may stand beside them. */
static int judge_members(const struct td_infer *in, struct td_problem *problem)
{
    const char *own = in->served ? "model_name" /* as KServe's client */
                      : in->eval ? "expr"
                                 : "args";
    const char *right[] = {"inputs", "parameters", "outputs", own, "id", NULL};
    const char *names[5 + sizeof td_infer_shared / sizeof *td_infer_shared];
    int n = 0;
    if (!in->ours)
        return td_json_members(in->json.root, "the body", right, problem);
    for (int i = 0; right[i]; i++)
        names[n++] = right[i];
    for (int i = 0; td_infer_shared[i]; i++)
        names[n++] = td_infer_shared[i];
    for (const cJSON *item = in->json.root->child; item; item = item->next) {
        int i = 0;
        while (i < n && strcmp(names[i], item->string))
            i++;
        if (i < n)
            continue;
        const char *near = td_nearest(item->string, names, n);
        return td_problem_set(problem, EINVAL,
                              "the body: has no member '%.60s'%s%s%s; right are: inputs, "
                              "parameters, outputs, %s, id, and what all calls share",
                              item->string, near ? "; did you mean '" : "", near ? near : "",
                              near ? "'?" : "", own);
    }
    return 0;
}

int td_infer_read_full(struct td_infer *in, struct td_problem *problem)
{
    const cJSON *root = in->json.root, *item;
    const cJSON *inputs = td_json_member(root, "inputs"),
                *parameters = td_json_member(root, "parameters");
    const cJSON *id = td_json_member(root, "id"), *args = td_json_member(root, "args");
    in->outputs = td_json_member(root, "outputs");
    if (!cJSON_IsObject(root))
        return td_infer_refuse(problem, "the body", "must be an object with inputs");
    int err = judge_members(in, problem);
    if (err)
        return err;
    if (inputs && !cJSON_IsArray(inputs))
        return td_infer_refuse(problem, "inputs", "must be an array of tensors");
    if (parameters && !cJSON_IsObject(parameters))
        return td_infer_refuse(problem, "parameters", "must be an object");
    if (args && !cJSON_IsArray(args))
        return td_infer_refuse(problem, "args", "must be an array of tensors and values");
    if (in->outputs && !cJSON_IsArray(in->outputs))
        return td_infer_refuse(problem, "outputs", "must be an array");
    if (id && !cJSON_IsString(id))
        return td_infer_refuse(problem, "id", "must be a text");
    if (id && *id->valuestring)
        in->id = id->valuestring;
    err = in->ours && !in->served ? td_infer_key_defaults(in, root, problem) : 0;
    if (!err)
        err = td_infer_key_defaults(in, parameters, problem);
    if (!err)
        err = read_positional(in, args, problem);
    cJSON_ArrayForEach(item, inputs)
    {
        if (err || (err = read_input(in, item, problem)))
            break;
    }
    for (item = in->ours ? root->child : NULL; item && !err; item = item->next)
        if (td_infer_is_shared(item->string))
            err = td_infer_read_parameter(in, item, problem);
    return err ? err : read_parameters(in, parameters, problem);
}
