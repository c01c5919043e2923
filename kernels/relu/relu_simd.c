/* relu, vector form, FP32. Written so that NaN passes. */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

static td_vf relu1(td_vf x)
{
    return td_select((td_vi)(x < 0), td_set(0), x);
}

TD_KERNEL_UNARY(relu, relu1)
