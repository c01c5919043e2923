/* glu, reference: one element after the other. */
#include "kernels/dims.h"
#include "kernels/elementwise.h"

#include <math.h>

td_kernel td_glu_ref;
void td_glu_ref(const struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor, *out = &call->out[0];
    struct td_span span = td_span(out, (int)call->arg[1].i);
    int64_t half = span.size * span.inner;
    for (int64_t i = 0, n = td_numel(out); i < n && (i % TD_STRIDE || !td_stopped()); i++) {
        int64_t at = i + i / half * half;
        double b = td_get_real(self, at + half);
        double gate = b < 0 ? exp(b) / (1 + exp(b)) : 1 / (1 + exp(-b));
        td_put_real(out, i, td_get_real(self, at) * gate);
    }
}
