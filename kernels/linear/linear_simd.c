/* linear, vector form, FP32 and BF16. */
#include "kernels/gemm_simd.h"

TD_KERNEL(linear)
{
    struct td_gemm g;
    td_linear_gemm(call, &g);
    td_gemm_simd(&g, call->scratch);
}
