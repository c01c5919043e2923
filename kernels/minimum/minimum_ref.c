/* minimum, reference. */
#include "kernels/elementwise.h"

td_kernel td_minimum_ref;

static double real(const struct td_call *call, const double *x)
{
    (void)call;
    return x[0] < x[1] || x[0] != x[0] ? x[0] : x[1];
}

static int64_t whole(const struct td_call *call, const int64_t *x)
{
    (void)call;
    return x[0] < x[1] ? x[0] : x[1];
}

void td_minimum_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 2, real, whole);
}
