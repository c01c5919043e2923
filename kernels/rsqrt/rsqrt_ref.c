/* rsqrt, reference. */
#include "kernels/elementwise.h"

#include <math.h>

td_kernel td_rsqrt_ref;

static double real(const struct td_call *call, const double *x)
{
    (void)call;
    return 1 / sqrt(x[0]);
}

void td_rsqrt_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 1, real, NULL);
}
