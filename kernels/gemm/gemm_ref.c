/* Matrix products, reference. */
#include "kernels/elementwise.h"
#include "kernels/gemm/gemm.h"

/* The sum along k of column col, where b is quantized. */
static double dot_quantized(const struct td_gemm *g, int64_t a, int64_t col)
{
    double sum = 0;
    for (int64_t p = 0; p < g->k; p++) {
        int8_t number;
        float scale, zero = 0;
        g->quantized->numbers(g, p, 1, col, 1, &number, 1);
        g->quantized->scales(g, p / g->block, col, 1, &scale, &zero);
        float element = ((float)number - zero) * scale;
        sum += td_get_real(g->a, a + p) * (double)element;
    }
    return sum;
}

/* at_bias: of the element's bias. */
static void one(const struct td_gemm *g, int64_t at, int64_t at_a, int64_t at_b, int64_t at_bias,
                int64_t col)
{
    if (td_dtype_kind(g->out->dtype) != 'f') {
        uint64_t sum = td_dot_whole(g->a, at_a, 1, g->b, at_b, g->step_k, g->k);
        uint64_t bias = g->bias ? (uint64_t)td_get_whole(g->bias, at_bias) : 0;
        if (g->scaled)
            sum = sum * (uint64_t)g->whole_alpha + bias * (uint64_t)g->whole_beta;
        else
            sum += bias;
        td_put_whole(g->out, at, (int64_t)sum);
        return;
    }
    double sum = g->quantized ? dot_quantized(g, at_a, col)
                              : td_dot_real(g->a, at_a, 1, g->b, at_b, g->step_k, g->k),
           bias = g->bias ? td_get_real(g->bias, at_bias) : 0;
    if (g->scaled) {
        sum *= g->alpha;
        bias *= g->bias ? g->beta : 0;
    }
    td_put_real(g->out, at, td_post_judge(&g->post, g->out, at, g->bias ? sum + bias : sum));
}

void td_gemm_ref(const struct td_gemm *g)
{
    int64_t batches = td_numel(g->out) ? td_gemm_batches(g) : 0;
    for (int64_t i = 0; i < batches; i++) {
        int64_t a, b, bias = td_gemm_bias_at(g, i);
        td_gemm_start(g, i, &a, &b);
        for (int64_t row = 0; row < g->m && !td_stopped(); row++)
            for (int64_t col = 0; col < g->n; col++)
                one(g, (i * g->m + row) * g->n + col, a + row * td_gemm_row(g), b + col * g->step_n,
                    bias + row * g->bias_i + col * g->bias_j, col);
    }
}
