/* The products, FP32 and BF16: the level's product. */
#include "kernels/product/product.h"

TD_KERNEL(product)
{
    struct td_gemm g;
    td_product_strided(call, &g, false);
    TD_NAME(gemm)(&g, call->scratch);
}
