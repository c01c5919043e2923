/* Tensor files as request bodies. Both formats are a small text header before raw little-endian
 * elements; nothing of either is trusted before it has been compared with the body's size.
 * Formats: NumPy NEP 1; huggingface/safetensors README. */
#include "api/tensors/files.h"
#include "api/tensors/tensors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int bad(struct td_problem *problem, const char *format, const char *what)
{
    return td_problem_set(problem, EINVAL, "the %s file: %s", format, what);
}

/* ---- .npy ---- */

/* Goes over blanks and the word, if it is there. */
static bool take(const char **at, const char *word)
{
    const char *from = *at + strspn(*at, " ");
    size_t n = strlen(word);
    if (strncmp(from, word, n))
        return false;
    *at = from + n;
    return true;
}

static bool take_dtype(const char **at, enum td_dtype *dtype)
{
    static const struct {
        const char *descr;
        enum td_dtype dtype;
    } types[] = {{"'|b1'", TD_bool}, {"'|u1'", TD_u8},  {"'|i1'", TD_i8},  {"'<i2'", TD_i16},
                 {"'<i4'", TD_i32},  {"'<i8'", TD_i64}, {"'<f2'", TD_f16}, {"'<f4'", TD_f32},
                 {"'<f8'", TD_f64},  {"'<u2'", TD_u16}, {"'<u4'", TD_u32}, {"'<u8'", TD_u64}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (take(at, types[i].descr)) {
            *dtype = types[i].dtype;
            return true;
        }
    return false;
}

/* (), (3,), (3, 4) or (3, 4,). */
static bool take_shape(const char **at, struct td_tensor *t)
{
    int64_t n = 1;
    if (!take(at, "("))
        return false;
    bool comma = true;
    while (!take(at, ")")) {
        char *end;
        *at += strspn(*at, " ");
        errno = 0;
        long long size = strtoll(*at, &end, 10);
        if (!comma || **at < '0' || **at > '9' || errno || t->rank == TD_MAX_RANK ||
            (size && n > (INT64_C(1) << 46) / size))
            return false;
        n *= size ? size : 1;
        t->shape[t->rank++] = size;
        *at = end;
        comma = take(at, ",");
    }
    return t->rank != 1 || comma; /* (3) is no tuple */
}

/* The header: a Python dictionary of just these three, in any order. What was wrong, or NULL. */
static const char *npy_header(const char *at, struct td_tensor *t, bool *fortran)
{
    static const char *const keys[] = {"'descr'", "'fortran_order'", "'shape'"};
    unsigned seen = 0;
    bool more = take(&at, "{");
    while (more && !take(&at, "}")) {
        int k = 0;
        while (k < 3 && !take(&at, keys[k]))
            k++;
        if (k == 3 || seen >> k & 1 || !take(&at, ":"))
            return "its header is no dictionary of descr, fortran_order and shape";
        seen |= 1u << k;
        if (k == 0 && !take_dtype(&at, &t->dtype))
            return "its type is none of bool, u1, i1, i2, i4, i8, f2, f4, f8 in little-endian "
                   "order";
        if (k == 1 && !(*fortran = take(&at, "True")) && !take(&at, "False"))
            return "its fortran_order is neither True nor False";
        if (k == 2 && !take_shape(&at, t))
            return "its shape is no tuple of at most 8 sizes";
        more = take(&at, ",");
        if (!more && !take(&at, "}"))
            return "its header does not end";
    }
    return seen != 7               ? "its header lacks descr, fortran_order or shape"
           : at[strspn(at, " \n")] ? "its header goes on behind its end"
                                   : NULL;
}

/* Rearranges Fortran order, which is C order with the dimensions the other way round. */
static int to_c_order(struct td_request *req, struct td_tensor *t, struct td_problem *problem)
{
    t->data = td_arena_align(req->arena, t->data, td_nbytes(t), td_dtype_size(t->dtype));
    if (!t->data)
        return td_problem_set(problem, ENOMEM, "no memory for the tensor");
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
    err = scratch && t->data ? 0 : td_problem_set(problem, ENOMEM, "no memory for the tensor");
    if (!err) {
        td_run_execute(run, scratch);
        err = run->error;
        *problem = run->problem;
    }
    td_run_release(run);
    return err;
}

bool td_is_npy(const struct td_request *req)
{
    return req->body_size >= 12 && !memcmp(req->body, "\x93NUMPY", 6);
}

int td_read_npy(struct td_request *req, struct td_tensor *t, struct td_problem *problem)
{
    const unsigned char *b = (const unsigned char *)req->body;
    *t = (struct td_tensor){0};
    if (!td_is_npy(req) || b[6] < 1 || b[6] > 3 || b[7])
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
    bool fortran = false;
    const char *wrong =
        strlen(head) == length ? npy_header(head, t, &fortran) : "its header has a zero character";
    if (wrong)
        return bad(problem, ".npy", wrong);
    t->data = req->body + start + length;
    if (td_nbytes(t) != req->body_size - start - length)
        return bad(problem, ".npy", "its data is not as long as its shape and type need");
    return fortran ? to_c_order(req, t, problem) : 0;
}

/* ---- .safetensors ---- */

/* An offset: a whole number up to size; -1: it is none. */
static int64_t offset(const cJSON *item, size_t size)
{
    bool right = cJSON_IsNumber(item) && !td_json_is_float(item) && item->valuedouble >= 0 &&
                 item->valuedouble <= (double)size;
    return right ? (int64_t)item->valuedouble : -1;
}

static int one_tensor(const cJSON *item, char *data, size_t size, struct td_tensor *t,
                      struct td_problem *problem)
{
    static const char *const members[] = {"dtype", "shape", "data_offsets", NULL};
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    const cJSON *range = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    const char *who = item->string;
    int err = td_json_members(item, who, members, problem);
    if (!err && (!cJSON_IsObject(item) || cJSON_GetArraySize(item) != 3))
        err = td_problem_set(problem, EINVAL,
                             "%.60s: must have dtype, shape and data_offsets, once each", who);
    if (err || (err = td_json_shape(item, t, who, problem)))
        return err;
    t->dtype = cJSON_IsString(dtype) ? td_safetensors_dtype(dtype->valuestring) : TD_DTYPE_none;
    if (!t->dtype)
        return td_problem_set(problem, EINVAL, "%.60s: its dtype is not understood", who);
    int64_t from = offset(cJSON_GetArrayItem(range, 0), size);
    int64_t to = offset(cJSON_GetArrayItem(range, 1), size);
    if (cJSON_GetArraySize(range) != 2 || from < 0 || to < from ||
        (size_t)(to - from) != td_nbytes(t))
        return td_problem_set(problem, EINVAL, "%.60s: its data_offsets do not fit shape or file",
                              who);
    t->data = data + from;
    return 0;
}

struct entry {
    const char *name;
    struct td_tensor tensor;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const struct td_tensor *x = &((const struct entry *)a)->tensor;
    const struct td_tensor *y = &((const struct entry *)b)->tensor;
    size_t m = td_nbytes(x), n = td_nbytes(y); /* empty ones before what begins there */
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return (m > n) - (m < n);
}

/* No name comes twice, and the tensors fill the data, one behind the other. */
static int check_entries(struct entry *entry, int n, char *data, size_t size,
                         struct td_problem *problem)
{
    qsort(entry, (size_t)n, sizeof *entry, by_name);
    for (int i = 1; i < n; i++)
        if (!strcmp(entry[i - 1].name, entry[i].name))
            return td_problem_set(problem, EINVAL, "%.60s: is there twice", entry[i].name);
    qsort(entry, (size_t)n, sizeof *entry, by_place);
    char *end = data;
    for (int i = 0; i < n; i++) {
        if (entry[i].tensor.data != end)
            return td_problem_set(problem, EINVAL,
                                  "%.60s: its data begins at byte %td, %td is "
                                  "right: tensors lie one behind the other",
                                  entry[i].name, (char *)entry[i].tensor.data - data, end - data);
        end += td_nbytes(&entry[i].tensor);
    }
    return end == data + size ? 0
                              : bad(problem, ".safetensors", "has bytes behind its last tensor");
}

static int read_entries(struct td_request *req, const cJSON *root, char *data, td_each_tensor *each,
                        void *arg, struct td_problem *problem)
{
    size_t size = req->body_size - (size_t)(data - req->body);
    struct entry *entry =
        td_arena_alloc(req->arena, ((size_t)cJSON_GetArraySize(root) + 1) * sizeof *entry);
    int n = 0, err = 0;
    if (!entry)
        return td_problem_set(problem, ENOMEM, "no memory for the header");
    for (const cJSON *item = root->child; item && !err; item = item->next) {
        if (!strcmp(item->string, "__metadata__"))
            continue;
        entry[n] = (struct entry){.name = item->string};
        err = one_tensor(item, data, size, &entry[n++].tensor, problem);
    }
    err = err ? err : check_entries(entry, n, data, size, problem);
    for (int i = 0; i < n && !err; i++)
        err = each(arg, entry[i].name, &entry[i].tensor, problem);
    return err;
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
    if (!err)
        err = read_entries(req, json.root, req->body + 8 + length, each, arg, problem);
    td_json_free(&json);
    return err;
}

const char *td_safetensors_text(struct td_request *req, const char *key)
{
    uint64_t length;
    struct td_json json;
    struct td_problem problem;
    const char *text = NULL;
    if (req->body_size < 8)
        return NULL;
    memcpy(&length, req->body, 8);
    if (length > req->body_size - 8)
        return NULL;
    if (!td_json_parse(&json, req->body + 8, length, req->service->limits.json_depth, &problem)) {
        const cJSON *found = td_json_member(td_json_member(json.root, "__metadata__"), key);
        if (cJSON_IsString(found))
            text = td_arena_strdup(req->arena, found->valuestring, strlen(found->valuestring));
    }
    td_json_free(&json);
    return text;
}
