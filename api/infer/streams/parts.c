/* Rows of tensors, and the results of a call's parts, where they stay apart or a model's runs have
 * left them. */
#include "api/infer/call.h"

#include <string.h>

/* ---- rows of a tensor ---- */

/* Bytes of one row beyond dimension dim, and how many blocks of rows there are before it. */
static size_t row_bytes(const struct td_tensor *t, int dim, int64_t *blocks)
{
    size_t bytes = td_dtype_size(t->dtype);
    *blocks = 1;
    for (int d = 0; d < t->rank; d++) {
        if (d < dim)
            *blocks *= t->shape[d];
        else if (d > dim)
            bytes *= (size_t)t->shape[d];
    }
    return bytes;
}

void td_streams_copy_rows(const struct td_tensor *whole, int dim, int64_t begin, int64_t count,
                          char *part, bool back)
{
    int64_t blocks;
    size_t row = row_bytes(whole, dim, &blocks), size = (size_t)count * row;
    for (int64_t b = 0; b < blocks; b++) {
        char *at = (char *)whole->data + (size_t)(b * whole->shape[dim] + begin) * row;
        char *piece = part + (size_t)b * size;
        memcpy(back ? at : piece, back ? piece : at, size);
    }
}

void td_streams_rows(const struct td_streams *s, struct td_tensor *t, int dim, int64_t begin,
                     int64_t count)
{
    if (dim == 0)
        t->data = (char *)t->data + (int64_t)td_nbytes(t) / s->batch * begin;
    t->shape[dim] = count;
    t->weight = NULL;
}

/* ---- results ---- */

const struct td_tensor *td_streams_part_result(const struct td_streams *s, int part, int output)
{
    return td_model_result(s->part[part].results, output);
}

size_t td_streams_bytes(const struct td_infer *in, int output)
{
    struct td_tensor part;
    const struct td_streams *s = &in->streams;
    return s->apart ? td_streams_result(in, output, s->parts, &part) : td_nbytes(&in->out[output]);
}

/* Where the part begins, from the output's first byte; part may be one behind the last. */
static size_t begin_of(const struct td_streams *s, int output, int part)
{
    size_t at = 0;
    if (s->part) { /* of a model, of any sizes */
        for (int k = 0; k < part; k++)
            at += td_nbytes(td_streams_part_result(s, k, output));
        return at;
    }
    const struct td_tensor *shape_of = s->apart[output].shape_of;
    int longer = s->parts < 2 ? 0 : (int)(s->batch % s->parts);
    int before = !longer || part < longer ? part : longer; /* of them, as long as the first */
    return (size_t)before * td_nbytes(&shape_of[0]) +
           (size_t)(part - before) * td_nbytes(&shape_of[1]);
}

size_t td_streams_result(const struct td_infer *in, int output, int part, struct td_tensor *t)
{
    const struct td_streams *s = &in->streams;
    size_t at = begin_of(s, output, part);
    int longer = s->parts < 2 ? 0 : (int)(s->batch % s->parts);
    *t = s->part && part < s->parts ? *td_streams_part_result(s, part, output)
                                    : s->apart[output].shape_of[longer && part >= longer];
    t->data = (char *)in->out[output].data + at;
    return at;
}

void td_streams_join(const struct td_infer *in, int output)
{
    const struct td_streams *s = &in->streams;
    const struct td_tensor *out = &in->out[output];
    int at = s->out[output] == TD_OPEN ? 0 : s->out[output];
    int64_t begin = 0;
    for (int k = 0; k < (at == TD_WHOLE && !s->apart ? 1 : s->parts); k++) {
        const struct td_tensor *t = td_streams_part_result(s, k, output);
        struct td_tensor to;
        if (s->apart || at == TD_WHOLE) {
            size_t from = s->apart ? td_streams_result(in, output, k, &to) : 0;
            memcpy((char *)out->data + from, t->data, td_nbytes(t));
            continue;
        }
        td_streams_copy_rows(out, at, begin, t->shape[at], t->data, true);
        begin += t->shape[at];
    }
}

void td_streams_free_parts(struct td_streams *s)
{
    for (int k = 0; k < s->parts && s->part; k++) {
        td_model_free_results(&s->part[k].results);
        td_arena_destroy(s->part[k].arena);
    }
    s->part = NULL;
}
