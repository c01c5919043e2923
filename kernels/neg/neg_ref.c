/* neg, reference. Integers wrap. */
#include "kernels/elementwise.h"

td_kernel td_neg_ref;

static double real(const struct td_call *call, const double *x)
{
    (void)call;
    return -x[0];
}

static int64_t whole(const struct td_call *call, const int64_t *x)
{
    (void)call;
    return (int64_t)(0 - (uint64_t)x[0]);
}

void td_neg_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 1, real, whole);
}
