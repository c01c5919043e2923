/* layer_norm, reference: mean, then variance around it, then the rest, in double. */
#include "kernels/elementwise.h"

#include <math.h>

td_kernel td_layer_norm_ref;

void td_layer_norm_ref(const struct td_call *call)
{
    const struct td_tensor *x = &call->arg[0].tensor, *weight = td_arg(call, 2);
    const struct td_tensor *bias = td_arg(call, 3);
    int64_t n = 1, all = td_numel(x);
    for (int d = 0; d < call->arg[1].ints.n; d++)
        n *= call->arg[1].ints.v[d];
    for (int64_t at = 0; at < all; at += n) {
        double mean = 0, var = 0;
        for (int64_t i = 0; i < n; i++)
            mean += td_get_real(x, at + i);
        mean /= (double)n;
        for (int64_t i = 0; i < n; i++)
            var += pow(td_get_real(x, at + i) - mean, 2);
        double scale = 1 / sqrt(var / (double)n + td_scalar(&call->arg[4]));
        for (int64_t i = 0; i < n; i++)
            td_put_real(&call->out[0], at + i,
                        (td_get_real(x, at + i) - mean) * scale *
                                (weight ? td_get_real(weight, i) : 1) +
                            (bias ? td_get_real(bias, i) : 0));
    }
}
