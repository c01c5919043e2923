/* sub, reference. Integers wrap. */
#include "kernels/elementwise.h"

td_kernel td_sub_ref, td_sub_Scalar_ref;

static double real(const struct td_call *call, const double *x)
{
    return x[0] - td_scalar(&call->arg[2]) * x[1];
}

static int64_t whole(const struct td_call *call, const int64_t *x)
{
    return (int64_t)((uint64_t)x[0] - (uint64_t)td_scalar_int(&call->arg[2]) * (uint64_t)x[1]);
}

void td_sub_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 2, real, whole);
}

static double real_scalar(const struct td_call *call, const double *x)
{
    return x[0] - td_scalar(&call->arg[2]) * td_scalar(&call->arg[1]);
}

static int64_t whole_scalar(const struct td_call *call, const int64_t *x)
{
    return (int64_t)((uint64_t)x[0] - (uint64_t)td_scalar_int(&call->arg[2]) *
                                          (uint64_t)td_scalar_int(&call->arg[1]));
}

void td_sub_Scalar_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 1, real_scalar, whole_scalar);
}
