/* threshold_backward, reference. */
#include "kernels/elementwise.h"

td_kernel td_threshold_backward_ref;

static double real(const struct td_call *call, const double *x)
{
    double threshold = td_scalar(&call->arg[2]);
    if (call->out[0].dtype != TD_f64)
        threshold = (double)(float)threshold;
    return x[1] <= threshold ? 0 : x[0];
}

static int64_t whole(const struct td_call *call, const int64_t *x)
{
    return x[1] <= td_scalar_int(&call->arg[2]) ? 0 : x[0];
}

void td_threshold_backward_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 2, real, whole);
}
