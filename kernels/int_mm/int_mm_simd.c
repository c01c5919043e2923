/* _int_mm, vector form: four products a lane where the level has VNNI, two elsewhere. */
#define TD_INT_MM
#include "kernels/gemm/gemm_group.h"
#include "kernels/int_mm/int_mm.h"

TD_KERNEL(int_mm)
{
    struct td_int_mm m;
    td_int_mm_begin(call, &m, TD_QUADS, 1);
    td_group_simd(&m.g, call->scratch);
    td_int_mm_end(call, &m, td_int_mm_take_zero);
}
