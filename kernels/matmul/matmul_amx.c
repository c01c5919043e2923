/* matmul, BF16 in tiles. */
#define TD_TILES
#include "kernels/gemm_group.h"

TD_KERNEL(matmul)
{
    struct td_gemm g;
    td_matmul_gemm(call, &g);
    g.group = 2;
    g.pad = TD_TILES_DEPTH;
    td_group_simd(&g, call->scratch);
}
