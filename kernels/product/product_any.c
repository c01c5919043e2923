/* The products of types that have no rows of their own: FP64, FP16, whole numbers. */
#include "kernels/gemm/gemm.h"

TD_KERNEL(product_any)
{
    struct td_gemm g;
    td_product_gemm(call, &g);
    TD_NAME(gemm_any)(&g, call->scratch);
}
