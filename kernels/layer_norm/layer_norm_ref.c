/* layer_norm and native_layer_norm, reference: mean, then variance around it, then the rest, in
 * double. Of a row without elements the mean is 0 and the rest NaN. */
#include "kernels/elementwise.h"
#include "kernels/layer_norm/layer_norm.h"

#include <math.h>

td_kernel td_layer_norm_ref;

void td_layer_norm_ref(const struct td_call *call)
{
    const struct td_tensor *x = &call->arg[0].tensor, *weight = td_arg(call, 2);
    const struct td_tensor *bias = td_arg(call, 3);
    struct td_rows rows = td_normalized_rows(x, &call->arg[1]);
    int64_t n = rows.n;
    bool native = call->n_out == 3;
    for (int64_t r = 0, at = 0; r < (n || native ? rows.count : 0) && !td_stopped(); r++, at += n) {
        double mean = 0, var = 0;
        for (int64_t i = 0; i < n; i++)
            mean += td_get_real(x, at + i);
        mean = n ? mean / (double)n : 0;
        for (int64_t i = 0; i < n; i++)
            var += pow(td_get_real(x, at + i) - mean, 2);
        double scale = 1 / sqrt(var / (double)n + td_scalar(&call->arg[4]));
        if (native) {
            td_put_real(&call->out[1], r, mean);
            td_put_real(&call->out[2], r, scale);
        }
        for (int64_t i = 0; i < n; i++)
            td_put_real(&call->out[0], at + i,
                        (td_get_real(x, at + i) - mean) * scale *
                                (weight ? td_get_real(weight, i) : 1) +
                            (bias ? td_get_real(bias, i) : 0));
    }
}
