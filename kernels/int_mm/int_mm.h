/* What the products of 8-bit integers share: which arguments are what, and what is done to the sums
 * that their rows make. */
#ifndef TD_KERNELS_INT_MM_H
#define TD_KERNELS_INT_MM_H

#include "kernels/gemm/gemm.h"

/* td_op.family: places among the arguments, -1 for none. Results are INT32 without a_scale, of 8
 * bits with y_zero, else FP32; the bias is INT32 with y_zero, else FP32. */
struct td_int_mm_args {
    int a, b, a_scale, b_scale, y_scale, a_zero, b_zero, y_zero, bias;
};

static inline const struct td_tensor *td_int_mm_arg(const struct td_call *call, int i)
{
    return i < 0 ? NULL : td_arg(call, i);
}

struct td_int_mm {
    struct td_gemm g;      /* of the elements as they are; its scratch is the call's first */
    int64_t rows;          /* of each matrix of a, of which g may have several as one */
    struct td_tensor sums; /* its result: the call's, or room of its own */
    uint32_t *of_a, *of_b; /* room for the sums of a's rows and of b's columns */
    /* Filled in by td_int_mm_fill, a number for each column: what is added to a sum, b's zero point
     * (if of_a is not NULL), what the sum is multiplied by, and what is added then, or NULL. */
    uint32_t *add, *b_zero;
    float *scale, *bias;
    uint32_t a_zero;
};

/* What a checked call computes, in lanes of so many elements (kernels/gemm/gemm.h), and the bytes
 * of scratch that it wants. */
void td_int_mm_begin(const struct td_call *call, struct td_int_mm *m, int group, int pad);
size_t td_int_mm_scratch(const struct td_call *call, int group, int pad);

/* Whether sums may become results while they are in a cache: there are scales, one of a, and one
 * matrix b. Then td_int_mm_fill is called before the product; flip: 128 if a's sign bits are
 * flipped for it, else 0. */
bool td_int_mm_has_tables(const struct td_call *call, const struct td_int_mm *m);
void td_int_mm_fill(const struct td_call *call, struct td_int_mm *m, uint8_t flip);

/* sum[j] -= zero * of_b[j], which wrap: the level's own. */
typedef void td_int_mm_take(uint32_t *sum, const uint32_t *of_b, uint32_t zero, int64_t n);
static inline void td_int_mm_take_zero(uint32_t *sum, const uint32_t *of_b, uint32_t zero,
                                       int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        sum[j] -= zero * of_b[j];
}

/* Else this, after the product: takes the zero points into account, and makes results of sums. */
void td_int_mm_end(const struct td_call *call, struct td_int_mm *m, td_int_mm_take *take);

/* Makes result number at of a sum in row i and column j that zero points no longer are part of. */
void td_int_mm_give(const struct td_call *call, int64_t at, int32_t sum, int64_t i, int64_t j);

/* The number in row, or column, i of such an argument: one for all, or one each; 0 where it is not
 * given. */
double td_int_mm_number(const struct td_call *call, int arg, int64_t i);

/* A sum as ONNX rounds it: to the nearest whole number, ties to even, and into the type. */
static inline int32_t td_int_mm_round(int32_t sum, float scale, float zero, enum td_dtype type)
{
    float low = type == TD_u8 ? 0 : -128, high = type == TD_u8 ? 255 : 127;
    float y = __builtin_rintf((float)sum * scale) + zero;
    return (int32_t)(y > low ? y < high ? y : high : low);
}

#endif
