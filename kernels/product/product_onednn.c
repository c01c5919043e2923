/* The products on oneDNN. */
#include "kernels/gemm/gemm.h"
#include "kernels/onednn.h"

TD_ONEDNN_ROW(product);

const char *td_product_onednn_prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_gemm g;
    td_product_gemm(call, &g);
    return td_gemm_onednn_prepare(&g, prepared);
}

void td_product_onednn(const struct td_call *call)
{
    struct td_gemm g;
    td_product_gemm(call, &g);
    td_gemm_onednn_run(&g, call);
}
