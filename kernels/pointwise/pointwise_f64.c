/* The pointwise operators in FP64 lanes. A unit is one vector. */
#define TD_REAL_BITS 64
#include "kernels/formulas.h"
#include "kernels/pointwise/pointwise.h"

/* Formulas of whole numbers alone stand in for none here. */
#pragma GCC diagnostic ignored "-Wunused-variable"

TD_INLINE void store_truth(void *p, int64_t i, VM m)
{
#ifdef TD_LANES_512
    _mm_storel_epi64((__m128i *)((char *)p + i), _mm_maskz_set1_epi8(m, 1));
#else
    for (int k = 0; k < L_LANES; k++)
        ((uint8_t *)p)[i + k] = m[k] & 1;
#endif
}

#define IN_(k) L_load((const double *)in[k] + i)
#define IN_1 V a = IN_(0);
#define IN_2 V a = IN_(0), b = IN_(1);
#define IN_3 V a = IN_(0), b = IN_(1), c = IN_(2);
#define OUT_same(v) L_store((double *)out + i, v)
#define OUT_pick OUT_same
#define OUT_ratio OUT_same
#define OUT_truth(m) store_truth(out, i, m)

#define TD_POINT(id, operands, result, cost, judge, whole, lanes)                                  \
    static void id##_row(const struct td_point_args *args, int64_t n, void *out,                   \
                         const void *const *in)                                                    \
    {                                                                                              \
        V p = L_c(args->real[0]), q = L_c(args->real[1]), r = L_c(args->real[2]);                  \
        (void)p, (void)q, (void)r;                                                                 \
        for (int64_t i = 0; i < n; i += L_LANES) {                                                 \
            IN_##operands OUT_##result(lanes);                                                     \
        }                                                                                          \
    }
#include "kernels/pointwise/pointwise.def"

TD_KERNEL(pointwise_f64)
{
    static td_point_row *const rows[TD_POINTS] = {
#define TD_POINT(id, ...) id##_row,
#include "kernels/pointwise/pointwise.def"
    };
    td_pointwise(call, rows[td_point_of(call)], L_LANES);
}
