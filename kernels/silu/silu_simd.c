/* silu, vector form, FP32. exp(-|x|) is made as the square of exp(-|x| / 2): below -87 it is a
 * denormal with few digits, while x times it still has most. */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

static td_vf silu1(td_vf x)
{
    td_vf half = td_exp(-0.5f * td_abs(x));
    return td_select((td_vi)(x < 0), half * (half * x), x) / (1 + half * half);
}

TD_KERNEL_UNARY(silu, silu1)
