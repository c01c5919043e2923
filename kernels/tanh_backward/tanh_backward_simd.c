/* tanh_backward, vector form, FP32. 1 - y^2 is made as (1 - y) (1 + y), which keeps its digits
 * where y is near 1. The slope comes first, then the gradient: a gradient so small that it has few
 * digits left is then rounded only once; far outside of tanh's range, where the slope alone would
 * overflow, it is the other way round. */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

static td_vf gradient(td_vf grad, td_vf y)
{
    td_vf less = 1 - y, more = 1 + y;
    return td_select((td_vi)(td_abs(y) < 1e18f), grad * (less * more), grad * less * more);
}

TD_KERNEL_BINARY(tanh_backward, gradient)
