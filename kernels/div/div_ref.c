/* div, reference. A scalar takes part in FP32 when the tensor's type is not wider. A quotient of
 * FP32 numbers is rounded rightly through double too (S. Figueroa, "When is double rounding
 * innocuous?", 1995). */
#include "kernels/elementwise.h"

td_kernel td_div_ref, td_div_Scalar_ref;

static double real(const struct td_call *call, const double *x)
{
    (void)call;
    return x[0] / x[1];
}

void td_div_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 2, real, NULL);
}

static double real_scalar(const struct td_call *call, const double *x)
{
    double other = td_scalar(&call->arg[1]);
    return x[0] / (call->out[0].dtype == TD_f64 ? other : (double)(float)other);
}

void td_div_Scalar_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 1, real_scalar, NULL);
}
