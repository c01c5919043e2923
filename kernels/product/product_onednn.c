/* The products on oneDNN. */
#include "kernels/gemm/gemm.h"
#include "kernels/onednn.h"

TD_ONEDNN_ROW(product);

bool td_product_onednn_accepts(const struct td_call *call)
{
    struct td_gemm g;
    td_product_gemm(call, &g);
    return td_gemm_onednn_accepts(&g);
}

bool td_product_onednn_ready(const struct td_call *call)
{
    struct td_gemm g;
    td_product_gemm(call, &g);
    return td_gemm_onednn_ready(&g);
}

size_t td_product_onednn_scratch(const struct td_call *call)
{
    struct td_gemm g;
    td_product_gemm(call, &g);
    return td_gemm_onednn_scratch(&g);
}

void td_product_onednn(const struct td_call *call)
{
    struct td_gemm g;
    td_product_gemm(call, &g);
    td_gemm_onednn_run(&g, call->scratch);
}
