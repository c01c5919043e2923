/* The products, FP32 and BF16: the level's product. */
#include "kernels/gemm/gemm.h"

TD_KERNEL(product)
{
    struct td_gemm g;
    td_product_gemm(call, &g);
    TD_NAME(gemm)(&g, call->scratch);
}
