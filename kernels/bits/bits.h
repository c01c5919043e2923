/* What the files of linear_bits share. Up to TD_BITS_FEW rows of input, all rows of the table add
 * in one order, and so give the same bits: an element is 32 of a block behind another, and one of
 * 16 sums, by its place: of 4 bits by that of its byte, which has the even element below, of 8 bits
 * by its own. Each sum is taken of a block, and then times its scale to the others; at the end the
 * upper half of the sums goes to the lower, until one is left. More rows are a matrix product,
 * which sums along k in FP32, the reference in double. */
#ifndef TD_KERNELS_BITS_H
#define TD_KERNELS_BITS_H

#include "kernels/gemm/gemm.h"

#define TD_BITS_SUMS 16
#define TD_BITS_FEW 4 /* rows that a block of the weight meets at once */

struct td_bits {
    const uint8_t *weight, *zero;         /* zero NULL: half of what the bits hold */
    const float *scale, *input, *bias;    /* bias NULL: none */
    float *out;                           /* m by n */
    int64_t m, n, k, blocks, block, bits; /* block: elements */
    int64_t zero_bytes;                   /* of a row's */
};

/* What a checked call asks. */
struct td_bits td_bits_of(const struct td_call *call);
/* The same as a matrix product, which borrows call and b. */
struct td_gemm td_bits_gemm(const struct td_call *call, const struct td_bits *b);
/* Whether that is what rows of the table compute: of many rows, of blocks that fill no vectors, and
 * of 2 bits. */
static inline bool td_bits_is_product(const struct td_bits *b)
{
    return b->m > TD_BITS_FEW || b->block % (2 * TD_BITS_SUMS) || b->bits == 2;
}
/* Element i of a packed array; a byte's first element is in its lowest bits. */
static inline int td_bits_get(const uint8_t *packed, int64_t i, int64_t bits)
{
    const uint64_t at = (uint64_t)(i * bits);
    return packed[at / 8] >> at % 8 & ((1 << bits) - 1);
}
/* What stands for 0 in a block of a row. */
static inline float td_bits_zero(const struct td_bits *b, int64_t row, int64_t block)
{
    if (!b->zero)
        return (float)(1 << (b->bits - 1));
    const uint8_t *zero = b->zero + row * b->zero_bytes;
    return (float)td_bits_get(zero, block, b->bits);
}

#endif
