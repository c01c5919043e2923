/* mul, reference. Integers wrap, as two's complement hardware does. A scalar takes part in FP32,
 * as in ATen, when the tensor's type is not wider. */
#include "kernels/elementwise.h"

td_kernel td_mul_ref, td_mul_Scalar_ref;

static double real(const struct td_call *call, const double *x)
{
    (void)call;
    return x[0] * x[1];
}

static int64_t whole(const struct td_call *call, const int64_t *x)
{
    (void)call;
    return (int64_t)((uint64_t)x[0] * (uint64_t)x[1]);
}

void td_mul_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 2, real, whole);
}

static double real_scalar(const struct td_call *call, const double *x)
{
    double other = td_scalar(&call->arg[1]);
    return x[0] * (call->out[0].dtype == TD_f64 ? other : (double)(float)other);
}

static int64_t whole_scalar(const struct td_call *call, const int64_t *x)
{
    return (int64_t)((uint64_t)x[0] * (uint64_t)td_scalar_int(&call->arg[1]));
}

void td_mul_Scalar_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 1, real_scalar, whole_scalar);
}
