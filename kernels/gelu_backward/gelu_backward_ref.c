/* gelu_backward, reference. For infinite self it is NaN, as in ATen. */
#include "kernels/elementwise.h"

#include <math.h>

td_kernel td_gelu_backward_ref;

static double exact(const struct td_call *call, const double *x)
{
    (void)call;
    double below = (1 + erf(x[1] * M_SQRT1_2)) / 2;
    double density = exp(-x[1] * x[1] / 2) * M_SQRT1_2 * M_2_SQRTPI / 2;
    return x[0] * (below + x[1] * density);
}

static double by_tanh(const struct td_call *call, const double *x)
{
    (void)call;
    double scale = M_SQRT2 * M_2_SQRTPI / 2, square = x[1] * x[1];
    double u = scale * x[1] * (1 + 0.044715 * square), wide = cosh(u);
    double slope = scale * (1 + 3 * 0.044715 * square);
    return x[0] * ((1 + tanh(u)) / 2 + x[1] / 2 * slope / (wide * wide));
}

void td_gelu_backward_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 2, call->arg[2].str[0] == 't' ? by_tanh : exact, NULL);
}
