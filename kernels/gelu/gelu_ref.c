/* gelu, reference. */
#include "kernels/elementwise.h"

#include <math.h>

td_kernel td_gelu_ref;

static double exact(const struct td_call *call, const double *x)
{
    (void)call;
    return x[0] / 2 * (1 + erf(x[0] * M_SQRT1_2));
}

static double by_tanh(const struct td_call *call, const double *x)
{
    (void)call;
    return x[0] / 2 * (1 + tanh(M_SQRT2 * M_2_SQRTPI / 2 * (x[0] + 0.044715 * x[0] * x[0] * x[0])));
}

void td_gelu_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 1, call->arg[1].str[0] == 't' ? by_tanh : exact, NULL);
}
