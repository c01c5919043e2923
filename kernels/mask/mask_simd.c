/* nonzero, masked_select and masked_scatter, rows of all types: row by row, a row being the last
 * dimension, in order, since each element's place follows from all before it. */
#include "kernels/mask/mask.h"

#include <string.h>

/* A walk over the rows of all, with up to two tensors broadcast to it. */
struct rows {
    const struct td_tensor *all;
    int n;
    int64_t step[2][TD_MAX_RANK], at[2], now[TD_MAX_RANK];
    int64_t size, left; /* elements of a row; rows to come */
};

static void begin(struct rows *r, const struct td_tensor *all, const struct td_tensor *a,
                  const struct td_tensor *b)
{
    *r = (struct rows){.all = all, .n = b ? 2 : 1, .size = 1};
    td_mask_steps(a, all, r->step[0]);
    if (b)
        td_mask_steps(b, all, r->step[1]);
    if (all->rank)
        r->size = all->shape[all->rank - 1];
    r->left = r->size ? td_numel(all) / r->size : 0;
}

/* Goes on to the next row; false: there is none, or somebody wants it to stop. */
static bool next(struct rows *r)
{
    if (--r->left <= 0 || (r->left * r->size % TD_STRIDE < r->size && td_stopped()))
        return false;
    for (int d = r->all->rank - 2; d >= 0; d--) {
        bool over = ++r->now[d] == r->all->shape[d];
        for (int k = 0; k < r->n; k++)
            r->at[k] += over ? -(r->now[d] - 1) * r->step[k][d] : r->step[k][d];
        if (!over)
            break;
        r->now[d] = 0;
    }
    return true;
}

static int64_t inner(const struct rows *r, int k)
{
    return r->all->rank ? r->step[k][r->all->rank - 1] : 0;
}

TD_KERNEL(nonzero)
{
    const struct td_tensor *self = &call->arg[0].tensor;
    int rank = self->rank;
    int64_t *out = call->out[0].data, row = 0;
    struct rows r;
    begin(&r, self, self, NULL);
    if (!r.left)
        return;
    do
        for (int64_t i = 0; i < r.size; i++) {
            if (!td_mask_is_set(self, r.at[0] + i))
                continue;
            for (int d = 0; d < rank - 1; d++)
                out[row * rank + d] = r.now[d];
            if (rank)
                out[row * rank + rank - 1] = i;
            row++;
        }
    while (next(&r));
    *call->rows = row;
}

#define SELECT(bits)                                                                               \
    static int64_t select_##bits(const void *from, int64_t step, const uint8_t *mask,              \
                                 int64_t mask_step, int64_t n, void *to)                           \
    {                                                                                              \
        int64_t k = 0;                                                                             \
        for (int64_t i = 0; i < n; i++)                                                            \
            if (mask[i * mask_step])                                                               \
                ((uint##bits##_t *)to)[k++] = ((const uint##bits##_t *)from)[i * step];            \
        return k;                                                                                  \
    }                                                                                              \
    static int64_t scatter_##bits(const void *from, int64_t step, const uint8_t *mask,             \
                                  int64_t mask_step, int64_t n, const void *source, void *to)      \
    {                                                                                              \
        int64_t k = 0;                                                                             \
        const uint##bits##_t *s = source;                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            ((uint##bits##_t *)to)[i] =                                                            \
                mask[i * mask_step] ? s[k++] : ((const uint##bits##_t *)from)[i * step];           \
        return k;                                                                                  \
    }
SELECT(8)
SELECT(16)
SELECT(32)
SELECT(64)

TD_KERNEL(masked_select)
{
    const struct td_tensor *self = &call->arg[0].tensor, *mask = &call->arg[1].tensor;
    struct td_tensor all = td_mask_common(call);
    size_t size = td_dtype_size(self->dtype);
    int64_t (*const select)(const void *, int64_t, const uint8_t *, int64_t, int64_t, void *) =
        size == 1   ? select_8
        : size == 2 ? select_16
        : size == 4 ? select_32
                    : select_64;
    struct rows r;
    begin(&r, &all, self, mask);
    int64_t done = 0;
    if (!r.left)
        return;
    do
        done += select((const char *)self->data + (size_t)r.at[0] * size, inner(&r, 0),
                       (const uint8_t *)mask->data + r.at[1], inner(&r, 1), r.size,
                       (char *)call->out[0].data + (size_t)done * size);
    while (next(&r));
    *call->rows = done;
}

TD_KERNEL(masked_scatter)
{
    const struct td_tensor *self = &call->arg[0].tensor, *mask = &call->arg[1].tensor;
    size_t size = td_dtype_size(self->dtype);
    int64_t (*const scatter)(const void *, int64_t, const uint8_t *, int64_t, int64_t, const void *,
                             void *) = size == 1   ? scatter_8
                                       : size == 2 ? scatter_16
                                       : size == 4 ? scatter_32
                                                   : scatter_64;
    const char *source = call->arg[2].tensor.data;
    char *out = call->out[0].data;
    struct rows r;
    begin(&r, &call->out[0], self, mask);
    if (!r.left)
        return;
    do {
        int64_t used =
            scatter((const char *)self->data + (size_t)r.at[0] * size, inner(&r, 0),
                    (const uint8_t *)mask->data + r.at[1], inner(&r, 1), r.size, source, out);
        source += (size_t)used * size;
        out += (size_t)r.size * size;
    } while (next(&r));
}
