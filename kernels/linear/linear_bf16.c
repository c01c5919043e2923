/* linear, BF16 by the instruction that multiplies pairs of them. */
#include "kernels/gemm_group.h"

TD_KERNEL(linear)
{
    struct td_gemm g;
    td_linear_gemm(call, &g);
    g.group = 2;
    g.pad = 1;
    td_group_simd(&g, call->scratch);
}
