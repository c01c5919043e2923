/* Quantizing, reference: one element at a time, each step in FP32, as the definition has it: a step
 * in double would fall on the other side of a half now and then. */
#include "kernels/quantize/quantize.h"

#include <math.h>

static float limited(float x, float low, float high)
{
    return x > low ? (x < high ? x : high) : low; /* low for NaN */
}

static void dynamic(const struct td_call *call)
{
    const struct td_tensor *x = &call->arg[0].tensor;
    int64_t n = td_numel(x);
    float low = 0, high = 0;
    for (int64_t i = 0; i < n; i++) {
        low = fminf(low, (float)td_get_real(x, i));
        high = fmaxf(high, (float)td_get_real(x, i));
    }
    struct td_scale s = td_scale_of_range(low, high);
    for (int64_t i = 0; i < n && (i % TD_STRIDE || !td_stopped()); i++) {
        float one = rintf((float)td_get_real(x, i) / s.scale);
        td_put_real(&call->out[0], i, (double)limited(one + s.zero, 0, 255));
    }
    td_put_real(&call->out[1], 0, (double)s.scale);
    td_put_real(&call->out[2], 0, (double)s.zero);
}

td_kernel td_quantize_ref;
void td_quantize_ref(const struct td_call *call)
{
    const struct td_quantize *family = td_quantize(call);
    const struct td_tensor *in = &call->arg[0].tensor, *out = &call->out[0];
    if (family->way == TD_QUANTIZE_self) {
        dynamic(call);
        return;
    }
    const struct td_value *limits = &call->arg[3 + family->channels];
    struct td_channels c = td_channels(call);
    int64_t n = td_numel(out);
    for (int64_t i = 0; i < n && (i % TD_STRIDE || !td_stopped()); i++) {
        struct td_scale s = td_scale(call, i / c.inner % c.n);
        float x = (float)td_get_real(in, i);
        if (family->way == TD_QUANTIZE_back)
            td_put_real(out, i, (double)((x - s.zero) * s.scale));
        else
            td_put_real(out, i,
                        (double)limited(rintf(x * (1 / s.scale)) + s.zero, (float)limits[0].i,
                                        (float)limits[1].i));
    }
}
