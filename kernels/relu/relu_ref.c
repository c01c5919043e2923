/* relu, reference. */
#include "kernels/activation.h"
#include "kernels/elementwise.h"

td_kernel td_relu_ref;

static double real(const struct td_call *call, const double *x)
{
    (void)call;
    return td_act_apply(&(struct td_act){.kind = TD_ACT_relu}, x[0]);
}

static int64_t whole(const struct td_call *call, const int64_t *x)
{
    (void)call;
    return x[0] < 0 ? 0 : x[0];
}

void td_relu_ref(const struct td_call *call)
{
    td_elementwise_ref(call, 1, real, whole);
}
