/* linear, FP32 and BF16: the level's product. */
#include "kernels/gemm/gemm.h"

TD_KERNEL(linear)
{
    struct td_gemm g;
    td_linear_gemm(call, &g);
    TD_NAME(gemm)(&g, call->scratch);
}
