/* sigmoid_backward, reference. */
#include "kernels/elementwise.h"

td_kernel td_sigmoid_backward_ref;

static double real(const struct td_call *call, const double *x)
{
    (void)call;
    return x[0] * (1 - x[1]) * x[1];
}

void td_sigmoid_backward_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 2, real, NULL);
}
