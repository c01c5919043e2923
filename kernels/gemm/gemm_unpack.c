/* The way back from panels to the matrix that they were packed of (gemm_simd.c, gemm_group.h). */
#include "kernels/gemm/gemm.h"
#include "kernels/half.h"

#include <string.h>

/* The offset of element j of row k in the panels, in elements. */
static inline int64_t packed_at(const struct td_panels *p, int64_t k, int64_t j)
{
    const int64_t group = p->group ? p->group : 1, step = p->group ? group * p->pad : 1;
    const int64_t depth = (p->k + step - 1) / step * step; /* elements of a column in a panel */
    return j / p->width * depth * p->width + (k / group * p->width + j % p->width) * group +
           k % group;
}

/* Where rows of plain are contiguous and elements have the same size in both: copies the part of
 * each row that a panel has at once. */
static void unpack_runs(const struct td_panels *p, char *plain, const char *packed, size_t size)
{
    for (int64_t j = 0; j < p->n; j += p->width) {
        size_t run = (size_t)(p->n - j < p->width ? p->n - j : p->width) * size;
        for (int64_t k = 0; k < p->k; k++)
            memcpy(plain + (size_t)(k * p->step_k + j) * size,
                   packed + (size_t)packed_at(p, k, j) * size, run);
    }
}

/* FP16, which is FP32 there. */
static void unpack_f16(const struct td_panels *p, uint16_t *plain, const float *packed)
{
    for (int64_t k = 0; k < p->k; k++)
        for (int64_t j = 0; j < p->n; j++)
            plain[k * p->step_k + j * p->step_n] = td_f32_to_f16(packed[packed_at(p, k, j)]);
}

/* Of elements of size bytes, which lie in as many or more. */
static inline __attribute__((always_inline)) void unpack(const struct td_panels *p, char *plain,
                                                         const char *packed, const size_t size)
{
    const size_t each = p->b == TD_i8 && !p->group ? 1 : 4 / (size_t)(p->group ? p->group : 1);
    for (int64_t k = 0; k < p->k; k++)
        for (int64_t j = 0; j < p->n; j++) {
            int64_t at = packed_at(p, k, j);
            memcpy(plain + (size_t)(k * p->step_k + j * p->step_n) * size,
                   packed + (size_t)at * each, size);
        }
}

void td_gemm_unpack(const struct td_tensor *plain, const void *packed, const void *key)
{
    const struct td_panels *p = key;
    /* BF16 is the upper half of the FP32 that it was widened to. */
    size_t skip = !p->group && p->b == TD_bf16 ? 2 : 0, size = td_dtype_size(plain->dtype);
    const char *from = (const char *)packed + skip;
    if (!p->group && p->step_n == 1 && (size == 4 || p->b == TD_i8))
        unpack_runs(p, plain->data, from, size);
    else if (size == 4)
        unpack(p, plain->data, from, 4);
    else if (p->b == TD_f16)
        unpack_f16(p, plain->data, packed);
    else if (size == 2)
        unpack(p, plain->data, from, 2);
    else
        unpack(p, plain->data, from, 1);
    /* Signs are flipped where the level's instruction wants one side of the other kind. */
    bool flipped = p->group == 4 && p->pad == 1 && p->a == p->b;
    for (int64_t i = 0; flipped && i < p->k * p->n; i++)
        ((uint8_t *)plain->data)[i] ^= 0x80;
}
