/* Matrix products, reference. Its inner loop is typed, not generic, because the tests run it as
 * often as the kernels that it judges. */
#include "kernels/elementwise.h"
#include "kernels/gemm/gemm.h"
#include "kernels/half.h"

/* sum over p of a[at_a + p] * b[at_b + p * step] */
#define TD_DOT(what, type, get)                                                                    \
    static double dot_##what(const void *a, int64_t at_a, const void *b, int64_t at_b,             \
                             int64_t step, int64_t k)                                              \
    {                                                                                              \
        const type *x = (const type *)a + at_a, *y = (const type *)b + at_b;                       \
        double sum = 0;                                                                            \
        for (int64_t p = 0; p < k; p++)                                                            \
            sum += (double)get(x[p]) * (double)get(y[p * step]);                                   \
        return sum;                                                                                \
    }
TD_DOT(f32, float, )
TD_DOT(f64, double, )
TD_DOT(bf16, uint16_t, td_bf16_to_f32)
TD_DOT(f16, uint16_t, td_f16_to_f32)

static double dot_real(const struct td_gemm *g, int64_t at_a, int64_t at_b)
{
    const void *a = g->a->data, *b = g->b->data;
    switch (g->a->dtype) {
    case TD_f64:
        return dot_f64(a, at_a, b, at_b, g->step_k, g->k);
    case TD_bf16:
        return dot_bf16(a, at_a, b, at_b, g->step_k, g->k);
    case TD_f16:
        return dot_f16(a, at_a, b, at_b, g->step_k, g->k);
    default:
        return dot_f32(a, at_a, b, at_b, g->step_k, g->k);
    }
}

/* Likewise, wrapping. */
#define TD_DOT_WHOLE(type)                                                                         \
    for (int64_t p = 0; p < g->k; p++)                                                             \
        sum += (uint64_t)((const type *)g->a->data)[at_a + p] *                                    \
               (uint64_t)((const type *)g->b->data)[at_b + p * g->step_k];                         \
    return (int64_t)sum;

static int64_t dot_whole(const struct td_gemm *g, int64_t at_a, int64_t at_b)
{
    uint64_t sum = 0;
    switch (g->a->dtype == g->b->dtype ? g->a->dtype : TD_DTYPE_none) {
    case TD_i8:
        TD_DOT_WHOLE(int8_t)
    case TD_i16:
        TD_DOT_WHOLE(int16_t)
    case TD_i32:
        TD_DOT_WHOLE(int32_t)
    case TD_i64:
        TD_DOT_WHOLE(int64_t)
    default:
        for (int64_t p = 0; p < g->k; p++)
            sum += (uint64_t)td_get_whole(g->a, at_a + p) *
                   (uint64_t)td_get_whole(g->b, at_b + p * g->step_k);
        return (int64_t)sum;
    }
}

/* at_bias: of the element's bias. */
static void one(const struct td_gemm *g, int64_t at, int64_t at_a, int64_t at_b, int64_t at_bias)
{
    if (td_dtype_kind(g->out->dtype) != 'f') {
        uint64_t sum = (uint64_t)dot_whole(g, at_a, at_b);
        uint64_t bias = g->bias ? (uint64_t)td_get_whole(g->bias, at_bias) : 0;
        if (g->scaled)
            sum = sum * (uint64_t)g->whole_alpha + bias * (uint64_t)g->whole_beta;
        else
            sum += bias;
        td_put_whole(g->out, at, (int64_t)sum);
        return;
    }
    double sum = dot_real(g, at_a, at_b), bias = g->bias ? td_get_real(g->bias, at_bias) : 0;
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
                    bias + row * g->bias_i + col * g->bias_j);
    }
}
