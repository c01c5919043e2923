/* softmax and its kin, reference, in double. A row of which all is -inf gives NaN, as does one that
 * holds NaN or +inf. */
#include "kernels/elementwise.h"
#include "kernels/softmax/softmax.h"

#include <math.h>

td_kernel td_softmax_ref;

static double term(enum td_soft kind, double x, double y, double top)
{
    return kind < TD_SOFT_plain_slope ? exp(x - top) : kind == TD_SOFT_plain_slope ? x * y : x;
}

static double result(enum td_soft kind, double x, double y, double top, double sum)
{
    switch (kind) {
    case TD_SOFT_plain:
        return exp(x - top) / sum;
    case TD_SOFT_log:
        return x - top - log(sum);
    case TD_SOFT_plain_slope:
        return (x - sum) * y;
    default:
        return x - exp(y) * sum;
    }
}

void td_softmax_ref(const struct td_call *call)
{
    enum td_soft kind = td_soft_of(call);
    const struct td_tensor *x = &call->arg[0].tensor;
    const struct td_tensor *y = kind < TD_SOFT_plain_slope ? x : &call->arg[1].tensor;
    struct td_span s = td_soft_span(call);
    int64_t rows = s.size ? s.outer * s.inner : 0;
    for (int64_t row = 0; row < rows && !td_stopped(); row++) {
        int64_t at = row / s.inner * s.size * s.inner + row % s.inner, end = at + s.size * s.inner;
        double top = -INFINITY;
        long double sum = 0; /* of many in FP64, too, it is to be exact */
        for (int64_t i = at; i < end; i += s.inner) {
            double v = td_get_real(x, i);
            top = v > top || v != v ? v : top;
        }
        for (int64_t i = at; i < end; i += s.inner)
            sum += (long double)term(kind, td_get_real(x, i), td_get_real(y, i), top);
        for (int64_t i = at; i < end; i += s.inner)
            td_put_real(&call->out[0], i,
                        result(kind, td_get_real(x, i), td_get_real(y, i), top, (double)sum));
    }
}
