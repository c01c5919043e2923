/* gelu_backward, vector form, FP32. The tanh form is self * s(2 u) with s the logistic function, so
 * its slope is s + self s (1 - s) 2 u'; with e = exp(-|2 u|) both s and s (1 - s) = e / (1 + e)^2
 * come from one exponential. e is 0 long before u' would overflow, which is therefore held at
 * |self| = 64. */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

static td_vf exact(td_vf grad, td_vf x, td_vf unused)
{
    (void)unused;
    td_vf density = 0.39894228f * td_exp(-0.5f * (x * x)); /* 1 / sqrt(2 pi) */
    return grad * (0.5f * (1 + td_erf(x * 0.70710678f)) + x * density);
}

static td_vf by_tanh(td_vf grad, td_vf x, td_vf unused)
{
    (void)unused;
    td_vf held = td_min(td_abs(x), td_set(64)), square = held * held;
    td_vf e = td_exp(-1.5957691f * (held * (1 + 0.044715f * square))); /* 2 sqrt(2 / pi) */
    td_vf slope = 1.5957691f * (1 + 0.134145f * square), one = 1 + e;
    td_vf s = td_select((td_vi)(x < 0), e, td_set(1)) / one;
    return grad * (s + x * (e / (one * one)) * slope);
}

static void row(const struct td_call *call, int64_t n, void *out, const void *const *in,
                const int *step)
{
    if (call->arg[2].str[0] == 't')
        td_row_binary(n, out, in[0], step[0], in[1], step[1], td_set(0), by_tanh);
    else
        td_row_binary(n, out, in[0], step[0], in[1], step[1], td_set(0), exact);
}

TD_KERNEL(gelu_backward)
{
    td_elementwise(call, 2, row);
}
