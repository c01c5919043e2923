/* abs, reference. The smallest integer has no positive and stays. */
#include "kernels/elementwise.h"

#include <math.h>

td_kernel td_abs_ref;

static double real(const struct td_call *call, const double *x)
{
    (void)call;
    return fabs(x[0]);
}

static int64_t whole(const struct td_call *call, const int64_t *x)
{
    (void)call;
    return x[0] < 0 ? (int64_t)(0 - (uint64_t)x[0]) : x[0];
}

void td_abs_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 1, real, whole);
}
