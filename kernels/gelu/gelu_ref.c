/* gelu, reference. */
#include "kernels/activation.h"
#include "kernels/elementwise.h"

td_kernel td_gelu_ref;

static double real(const struct td_call *call, const double *x)
{
    bool by_tanh = call->arg[1].str[0] == 't';
    return td_act_apply(&(struct td_act){.kind = by_tanh ? TD_ACT_gelu_tanh : TD_ACT_gelu}, x[0]);
}

void td_gelu_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 1, real, NULL);
}
