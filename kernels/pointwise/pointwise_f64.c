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
    }                                                                                              \
    STILL_##operands(id, result, lanes)
#define SIZE_same (int64_t)sizeof(double)
#define SIZE_ratio SIZE_same
#define SIZE_truth 1
#define STILL_1(id, result, lanes)
#define STILL_3(id, result, lanes)
#define STILL_2(id, result, lanes)                                                                 \
    BESIDE(id##_first, result, first, L_load(y + i), lanes)                                        \
    BESIDE(id##_second, result, L_load(x + i), second, lanes)
#define BESIDE(name, result, left, right, lanes)                                                   \
    static void name(const struct td_point_args *args, const struct td_point_still *still,         \
                     void *out, const void *const *in)                                             \
    {                                                                                              \
        V p = L_c(args->real[0]), q = L_c(args->real[1]), r = L_c(args->real[2]);                  \
        (void)p, (void)q, (void)r;                                                                 \
        FROM_2 const int64_t n = still->n;                                                         \
        for (int64_t row = 0; row < still->rows; row++) {                                          \
            const V first = L_c(*x), second = L_c(*y);                                             \
            (void)first, (void)second;                                                             \
            for (int64_t k = 0; k < n; k += L_LANES) {                                             \
                const int64_t i = k + L_LANES <= n ? k : n - L_LANES;                              \
                V a = left, b = right;                                                             \
                OUT_##result(lanes);                                                               \
            }                                                                                      \
            x += still->step[0];                                                                   \
            y += still->step[1];                                                                   \
            out = (char *)out + n * SIZE_##result;                                                 \
        }                                                                                          \
    }
#include "kernels/pointwise/pointwise.def"

TD_KERNEL(pointwise_f64)
{
    static td_point_row *const rows[TD_POINTS] = {
#define TD_POINT(id, operands, result, cost, judge, whole, lanes) TD_MEANT(lanes) ? id##_row : NULL,
#include "kernels/pointwise/pointwise.def"
    };
    static td_point_still_rows *const still[TD_POINTS][2] = {
#define TD_POINT(id, operands, result, cost, judge, whole, lanes)                                  \
    TD_POINT_STILL_##operands(id, cost, lanes),
#include "kernels/pointwise/pointwise.def"
    };
    enum td_point point = td_point_of(call);
    td_pointwise_still(call, &(struct td_point_way){rows[point], L_LANES, TD_POINT_TURN},
                       still[point]);
}
