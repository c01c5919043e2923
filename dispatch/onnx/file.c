/* The memory of an ONNX file's messages, within a share that the file's size decides, and tensors,
 * whose elements are given back as soon as the model has them. */
#include "dispatch/onnx/file.h"
#include "pools/pools.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int td_onnx_no_memory(struct td_onnx_reader *r)
{
    return td_problem_set(r->problem, ENOMEM, "no memory for the model");
}

bool td_onnx_is_own(const char *domain)
{
    return !domain || !*domain || !strcmp(domain, "ai.onnx");
}

/* ---- messages ---- */

struct piece { /* of a message's memory */
    _Alignas(16) size_t bytes;
    _Alignas(16) unsigned char data[];
};

static void *take(void *reader, size_t size)
{
    struct td_onnx_reader *r = reader;
    size_t bytes = size + sizeof(struct piece);
    if (bytes < size || bytes > r->left || td_budget_take(&td_memory, bytes)) {
        r->exhausted = true;
        return NULL;
    }
    struct piece *piece = malloc(bytes);
    if (!piece) {
        td_budget_give(&td_memory, bytes);
        r->exhausted = true;
        return NULL;
    }
    piece->bytes = bytes;
    r->left -= bytes;
    return piece->data;
}

/* Bytes that are the file's own stay there. */
static bool is_in_file(const struct td_onnx_reader *r, const void *data)
{
    return (uintptr_t)data - (uintptr_t)r->bytes < r->size;
}

static void put_back(void *reader, void *data)
{
    struct td_onnx_reader *r = reader;
    if (!data || is_in_file(r, data))
        return;
    struct piece *piece = (void *)((char *)data - offsetof(struct piece, data));
    r->left += piece->bytes;
    td_budget_give(&td_memory, piece->bytes);
    free(piece);
}

/* A node of two bytes in the file is one of a hundred here: a small file may take many times its
 * size, a large one, which is weights, lists of numbers or texts, twelve times its own. */
void td_onnx_reader_init(struct td_onnx_reader *r, struct td_model *model, const void *file,
                         size_t size, struct td_problem *problem)
{
    size_t few = 64 * size + (1 << 16), many = 12 * size + (64 << 20);
    *r = (struct td_onnx_reader){.model = model, .problem = problem, .bytes = file, .size = size};
    r->left = few < many ? few : many;
    r->memory = (ProtobufCAllocator){.alloc = take, .free = put_back, .allocator_data = r};
}

/* ---- tensors ---- */

/* The elements where they stand one by one, in the width of the field. */
static size_t spelled_out(const TdOnnx__Tensor *t, enum td_dtype dtype, const void **data)
{
    switch (dtype) {
    case TD_f32:
        *data = t->float_data;
        return t->n_float_data;
    case TD_f64:
        *data = t->double_data;
        return t->n_double_data;
    case TD_i64:
        *data = t->int64_data;
        return t->n_int64_data;
    case TD_u32:
    case TD_u64:
        *data = t->uint64_data;
        return t->n_uint64_data;
    default:
        *data = t->int32_data;
        return t->n_int32_data;
    }
}

/* The fields of whole numbers hold narrower elements, too: they are moved together, and are raw
 * ones from then on (a function's tensor is read again in each of its calls). */
static void narrow(TdOnnx__Tensor *t, void *field, size_t held, size_t n, size_t width)
{
    char *v = field;
    for (size_t i = 0; i < n; i++)
        memmove(v + i * width, v + i * held, width);
    if (field == t->int32_data)
        t->int32_data = NULL;
    else
        t->uint64_data = NULL;
    t->n_int32_data = t->n_uint64_data = 0;
    t->raw_data = (ProtobufCBinaryData){n * width, field};
    t->has_raw_data = true;
}

static void drop_data(struct td_onnx_reader *r, TdOnnx__Tensor *t)
{
    put_back(r, t->raw_data.data);
    put_back(r, t->float_data);
    put_back(r, t->int32_data);
    put_back(r, t->int64_data);
    put_back(r, t->uint64_data);
    put_back(r, t->double_data);
    t->raw_data.data = NULL;
    t->float_data = NULL;
    t->int32_data = NULL;
    t->int64_data = NULL;
    t->uint64_data = NULL;
    t->double_data = NULL;
    t->has_raw_data = false;
    t->n_float_data = t->n_int32_data = t->n_int64_data = t->n_uint64_data = t->n_double_data = 0;
}

int td_onnx_shape_of(struct td_onnx_reader *r, const TdOnnx__Tensor *from, const char *name,
                     struct td_tensor *t)
{
    bool texts = from->data_type == TD_ONNX_STRING;
    *t = (struct td_tensor){.dtype = texts ? TD_i64 : td_onnx_dtype(from->data_type)};
    if (!t->dtype)
        return td_onnx_wrong(r, "tensor '%.100s': there are no elements of type %s here", name,
                             td_onnx_type_name(from->data_type));
    if (from->n_dims > TD_MAX_RANK)
        return td_onnx_wrong(r, "tensor '%.100s': at most %d dimensions are right, not %zu", name,
                             TD_MAX_RANK, from->n_dims);
    t->rank = (int)from->n_dims;
    bool fits = true;
    for (int d = 0; d < t->rank; d++) {
        t->shape[d] = from->dims[d];
        fits = fits && from->dims[d] >= 0;
    }
    return fits && td_fits(t) ? 0
                              : td_onnx_wrong(r, "tensor '%.100s': no tensor has such sizes", name);
}

int td_onnx_constant(struct td_onnx_reader *r, int value, TdOnnx__Tensor *from)
{
    struct td_tensor t;
    const char *name = td_onnx_or_empty(from->name);
    const void *data = from->raw_data.data;
    int err = td_onnx_shape_of(r, from, name, &t);
    if (err)
        return err;
    size_t width = td_dtype_size(t.dtype), n = from->raw_data.len / width;
    bool right = from->raw_data.len == n * width;
    void *external = NULL;
    if (from->data_location) {
        err = td_onnx_external(r, from, name, td_nbytes(&t), &external);
        if (err)
            return err;
        data = external;
        n = (size_t)td_numel(&t);
        right = true;
    } else if (!from->has_raw_data) {
        n = spelled_out(from, t.dtype, &data);
        if (data == from->int32_data && width < 4)
            narrow(from, from->int32_data, 4, n, width);
        else if (data == from->uint64_data && width < 8)
            narrow(from, from->uint64_data, 8, n, width);
        right = true;
    }
    if (!right || n != (size_t)td_numel(&t))
        return td_onnx_wrong(r, "tensor '%.100s': its data are not as many as its shape says",
                             name);
    t.data = (void *)(uintptr_t)data;
    err = td_program_constant(r->model, value, &t);
    if (!err && t.dtype == TD_bool) {
        uint8_t *made = r->model->constant[r->model->n_constants - 1].tensor.data;
        for (size_t i = 0; i < n; i++)
            made[i] = made[i] != 0;
    }
    if (external)
        td_onnx_free_external(external, td_nbytes(&t));
    if (!r->inlined)
        drop_data(r, from);
    if (err == -ENOMEM)
        return td_problem_set(r->problem, ENOMEM, "no memory for tensor '%.100s'", name);
    return err;
}
