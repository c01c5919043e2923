/* matmul, reference. */
#include "kernels/gemm/gemm.h"

td_kernel td_matmul_ref;

void td_matmul_ref(const struct td_call *call)
{
    struct td_gemm g;
    td_matmul_gemm(call, &g);
    td_gemm_ref(&g);
}
