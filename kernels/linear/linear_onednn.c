/* linear on oneDNN. */
#include "kernels/gemm/gemm.h"
#include "kernels/onednn.h"

TD_ONEDNN_ROW(linear);

bool td_linear_onednn_accepts(const struct td_call *call)
{
    struct td_gemm g;
    td_linear_gemm(call, &g);
    return td_gemm_onednn_accepts(&g);
}

bool td_linear_onednn_ready(const struct td_call *call)
{
    struct td_gemm g;
    td_linear_gemm(call, &g);
    return td_gemm_onednn_ready(&g);
}

size_t td_linear_onednn_scratch(const struct td_call *call)
{
    struct td_gemm g;
    td_linear_gemm(call, &g);
    return td_gemm_onednn_scratch(&g);
}

void td_linear_onednn(const struct td_call *call)
{
    struct td_gemm g;
    td_linear_gemm(call, &g);
    td_gemm_onednn_run(&g, call->scratch);
}
