/* The pointwise operators in FP64 lanes. A unit is one vector. */
#define TD_REAL_BITS 64
#include "kernels/formulas.h"
#include "kernels/none.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/pointwise/truth.h"
#include "kernels/special.h"

/* Of a formula of whole numbers alone no row comes. */
static const V NONE;
#pragma GCC diagnostic ignored "-Wunused-variable"

#define FROM_1 const double *x = in[0];
#define FROM_2 FROM_1 const double *y = in[1];
#define FROM_3 FROM_2 const double *z = in[2];
#define FIRST_same L_load(x + i)
#define FIRST_ratio FIRST_same
#define FIRST_truth FIRST_same
#define FIRST_pick load_truth(x, i)
#define IN_1(first) V a = first;
#define IN_2(first) V a = first, b = L_load(y + i);
#define IN_3(first) V a = first, b = L_load(y + i), c = L_load(z + i);
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
        FROM_##operands for (int64_t i = 0; i < n; i += L_LANES)                                   \
        {                                                                                          \
            IN_##operands(FIRST_##result) OUT_##result(lanes);                                     \
        }                                                                                          \
    }
#include "kernels/pointwise/pointwise.def"

TD_KERNEL(pointwise_f64)
{
    static td_point_row *const rows[TD_POINTS] = {
#define TD_POINT(id, operands, result, cost, judge, whole, lanes) TD_MEANT(lanes) ? id##_row : NULL,
#include "kernels/pointwise/pointwise.def"
    };
    td_pointwise(call, rows[td_point_of(call)], L_LANES);
}
