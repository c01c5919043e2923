/* What the products of 8-bit integers share: which arguments are what, and what is done to the sums
 * that their rows make. */
#ifndef TD_KERNELS_INT_MM_H
#define TD_KERNELS_INT_MM_H

#include "kernels/gemm/gemm.h"

/* td_op.family: places among the arguments, -1 for none. */
struct td_int_mm_args {
    int a, b, a_scale, b_scale, y_scale, a_zero, b_zero, y_zero;
};

struct td_int_mm {
    struct td_gemm g;      /* of the elements as they are; its scratch is the call's first */
    int64_t rows;          /* of each matrix of a, of which g may have several as one */
    struct td_tensor sums; /* its result: the call's, or room of its own */
    uint32_t *of_a, *of_b; /* room for the sums of a's rows and of b's columns */
};

/* What a checked call computes, in lanes of so many elements (kernels/gemm/gemm.h). */
void td_int_mm_begin(const struct td_call *call, struct td_int_mm *m, int group, int pad);

/* sum[j] -= zero * of_b[j], which wrap: the level's own. */
typedef void td_int_mm_take(uint32_t *sum, const uint32_t *of_b, uint32_t zero, int64_t n);
static inline void td_int_mm_take_zero(uint32_t *sum, const uint32_t *of_b, uint32_t zero,
                                       int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        sum[j] -= zero * of_b[j];
}

/* Takes the zero points into account, and rounds to the result's type, where the operator does. */
void td_int_mm_end(const struct td_call *call, struct td_int_mm *m, td_int_mm_take *take);

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
