/* _int_mm, vector form: four products a lane where the level has VNNI, two elsewhere. */
#define TD_INT_MM
#include "kernels/gemm/gemm_group.h"
#include "kernels/int_mm/int_mm.h"

TD_KERNEL(int_mm)
{
    struct td_gemm g;
    td_int_mm_gemm(call, &g, TD_QUADS, 1);
    td_group_simd(&g, call->scratch);
}
