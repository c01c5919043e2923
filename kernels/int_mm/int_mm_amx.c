/* _int_mm in tiles, which know every signedness. */
#define TD_INT_MM
#define TD_TILES
#include "kernels/gemm/gemm_group.h"
#include "kernels/int_mm/int_mm.h"

TD_KERNEL(int_mm)
{
    struct td_gemm g;
    td_int_mm_gemm(call, &g, TD_QUADS, TD_TILES_DEPTH);
    td_group_simd(&g, call->scratch);
}
