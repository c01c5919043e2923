/* The products, reference. */
#include "kernels/gemm/gemm.h"

td_kernel td_product_ref;

void td_product_ref(const struct td_call *call)
{
    struct td_gemm g;
    td_product_gemm(call, &g);
    td_gemm_ref(&g);
}
