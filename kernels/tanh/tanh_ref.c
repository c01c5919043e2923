/* tanh, reference. The C library's. */
#include "kernels/activation.h"
#include "kernels/elementwise.h"

td_kernel td_tanh_ref;

static double real(const struct td_call *call, const double *x)
{
    (void)call;
    return td_act_apply(&(struct td_act){.kind = TD_ACT_tanh}, x[0]);
}

void td_tanh_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 1, real, NULL);
}
