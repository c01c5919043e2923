#include "tests/distance.h"
#include "kernels/elementwise.h"

#include <math.h>
#include <string.h>

/* The distance between neighbours at x in a type, at its greatest number when x overflowed it; for
 * integers 1. */
static double unit(enum td_dtype dtype, double x)
{
    static const struct {
        enum td_dtype dtype;
        int digits, least, most;
    } types[] = {{TD_f16, 11, -24, 16},
                 {TD_bf16, 8, -133, 128},
                 {TD_f32, 24, -149, 128},
                 {TD_f64, 53, -1074, 1024}};
    for (int i = 0; i < 4; i++)
        if (types[i].dtype == dtype) {
            int e = x == 0 ? -2000 : types[i].most;
            if (x != 0 && isfinite(x))
                frexp(x, &e);
            return ldexp(1, (int)fmax(e - types[i].digits, types[i].least));
        }
    return 1;
}

double distance_of_one(enum td_dtype dtype, double a, double b, double scale)
{
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    return isfinite(a) && isfinite(b) ? fabs(a - b) / unit(dtype, fmax(fabs(b), scale)) : INFINITY;
}

double distance(const struct td_tensor *got, const struct td_tensor *want,
                const struct td_tensor *scale, int64_t *where)
{
    double worst = 0, squares = 0;
    int64_t n = td_numel(want);
    if (!memcmp(got->data, want->data, td_nbytes(want)))
        return 0;
    bool whole = td_dtype_kind(want->dtype) != 'f';
    for (int64_t i = 0; scale && i < n; i++)
        if (isfinite(td_get_real(scale, i)) && isfinite(td_get_real(want, i)))
            squares += pow(fmax(fabs(td_get_real(scale, i)), fabs(td_get_real(want, i))), 2);
    double mean = n ? sqrt(squares / (double)n) : 0;
    for (int64_t i = 0; i < n; i++) {
        double at = scale ? fmax(fabs(td_get_real(scale, i)), mean) : 0;
        double d =
            whole ? (td_get_whole(got, i) == td_get_whole(want, i) ? 0 : INFINITY)
                  : distance_of_one(want->dtype, td_get_real(got, i), td_get_real(want, i), at);
        if (d > worst) {
            worst = d;
            *where = i;
        }
    }
    return worst;
}

double bound_of(const struct td_op *op, enum td_dtype dtype)
{
    bool narrow = dtype == TD_bf16 || dtype == TD_f16;
    return narrow && op->ulp > 8 ? 8 : op->ulp;
}
