/* The judge of resampling: one result after the other, in double. */
#include "kernels/elementwise.h"
#include "kernels/resample/resample.h"

#include <math.h>

/* Bytes are rounded to the nearest, half upwards, and held within what they can be: each line, and
 * then what is made of lines, as in ATen. */
static double held(enum td_dtype type, double x)
{
    return type == TD_u8 ? fmin(fmax(floor(x + 0.5), 0), 255) : x;
}

/* What the taps of one line of self come to. */
static double line_of(const struct td_tensor *in, const struct td_resampled *a, int64_t o,
                      int64_t row)
{
    int64_t at;
    double sum = 0, all = td_resample_sum(a, o);
    for (int k = 0; k < a->taps; k++) {
        double weight = td_resample_tap(a, o, k, &at) / all;
        sum += weight * td_get_real(in, row * a->in + at);
    }
    return held(in->dtype, sum);
}

td_kernel td_resample_ref;
void td_resample_ref(const struct td_call *call)
{
    const struct td_tensor *in = &call->arg[0].tensor, *out = &call->out[0];
    int64_t n = td_numel(out), d, h;
    struct td_resampled a[3];
    if (!n)
        return;
    td_resample_axes(call, a);
    for (int64_t i = 0; i < n && !td_stopped(); i++) {
        int64_t depth = i / a[2].out / a[1].out % a[0].out, height = i / a[2].out % a[1].out;
        int64_t plane = i / (a[0].out * a[1].out * a[2].out) * a[0].in;
        double sum = 0, deep = td_resample_sum(&a[0], depth), high = td_resample_sum(&a[1], height);
        for (int x = 0; x < a[0].taps; x++)
            for (int y = 0; y < a[1].taps; y++) {
                double weight = td_resample_tap(&a[0], depth, x, &d) / deep;
                weight *= td_resample_tap(&a[1], height, y, &h) / high;
                sum += weight * line_of(in, &a[2], i % a[2].out, (plane + d) * a[1].in + h);
            }
        td_put_real(out, i, held(out->dtype, sum));
    }
}
