/* Tensor files as request bodies. Both formats are a small text header before raw little-endian
 * elements; nothing of either is trusted before it has been compared with the body's size.
 * Formats: NumPy NEP 1; huggingface/safetensors README. */
#include "api/tensors/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int bad(struct td_problem *problem, const char *format, const char *what)
{
    return td_problem_set(problem, EINVAL, "the %s file: %s", format, what);
}

/* ---- .npy ---- */

static enum td_dtype npy_dtype(const char *descr)
{
    static const struct {
        const char *descr;
        enum td_dtype dtype;
    } types[] = {{"|b1", TD_bool}, {"|u1", TD_u8},  {"|i1", TD_i8},
                 {"<i2", TD_i16},  {"<i4", TD_i32}, {"<i8", TD_i64},
                 {"<f2", TD_f16},  {"<f4", TD_f32}, {"<f8", TD_f64}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strncmp(descr, types[i].descr, 3))
            return types[i].dtype;
    return TD_DTYPE_none;
}

/* Rearranges Fortran order, which is C order with the dimensions the other way round. */
static int to_c_order(struct td_request *req, struct td_tensor *t, struct td_problem *problem)
{
    struct td_named args[] = {{.name = "self", .value = {.kind = TD_KIND_tensor, .tensor = *t}},
                              {.name = "dims", .value = {.kind = TD_KIND_ints}}};
    struct td_run *run = td_arena_alloc(req->arena, sizeof *run);
    size_t bytes = 0;
    for (int d = 0; d < t->rank; d++) {
        args[0].value.tensor.shape[d] = t->shape[t->rank - 1 - d];
        args[1].value.ints.v[args[1].value.ints.n++] = t->rank - 1 - d;
    }
    int err = run ? td_run_bind(run, "permute", args, 2, NULL) : -ENOMEM;
    if (!err) {
        run->call.threads = req->worker ? td_worker_threads(req->worker) : 1;
        err = td_run_select(run, &bytes);
    }
    if (err)
        return td_problem_set(problem, -err, "%s", run ? run->problem.text : "no memory");
    void *scratch = td_arena_alloc(req->arena, bytes + 1);
    t->data = run->call.out[0].data = td_arena_alloc(req->arena, td_nbytes(t) + 1);
    if (!scratch || !t->data)
        return td_problem_set(problem, ENOMEM, "no memory for the tensor");
    td_run_execute(run, scratch);
    return 0;
}

static int npy_shape(const char *text, struct td_tensor *t)
{
    const char *at = strchr(text, '(');
    if (!at)
        return -EINVAL;
    int64_t n = 1;
    for (at++; *at && *at != ')';) {
        char *end;
        errno = 0;
        long long size = strtoll(at, &end, 10);
        if (end == at || size < 0 || errno || t->rank == TD_MAX_RANK ||
            (size && n > (INT64_C(1) << 46) / size))
            return -EINVAL;
        n *= size ? size : 1;
        t->shape[t->rank++] = size;
        at = end + strspn(end, ", ");
    }
    return *at == ')' ? 0 : -EINVAL;
}

int td_read_npy(struct td_request *req, struct td_tensor *t, struct td_problem *problem)
{
    const unsigned char *b = (const unsigned char *)req->body;
    *t = (struct td_tensor){0};
    if (req->body_size < 12 || memcmp(b, "\x93NUMPY", 6) || b[6] < 1 || b[6] > 3)
        return bad(problem, ".npy", "does not begin as one");
    size_t start = b[6] == 1 ? 10 : 12;
    size_t length = b[6] == 1
                        ? (size_t)(b[8] | b[9] << 8)
                        : b[8] | (size_t)b[9] << 8 | (size_t)b[10] << 16 | (size_t)b[11] << 24;
    if (length > req->body_size - start || length > 65536)
        return bad(problem, ".npy", "its header is longer than the file");
    char *head = td_arena_strdup(req->arena, req->body + start, length);
    if (!head)
        return td_problem_set(problem, ENOMEM, "no memory for the header");
    const char *descr = strstr(head, "'descr':"), *shape = strstr(head, "'shape':");
    const char *order = strstr(head, "'fortran_order':");
    const char *quote = descr ? strchr(descr + 8, '\'') : NULL;
    if (!descr || !shape || !order || !quote || npy_shape(shape, t))
        return bad(problem, ".npy", "its header lacks descr, fortran_order or shape");
    t->dtype = npy_dtype(quote + 1);
    if (!t->dtype)
        return bad(problem, ".npy",
                   "its type is none of bool, u1, i1, i2, i4, i8, f2, f4, f8 in "
                   "little-endian order");
    t->data = req->body + start + length;
    if (td_nbytes(t) != req->body_size - start - length)
        return bad(problem, ".npy", "its data is not as long as its shape and type need");
    const char *word = order + 16 + strspn(order + 16, " ");
    return *word == 'T' ? to_c_order(req, t, problem) : 0;
}

/* ---- .safetensors ---- */

static enum td_dtype safetensors_dtype(const char *name)
{
    static const struct {
        const char *name;
        enum td_dtype dtype;
    } types[] = {{"BOOL", TD_bool}, {"U8", TD_u8},   {"I8", TD_i8},   {"I16", TD_i16},
                 {"I32", TD_i32},   {"I64", TD_i64}, {"F16", TD_f16}, {"BF16", TD_bf16},
                 {"F32", TD_f32},   {"F64", TD_f64}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(name, types[i].name))
            return types[i].dtype;
    return TD_DTYPE_none;
}

static int one_tensor(const cJSON *item, char *data, size_t size, struct td_tensor *t,
                      struct td_problem *problem)
{
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    const cJSON *range = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    const cJSON *from = cJSON_GetArrayItem(range, 0), *to = cJSON_GetArrayItem(range, 1);
    int err = td_json_shape(item, t, item->string, problem);
    if (err)
        return err;
    t->dtype = cJSON_IsString(dtype) ? safetensors_dtype(dtype->valuestring) : TD_DTYPE_none;
    if (!t->dtype)
        return td_problem_set(problem, EINVAL, "%.60s: its dtype is not understood", item->string);
    if (!cJSON_IsNumber(from) || !cJSON_IsNumber(to) || from->valuedouble < 0 ||
        to->valuedouble < from->valuedouble || to->valuedouble > (double)size ||
        to->valuedouble - from->valuedouble != (double)td_nbytes(t))
        return td_problem_set(problem, EINVAL, "%.60s: its data_offsets do not fit shape or file",
                              item->string);
    t->data = data + (size_t)from->valuedouble;
    return 0;
}

int td_read_safetensors(struct td_request *req, td_each_tensor *each, void *arg,
                        struct td_problem *problem)
{
    uint64_t length = 0;
    struct td_json json;
    if (req->body_size >= 8)
        memcpy(&length, req->body, 8);
    if (req->body_size < 8 || length > req->body_size - 8)
        return bad(problem, ".safetensors", "its header is longer than the file");
    int err = td_json_parse(&json, req->body + 8, length, req->service->limits.json_depth, problem);
    if (!err && !cJSON_IsObject(json.root))
        err = bad(problem, ".safetensors", "its header is no object");
    const cJSON *item = err ? NULL : json.root->child;
    char *data = req->body + 8 + length;
    for (; item && !err; item = item->next) {
        struct td_tensor t = {0};
        if (!strcmp(item->string, "__metadata__"))
            continue;
        err = one_tensor(item, data, req->body_size - 8 - length, &t, problem);
        if (!err)
            err = each(arg, item->string, &t, problem);
    }
    td_json_free(&json);
    return err == -E2BIG ? -EINVAL : err;
}
