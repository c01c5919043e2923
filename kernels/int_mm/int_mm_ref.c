/* Products of 8-bit integers, reference: each element's sum by itself. */
#include "kernels/elementwise.h"
#include "kernels/int_mm/int_mm.h"

td_kernel td_int_mm_ref;

void td_int_mm_ref(const struct td_call *call)
{
    const struct td_int_mm_args *args = call->op->family;
    const struct td_tensor *out = &call->out[0];
    struct td_int_mm m;
    td_int_mm_begin(call, &m, 0, 0);
    const struct td_gemm *g = &m.g;
    for (int64_t at = 0, n = td_numel(out); at < n && !td_stopped(); at++) {
        int64_t a, b, row = at / g->n, i = row % m.rows, j = at % g->n, sum = 0;
        int64_t za = (int64_t)td_int_mm_number(call, args->a_zero, i);
        int64_t zb = (int64_t)td_int_mm_number(call, args->b_zero, j);
        td_gemm_at(g, row / g->m, &a, &b);
        for (int64_t p = 0; p < g->k; p++)
            sum += (td_get_whole(g->a, (a * g->m + row % g->m) * g->k + p) - za) *
                   (td_get_whole(g->b, (b * g->k + p) * g->n + j) - zb);
        if (args->a_scale < 0)
            td_put_whole(out, at, sum);
        else
            td_int_mm_give(call, at, (int32_t)sum, i, j);
    }
}
