/* _int_mm, reference. */
#include "kernels/int_mm/int_mm.h"

td_kernel td_int_mm_ref;

void td_int_mm_ref(const struct td_call *call)
{
    struct td_gemm g;
    td_int_mm_gemm(call, &g, 0, 0);
    td_gemm_ref(&g);
}
