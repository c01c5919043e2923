/* The products on oneDNN. */
#include "kernels/onednn/onednn.h"
#include "kernels/product/product.h"
#include "kernels/weight.h"

TD_ONEDNN_ROW(product);

/* What is stored is packed for dense rows. */
const char *td_product_onednn_prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_gemm g;
    td_product_strided(call, &g, true);
    if (g.strided && !td_weight_to_pack(g.b) && !td_gemm_onednn_prepare(&g, prepared))
        return NULL;
    td_prepared_release(prepared);
    td_product_gemm(call, &g);
    prepared->dense = true;
    return td_gemm_onednn_prepare(&g, prepared);
}

void td_product_onednn(const struct td_call *call)
{
    struct td_gemm g;
    td_product_strided(call, &g, true);
    td_gemm_onednn_run(&g, call);
}
