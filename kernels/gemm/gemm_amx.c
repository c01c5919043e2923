/* Matrix products, BF16 in tiles. */
#define TD_TILES
#include "kernels/gemm/gemm_group.h"

void TD_NAME(gemm)(const struct td_gemm *g, void *scratch)
{
    struct td_gemm pairs = *g;
    pairs.group = 2;
    pairs.pad = TD_TILES_DEPTH;
    td_group_simd(&pairs, scratch);
}
