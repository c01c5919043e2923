/* The bench's cases: a file made for several frameworks, so its words are translated into the names
 * of our operators' schemas here and nowhere else. */
#include "server/bench/bench.h"

#include "api/json/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add(struct td_case *c, const char *name, struct td_value value)
{
    if (c->n_args < 8)
        c->arg[c->n_args++] = (struct td_named){name, value};
}

static struct td_value ints(const cJSON *list) /* or bools */
{
    struct td_value v = {.kind = cJSON_IsBool(list->child) ? TD_KIND_bools : TD_KIND_ints};
    const cJSON *one;
    cJSON_ArrayForEach(one, list)
    {
        if (v.ints.n < TD_MAX_RANK)
            v.ints.v[v.ints.n++] = cJSON_IsBool(one) ? cJSON_IsTrue(one) : one->valueint;
    }
    return v;
}

static struct td_value whole(const cJSON *item)
{
    return (struct td_value){.kind = TD_KIND_int, .i = item->valueint};
}

/* An argument in our words already, as a call has it. */
static struct td_value plain(const cJSON *item)
{
    if (cJSON_IsArray(item))
        return ints(item);
    if (cJSON_IsString(item))
        return (struct td_value){.kind = TD_KIND_str, .str = item->valuestring};
    if (cJSON_IsBool(item))
        return (struct td_value){.kind = TD_KIND_bool, .i = cJSON_IsTrue(item)};
    if (cJSON_IsNumber(item) && td_json_is_float(item))
        return (struct td_value){.kind = TD_KIND_float, .f = item->valuedouble};
    return cJSON_IsNumber(item) ? whole(item) : (struct td_value){.kind = TD_KIND_none};
}

/* FP32 where nothing is said. */
static enum td_dtype type_of(const cJSON *name)
{
    if (!cJSON_IsString(name))
        return TD_f32;
    return strcmp(name->valuestring, "bf16") ? td_dtype_find(name->valuestring) : TD_bf16;
}

/* What the file calls an operator and its arguments, in our words. */
static void translate(struct td_case *c, const cJSON *item)
{
    const cJSON *axis = cJSON_GetObjectItem(item, "axis"), *eps = cJSON_GetObjectItem(item, "eps");
    const cJSON *perm = cJSON_GetObjectItem(item, "perm"), *to = cJSON_GetObjectItem(item, "to");
    const cJSON *stride = cJSON_GetObjectItem(item, "stride");
    const cJSON *pad = cJSON_GetObjectItem(item, "pad"), *own;
    cJSON_ArrayForEach(own, cJSON_GetObjectItem(item, "parameters"))
        add(c, own->string, plain(own));
    if (perm) {
        strcpy(c->op, "permute");
        add(c, "dims", ints(perm));
    }
    if (!strcmp(c->op, "layer_norm")) {
        struct td_value v = {.kind = TD_KIND_ints, .ints = {.n = 1}};
        v.ints.v[0] = c->shape[1].shape[0];
        add(c, "normalized_shape", v);
    } else if (axis && (!strcmp(c->op, "sum") || !strcmp(c->op, "max"))) {
        if (*c->op == 'm')
            strcpy(c->op, "amax");
        struct td_value v = {.kind = TD_KIND_ints, .ints = {.n = 1}};
        v.ints.v[0] = axis->valueint;
        add(c, "dim", v);
    } else if (axis) {
        add(c, "dim", whole(axis));
    }
    if (eps)
        add(c, "eps", (struct td_value){.kind = TD_KIND_float, .f = eps->valuedouble});
    if (to)
        add(c, "dtype", (struct td_value){.kind = TD_KIND_str, .str = td_dtype_name(type_of(to))});
    if (stride)
        add(c, "stride", whole(stride));
    if (pad)
        add(c, "padding", whole(pad));
    if (!strcmp(c->op, "linear_gelu")) {
        strcpy(c->op, "linear");
        add(c, "activation", (struct td_value){.kind = TD_KIND_str, .str = "gelu"});
    }
}

static int read_case(const cJSON *item, struct td_case *c)
{
    const cJSON *id = cJSON_GetObjectItem(item, "id"), *op = cJSON_GetObjectItem(item, "op");
    const cJSON *shapes = cJSON_GetObjectItem(item, "shapes"), *shape, *dim;
    const cJSON *dtype = cJSON_GetObjectItem(item, "dtype");
    c->expr = cJSON_GetStringValue(cJSON_GetObjectItem(item, "expr"));
    if (!cJSON_IsString(id) || !cJSON_IsString(op) || !cJSON_IsArray(shapes))
        return -EINVAL;
    snprintf(c->id, sizeof c->id, "%s", id->valuestring);
    snprintf(c->op, sizeof c->op, "%s", op->valuestring);
    cJSON_ArrayForEach(shape, shapes)
    {
        if (c->n_shapes == 6 || cJSON_GetArraySize(shape) > TD_MAX_RANK)
            return -EINVAL;
        struct td_tensor *t = &c->shape[c->n_shapes++];
        t->dtype =
            type_of(cJSON_IsArray(dtype) ? cJSON_GetArrayItem(dtype, c->n_shapes - 1) : dtype);
        if (!t->dtype)
            return -EINVAL;
        cJSON_ArrayForEach(dim, shape) t->shape[t->rank++] = dim->valueint;
    }
    translate(c, item);
    return 0;
}

int td_bench_each_case(const char *text, size_t length,
                       int (*each)(void *arg, const struct td_case *one), void *arg,
                       struct td_problem *problem)
{
    struct td_json json;
    int err = td_json_parse(&json, text, length, 32, problem);
    const cJSON *cases = cJSON_GetObjectItem(json.root, "cases"), *item;
    if (!err && !cJSON_IsArray(cases))
        err = td_problem_set(problem, EINVAL, "has no array called cases");
    if (err)
        goto out;
    cJSON_ArrayForEach(item, cases)
    {
        struct td_case c = {0};
        if (read_case(item, &c)) {
            err = td_problem_set(problem, EINVAL,
                                 "a case lacks id, op or shapes, or its dtype is none");
            break;
        }
        if ((err = each(arg, &c)))
            break;
    }
out:
    td_json_free(&json);
    return err;
}

static const char builtin_cases[] =
    "{\"cases\":[{\"id\":\"add_1m\",\"op\":\"add\",\"shapes\":[[1048576],[1048576]]},"
    "{\"id\":\"add_small\",\"op\":\"add\",\"shapes\":[[256],[256]]},"
    "{\"id\":\"softmax_1536x128\",\"op\":\"softmax\",\"shapes\":[[1536,128]],\"axis\":-1},"
    "{\"id\":\"layernorm_128x768\",\"op\":\"layer_norm\",\"shapes\":[[128,768],[768],[768]]},"
    "{\"id\":\"linear_128x768x768\",\"op\":\"linear\",\"shapes\":[[128,768],[768,768],[768]]},"
    "{\"id\":\"matmul_1024\",\"op\":\"matmul\",\"shapes\":[[1024,1024],[1024,1024]]}]}";

char *td_bench_read_cases(const char *path, size_t *length)
{
    FILE *file = path ? fopen(path, "re") : NULL;
    char *text = malloc(1 << 20);
    *length = 0;
    if (!path && text) {
        *length = sizeof builtin_cases - 1;
        memcpy(text, builtin_cases, *length);
    } else if (file && text) {
        *length = fread(text, 1, 1 << 20, file);
    } else {
        free(text);
        text = NULL;
    }
    if (file)
        fclose(file);
    return text;
}

int td_bench_fill(struct td_arena *arena, struct td_tensor *t)
{
    int64_t n = td_numel(t);
    size_t size = td_dtype_size(t->dtype);
    uint32_t seed = 12345;
    char *to = t->data = td_arena_alloc(arena, td_nbytes(t) + 1);
    if (!to)
        return -ENOMEM;
    for (int64_t i = 0; i < n; i++, to += size) {
        seed = seed * 1664525 + 1013904223;
        double wide = (double)(seed >> 8) * 0x1p-23 - 1;
        float real = (float)wide;
        uint16_t half = (uint16_t)((t->dtype == TD_f16 ? 0x3800 : 0x3f00) | (seed >> 24 & 0x3f));
        int64_t whole = seed >> (t->dtype == TD_bool ? 31 : 26);
        memcpy(to,
               t->dtype == TD_f32               ? (void *)&real
               : t->dtype == TD_f64             ? (void *)&wide
               : td_dtype_kind(t->dtype) == 'f' ? (void *)&half
                                                : (void *)&whole,
               size);
    }
    return 0;
}
