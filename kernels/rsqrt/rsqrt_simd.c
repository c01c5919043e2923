/* rsqrt, vector form, FP32. By root and division: the estimate instructions differ between makers.
 */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

static td_vf rsqrt1(td_vf x)
{
    return 1 / td_sqrt(x);
}

TD_KERNEL_UNARY(rsqrt, rsqrt1)
