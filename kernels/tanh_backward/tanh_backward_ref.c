/* tanh_backward, reference. The slope as a product: FP64 near 1 would lose its digits otherwise. */
#include "kernels/elementwise.h"

td_kernel td_tanh_backward_ref;

static double real(const struct td_call *call, const double *x)
{
    (void)call;
    return x[0] * (1 - x[1]) * (1 + x[1]);
}

void td_tanh_backward_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 2, real, NULL);
}
