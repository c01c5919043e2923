/* Matrix products, BF16 by the instruction that multiplies pairs of them. */
#include "kernels/gemm/gemm_group.h"

void TD_NAME(gemm)(const struct td_gemm *g, void *scratch)
{
    struct td_gemm pairs = *g;
    pairs.group = 2;
    pairs.pad = 1;
    td_group_simd(&pairs, scratch);
}
