/* softmax, reference. A row of which all is -inf gives NaN, as does one that holds NaN or +inf. */
#include "kernels/dims.h"
#include "kernels/elementwise.h"

#include <math.h>

td_kernel td_softmax_ref;

void td_softmax_ref(const struct td_call *call)
{
    const struct td_tensor *x = &call->arg[0].tensor;
    struct td_span s = td_span(x, (int)call->arg[1].i);
    int64_t rows = s.size ? s.outer * s.inner : 0;
    for (int64_t row = 0; row < rows && !td_stopped(); row++) {
        int64_t at = row / s.inner * s.size * s.inner + row % s.inner;
        double top = -INFINITY, sum = 0;
        for (int64_t k = 0; k < s.size; k++) {
            double v = td_get_real(x, at + k * s.inner);
            top = v > top || v != v ? v : top;
        }
        for (int64_t k = 0; k < s.size; k++)
            sum += exp(td_get_real(x, at + k * s.inner) - top);
        for (int64_t k = 0; k < s.size; k++)
            td_put_real(&call->out[0], at + k * s.inner,
                        exp(td_get_real(x, at + k * s.inner) - top) / sum);
    }
}
