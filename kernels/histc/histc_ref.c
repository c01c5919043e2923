/* histc: an element at a time. */
#include "kernels/elementwise.h"
#include "kernels/histc/histc.h"

td_kernel td_histc_ref;
void td_histc_ref(const struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor, *out = &call->out[0];
    int64_t n = td_numel(self), bins = out->shape[0];
    double min, max;
    td_histc_range(call, &min, &max);
    for (int64_t i = 0; i < bins; i++)
        td_put_real(out, i, 0);
    for (int64_t i = 0; i < n && (i % TD_STRIDE || !td_stopped()); i++) {
        double x = td_get_real(self, i);
        if (!(x >= min && x <= max))
            continue;
        int64_t place =
            self->dtype == TD_f64
                ? (int64_t)((x - min) * (double)bins / (max - min))
                : (int64_t)(((float)x - (float)min) * (float)bins / ((float)max - (float)min));
        place -= place == bins;
        td_put_real(out, place, td_get_real(out, place) + 1);
    }
}
