/* The products of types that have no rows of their own: FP64, FP16, whole numbers. */
#include "kernels/product/product.h"

TD_KERNEL(product_any)
{
    struct td_gemm g;
    td_product_strided(call, &g, false);
    TD_NAME(gemm_any)(&g, call->scratch);
}
