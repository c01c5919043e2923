/* Tensor files as replies: NumPy's .npy and Hugging Face's .safetensors. */
#include "api/tensors/files.h"
#include "api/tensors/tensors.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A type in the words of both formats; npy NULL: NumPy has none. */
static const struct words {
    enum td_dtype dtype;
    const char *npy, *safetensors;
} words[] = {{TD_bool, "|b1", "BOOL"}, {TD_u8, "|u1", "U8"},    {TD_i8, "|i1", "I8"},
             {TD_i16, "<i2", "I16"},   {TD_i32, "<i4", "I32"},  {TD_i64, "<i8", "I64"},
             {TD_f16, "<f2", "F16"},   {TD_bf16, NULL, "BF16"}, {TD_f32, "<f4", "F32"},
             {TD_f64, "<f8", "F64"},   {TD_u16, "<u2", "U16"},  {TD_u32, "<u4", "U32"},
             {TD_u64, "<u8", "U64"}};

static const struct words *words_of(enum td_dtype dtype)
{
    const struct words *w = words;
    while (w->dtype != dtype)
        w++;
    return w;
}

enum td_dtype td_safetensors_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(name, words[i].safetensors))
            return words[i].dtype;
    return TD_DTYPE_none;
}

size_t td_npy_head(const struct td_tensor *t, char head[TD_NPY_HEAD])
{
    char shape[TD_MAX_RANK * 22 + 1] = "";
    size_t n = 0, length = TD_NPY_HEAD - 10;
    const char *type = words_of(t->dtype)->npy;
    if (!type)
        return 0;
    for (int i = 0; i < t->rank; i++)
        n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%lld", i ? ", " : "",
                              (long long)t->shape[i]);
    memcpy(head, "\x93NUMPY\1\0", 8);
    head[8] = (char)(length & 255);
    head[9] = (char)(length >> 8);
    int size =
        snprintf(head + 10, length, "{'descr': '%s', 'fortran_order': False, 'shape': (%s%s), }",
                 type, shape, t->rank == 1 ? "," : "");
    memset(head + 10 + size, ' ', length - (size_t)size - 1);
    head[TD_NPY_HEAD - 1] = '\n';
    return TD_NPY_HEAD;
}

int td_npy_response(struct td_request *req, const struct td_tensor *t)
{
    size_t bytes = td_nbytes(t);
    char *body = td_arena_alloc(req->arena, TD_NPY_HEAD + bytes);
    if (!body)
        return td_api_problem(req, -ENOMEM, "no memory for the reply");
    if (!td_npy_head(t, body))
        return td_api_problem(req, -EINVAL, "Accept: a .npy has no %s; JSON and .safetensors have",
                              td_dtype_name(t->dtype));
    memcpy(body + TD_NPY_HEAD, t->data, bytes);
    req->response.status = 200;
    req->response.type = "application/x-npy";
    req->response.body = body;
    req->response.size = TD_NPY_HEAD + bytes;
    return 0;
}

/* The header, padded to whole words, with its length in front. */
static void write_head(struct td_writer *w, const struct td_file_tensor *list, int n,
                       const char *const *text)
{
    size_t at = 0;
    td_write_open(w, NULL, '{');
    if (text)
        td_write_open(w, "__metadata__", '{');
    for (int i = 0; text && text[i]; i += 2)
        td_write_str(w, text[i], text[i + 1]);
    if (text)
        td_write_close(w, '}');
    for (int i = 0; i < n; i++) {
        const struct td_tensor *t = list[i].tensor;
        td_write_key(w, list[i].name);
        td_write_open(w, NULL, '{');
        td_write_str(w, "dtype", words_of(t->dtype)->safetensors);
        td_write_shape(w, t);
        td_write_open(w, "data_offsets", '[');
        td_write_int(w, NULL, (int64_t)at);
        td_write_int(w, NULL, (int64_t)(at += td_nbytes(t)));
        td_write_close(w, ']');
        td_write_close(w, '}');
    }
    td_write_close(w, '}');
    for (w->comma = false; !w->failed && w->length % 8; w->comma = false)
        td_write_raw(w, NULL, " ", 1);
}

int td_safetensors_response(struct td_request *req, const struct td_file_tensor *list, int n,
                            const char *const *text)
{
    struct td_writer w;
    size_t bytes = 8;
    td_write_init(&w, req->arena, 1024);
    write_head(&w, list, n, text);
    for (int i = 0; i < n; i++)
        bytes += td_nbytes(list[i].tensor);
    char *body = w.failed ? NULL : td_arena_alloc(req->arena, bytes + w.length);
    if (!body)
        return td_api_problem(req, -ENOMEM, "no memory for the reply");
    uint64_t length = w.length;
    memcpy(body, &length, 8);
    char *at = (char *)memcpy(body + 8, w.text, w.length) + w.length;
    for (int i = 0; i < n; i++) {
        size_t size = td_nbytes(list[i].tensor);
        if (size)
            memcpy(at, list[i].tensor->data, size);
        at += size;
    }
    req->response.status = 200;
    req->response.type = "application/x-safetensors";
    req->response.body = body;
    req->response.size = bytes + w.length;
    return 0;
}
