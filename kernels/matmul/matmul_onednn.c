/* matmul on oneDNN. */
#include "kernels/gemm/gemm.h"
#include "kernels/onednn.h"

TD_ONEDNN_ROW(matmul);

bool td_matmul_onednn_accepts(const struct td_call *call)
{
    struct td_gemm g;
    td_matmul_gemm(call, &g);
    return td_gemm_onednn_accepts(&g);
}

bool td_matmul_onednn_ready(const struct td_call *call)
{
    struct td_gemm g;
    td_matmul_gemm(call, &g);
    return td_gemm_onednn_ready(&g);
}

size_t td_matmul_onednn_scratch(const struct td_call *call)
{
    struct td_gemm g;
    td_matmul_gemm(call, &g);
    return td_gemm_onednn_scratch(&g);
}

void td_matmul_onednn(const struct td_call *call)
{
    struct td_gemm g;
    td_matmul_gemm(call, &g);
    td_gemm_onednn_run(&g, call->scratch);
}
