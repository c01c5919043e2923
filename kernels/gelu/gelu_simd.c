/* gelu, vector form, FP32. The tanh form is written as self * sigmoid(2 u), which is the same and
 * takes one exponential. */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

static td_vf exact(td_vf x)
{
    return 0.5f * x * (1 + td_erf(x * 0.70710678f));
}

static td_vf by_tanh(td_vf x)
{
    td_vf u = x * (1 + 0.044715f * (x * x));
    return x * td_sigmoid(1.5957691f * u); /* 2 sqrt(2 / pi) */
}

static void row(const struct td_call *call, int64_t n, void *out, const void *const *in,
                const int *step)
{
    (void)step;
    if (call->arg[1].str[0] == 't')
        td_row_unary(n, out, in[0], by_tanh);
    else
        td_row_unary(n, out, in[0], exact);
}

TD_KERNEL(gelu)
{
    td_elementwise(call, 1, row);
}
