/* Matrix products on oneDNN: a single one is an inner product (which alone has packed weights on
 * AVX2), a batch is its matmul with broadcasting. */
#include "kernels/gemm/gemm.h"
#include "kernels/onednn.h"
#include "kernels/onednn_post.h"
#include "kernels/weight.h"

#include <string.h>

static void describe(const struct td_gemm *g, struct td_onednn_desc *d)
{
    memset(d, 0, sizeof *d);
    d->dtype = g->a->dtype;
    d->threads = g->threads;
    d->bias = g->bias && td_gemm_bias_is_plain(g);
    d->stored = td_weight_of(g->b) != NULL;
    d->rank = d->weight_rank = g->rank + 2;
    if (!g->rank) {
        d->kind = TD_ONEDNN_linear;
        d->src[0] = d->dst[0] = g->m;
        d->src[1] = d->weight[1] = g->k;
        d->dst[1] = d->weight[0] = g->n;
        d->step[0] = g->step_n;
        d->step[1] = g->step_k;
        return;
    }
    int64_t step = g->k * g->n;
    d->kind = TD_ONEDNN_matmul;
    for (int i = g->rank - 1; i >= 0; i--) {
        d->src[i] = g->has_a[i] ? g->batch[i] : 1;
        d->weight[i] = g->has_b[i] ? g->batch[i] : 1;
        d->dst[i] = g->batch[i];
        d->step[i] = step;
        step *= d->weight[i];
    }
    d->src[g->rank] = d->dst[g->rank] = g->m;
    d->src[g->rank + 1] = d->weight[g->rank] = g->k;
    d->dst[g->rank + 1] = d->weight[g->rank + 1] = g->n;
    d->step[g->rank] = g->step_k;
    d->step[g->rank + 1] = g->step_n;
}

/* Whether the library does all that follows; what it does not is done behind it. */
static bool describe_post(const struct td_gemm *g, struct td_onednn_desc *d)
{
    if (td_gemm_bias_is_plain(g) && !td_onednn_post_describe(&g->post, g->out, d))
        return true;
    d->posts = 0;
    return false;
}

const char *td_gemm_onednn_prepare(const struct td_gemm *g, struct td_prepared *prepared)
{
    struct td_onednn_desc d;
    if (!g->m || !g->n || !g->k || !td_gemm_batches(g))
        return "there is nothing to multiply: not worth a primitive";
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
    bool done = describe_post(g, &d);
    td_onednn_post_args(&g->post, &args);
    if (td_onednn_run(call->prepared->state[0], &args)) {
        td_gemm_ref(g); /* no memory left for the library: slow, but an answer */
        return;
    }
    if (!td_gemm_bias_is_plain(g))
        td_gemm_scale_default(g);
    if (!done)
        td_onednn_post_behind(&g->post, g->out, g->threads);
}
