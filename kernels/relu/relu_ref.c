/* relu, reference. Written so that NaN passes. */
#include "kernels/elementwise.h"

td_kernel td_relu_ref;

static double real(const struct td_call *call, const double *x)
{
    (void)call;
    return x[0] < 0 ? 0 : x[0];
}

static int64_t whole(const struct td_call *call, const int64_t *x)
{
    (void)call;
    return x[0] < 0 ? 0 : x[0];
}

void td_relu_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 1, real, whole);
}
