/* histc: an element at a time. */
#include "kernels/elementwise.h"
#include "kernels/histc/histc.h"
#include "kernels/sizes.h"

#include <math.h>

/* The part that x lies in, from 0 on: a quotient that may be rounded beyond the last one, and that
 * is made of smaller numbers where it would be infinite. Of limits that are one number x is the
 * middle. */
static int64_t part_of(double x, double min, double max, int64_t bins, bool wide)
{
    double part = wide
                      ? (x - min) * (double)bins / (max - min)
                      : (double)(((float)x - (float)min) * (float)bins / ((float)max - (float)min));
    if (!isfinite(part))
        part = (x / 4 - min / 4) / (max / 4 - min / 4) * (double)bins;
    return max > min ? td_index_of_real(part, bins - 1) : bins / 2;
}

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
        int64_t place = part_of(x, min, max, bins, self->dtype == TD_f64);
        td_put_real(out, place, td_get_real(out, place) + 1);
    }
}
