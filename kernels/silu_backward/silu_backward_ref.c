/* silu_backward, reference. For infinite self it is NaN, as in ATen. */
#include "kernels/elementwise.h"

#include <math.h>

td_kernel td_silu_backward_ref;

static double real(const struct td_call *call, const double *x)
{
    (void)call;
    double s = 1 / (1 + exp(-x[1])), rest = 1 / (1 + exp(x[1]));
    return x[0] * (s * (1 + x[1] * rest));
}

void td_silu_backward_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 2, real, NULL);
}
