/* _softmax_backward_data, reference. */
#include "kernels/dims.h"
#include "kernels/elementwise.h"

td_kernel td_softmax_backward_data_ref;

void td_softmax_backward_data_ref(const struct td_call *call)
{
    const struct td_tensor *grad = &call->arg[0].tensor, *y = &call->arg[1].tensor;
    struct td_span s = td_span(y, (int)call->arg[2].i);
    for (int64_t row = 0; row < s.outer * s.inner && !td_stopped(); row++) {
        int64_t at = row / s.inner * s.size * s.inner + row % s.inner;
        double sum = 0;
        for (int64_t k = 0; k < s.size; k++)
            sum += td_get_real(grad, at + k * s.inner) * td_get_real(y, at + k * s.inner);
        for (int64_t k = 0; k < s.size; k++) {
            int64_t i = at + k * s.inner;
            td_put_real(&call->out[0], i, (td_get_real(grad, i) - sum) * td_get_real(y, i));
        }
    }
}
