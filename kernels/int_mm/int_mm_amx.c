/* _int_mm in tiles, which know every signedness. */
#define TD_INT_MM
#define TD_TILES
#include "kernels/gemm/gemm_group.h"
#include "kernels/int_mm/int_mm.h"

TD_KERNEL(int_mm)
{
    struct td_int_mm m;
    td_int_mm_begin(call, &m, TD_QUADS, TD_TILES_DEPTH);
    td_group_simd(&m.g, call->scratch);
    td_int_mm_end(call, &m, td_int_mm_take_zero);
}
