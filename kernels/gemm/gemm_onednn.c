/* Matrix products on oneDNN: a single one is an inner product (which alone has packed weights on
 * AVX2), a batch, or one by strides, is its matmul with broadcasting. */
#include "kernels/gemm/gemm.h"
#include "kernels/onednn/onednn.h"
#include "kernels/onednn/post.h"
#include "kernels/weight.h"

#include <string.h>

static void describe_linear(const struct td_gemm *g, struct td_onednn_desc *d)
{
    d->kind = TD_ONEDNN_linear;
    d->rank = d->weight_rank = 2;
    d->src[0] = d->dst[0] = g->m;
    d->src[1] = d->weight[1] = g->k;
    d->dst[1] = d->weight[0] = g->n;
    d->step[0] = g->step_n;
    d->step[1] = g->step_k;
}

/* Matrices of a batch may lie mixed row by row: the library has fast code for that where there are
 * two dimensions in front, so there are always two then. */
static void describe_matmul(const struct td_gemm *g, struct td_onednn_desc *d)
{
    int before = g->strided && g->rank == 1, rank = g->rank + before;
    int64_t step_a = g->m * g->k, step_b = g->k * g->n;
    d->kind = TD_ONEDNN_matmul;
    d->rank = d->weight_rank = rank + 2;
    d->strided = g->strided;
    for (int i = rank - 1; i >= 0; i--) {
        int at = i - before;
        int64_t n = at < 0 ? 1 : g->batch[at];
        bool strided = g->strided && n > 1; /* to a second one */
        d->src[i] = at >= 0 && g->has_a[at] ? n : 1;
        d->weight[i] = at >= 0 && g->has_b[at] ? n : 1;
        d->dst[i] = n;
        d->src_step[i] = strided && g->has_a[at] ? g->step_a[at] : step_a;
        d->step[i] = strided && g->has_b[at] ? g->step_b[at] : step_b;
        step_a *= d->src[i];
        step_b *= d->weight[i];
    }
    d->src[rank] = d->dst[rank] = g->m;
    d->src[rank + 1] = d->weight[rank] = g->k;
    d->dst[rank + 1] = d->weight[rank + 1] = g->n;
    d->src_step[rank] = td_gemm_row(g);
    d->src_step[rank + 1] = g->strided ? g->along_a : 1;
    d->step[rank] = g->step_k;
    d->step[rank + 1] = g->step_n;
}

static void describe(const struct td_gemm *g, struct td_onednn_desc *d)
{
    memset(d, 0, sizeof *d);
    d->dtype = g->a->dtype;
    d->threads = g->threads;
    d->bias = g->bias && td_gemm_bias_is_plain(g);
    d->stored = td_weight_to_pack(g->b) != NULL;
    if (g->rank || g->strided)
        describe_matmul(g, d);
    else
        describe_linear(g, d);
}

/* What follows is the library's as far as it does it, unless a bias of ours comes first. */
static void describe_post(const struct td_gemm *g, struct td_onednn_desc *d)
{
    if (td_gemm_bias_is_plain(g))
        td_onednn_post_describe(&g->post, g->out, d);
}

const char *td_gemm_onednn_prepare(const struct td_gemm *g, struct td_prepared *prepared)
{
    struct td_onednn_desc d;
    if (!g->m || !g->n || !g->k || !td_gemm_batches(g))
        return "there is nothing to multiply: not worth a primitive";
    if (g->a->dtype == TD_bf16 && g->k % 2)
        return "in BF16 the library makes NaN of an infinity that ends a row of an odd length";
    describe(g, &d);
    describe_post(g, &d);
    return td_onednn_prepare(&d, prepared);
}

void td_gemm_onednn_run(const struct td_gemm *g, const struct td_call *call)
{
    struct td_onednn_desc d;
    struct td_onednn_args args = {
        .src = g->a->data,
        .weight = g->b,
        .bias = g->bias ? g->bias->data : NULL,
        .dst = g->out->data,
        .scratch = call->scratch,
    };
    describe(g, &d);
    describe_post(g, &d);
    td_onednn_post_args(&g->post, &args);
    if (td_onednn_run(call->prepared->state[0], &args)) {
        td_gemm_ref(g); /* no memory left for the library: slow, but an answer */
        return;
    }
    if (!td_gemm_bias_is_plain(g))
        td_gemm_scale_default(g);
    td_onednn_post_behind(&g->post, d.posts, g->out, g->threads);
}
