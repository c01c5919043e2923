/* neg, vector form, FP32. */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

static td_vf neg1(td_vf x)
{
    return -x;
}

TD_KERNEL_UNARY(neg, neg1)
