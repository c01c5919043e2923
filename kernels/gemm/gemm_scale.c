/* Scales and a bias that no library knows, behind its product, in the result's place. Built once,
 * for the lowest level: it is little beside the product. FP16 and BF16 are rounded twice, before
 * and behind it. */
#define TD_REAL_BITS 32
#include "kernels/formulas.h"
#include "kernels/gemm/gemm.h"
#include "kernels/reals.h"

/* Up to a vector of the bias of row i of product batch. */
static td_vf bias_of(const struct td_gemm *g, int64_t batch, int64_t i, int64_t j, int64_t left)
{
    enum td_dtype type = g->bias->dtype;
    int64_t at = td_gemm_bias_at(g, batch) + i * g->bias_i + j * g->bias_j;
    if (g->bias_j)
        return L_next(g->bias->data, at, left, type, 0);
    return td_set(L_get_n(g->bias->data, at, 1, type, 0)[0]);
}

/* Rows of all products. */
static void some(void *arg, int64_t begin, int64_t end)
{
    const struct td_gemm *g = arg;
    enum td_dtype type = g->out->dtype;
    td_vf alpha = td_set(g->scaled ? (float)g->alpha : 1);
    td_vf beta = td_set(g->scaled ? (float)g->beta : 1);
    for (int64_t row = begin; row < end; row++)
        for (int64_t j = 0; j < g->n; j += TD_LANES) {
            int64_t left = g->n - j;
            td_vf x = L_next(g->out->data, row * g->n + j, left, type, 0) * alpha;
            if (g->bias)
                x += bias_of(g, row / g->m, row % g->m, j, left) * beta;
            L_put_next(g->out->data, row * g->n + j, left, type, x);
        }
}

void TD_NAME(gemm_scale)(const struct td_gemm *g)
{
    struct td_gemm copy = *g;
    td_parallel(g->threads, td_gemm_batches(g) * g->m, 1 + 16384 / g->n, some, &copy);
}
