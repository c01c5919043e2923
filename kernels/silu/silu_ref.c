/* silu, reference. In double, exp(-x) overflows far outside of FP32's range. */
#include "kernels/elementwise.h"

#include <math.h>

td_kernel td_silu_ref;

static double real(const struct td_call *call, const double *x)
{
    (void)call;
    return x[0] / (1 + exp(-x[0]));
}

void td_silu_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 1, real, NULL);
}
