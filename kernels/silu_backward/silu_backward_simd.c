/* silu_backward, vector form, FP32. With e = exp(-|x|) the slope is (1 + e + x e) / (1 + e)^2 where
 * x is positive and e (1 + e + x) / (1 + e)^2 elsewhere: one exponential that cannot overflow, and
 * one division. */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

static td_vf gradient(td_vf grad, td_vf x)
{
    td_vf e = td_exp(-td_abs(x)), one = 1 + e;
    td_vf top = td_select((td_vi)(x < 0), e * (one + x), one + x * e);
    return grad * (top / (one * one));
}

TD_KERNEL_BINARY(silu_backward, gradient)
