/* sigmoid_backward, vector form, FP32. The slope comes first, then the gradient: a gradient so
 * small that it has few digits left is then rounded only once. Far outside of a sigmoid's range the
 * slope alone would overflow, so there it is the other way round. */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

static td_vf gradient(td_vf grad, td_vf y)
{
    td_vf rest = 1 - y;
    return td_select((td_vi)(td_abs(y) < 1e18f), grad * (rest * y), grad * rest * y);
}

TD_KERNEL_BINARY(sigmoid_backward, gradient)
