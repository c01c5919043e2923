/* Matrix products on oneDNN: a single one is an inner product (which alone has packed weights on
 * AVX2), a batch is its matmul with broadcasting. */
#include "kernels/gemm/gemm.h"
#include "kernels/onednn.h"
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

/* Else nothing to do, or only bias and activation: not worth a primitive. */
static bool is_product(const struct td_gemm *g)
{
    return g->m && g->n && g->k && td_gemm_batches(g);
}

bool td_gemm_onednn_accepts(const struct td_gemm *g)
{
    struct td_onednn_desc d;
    if (!is_product(g))
        return false;
    describe(g, &d);
    return td_onednn_accepts(&d);
}

bool td_gemm_onednn_ready(const struct td_gemm *g)
{
    struct td_onednn_desc d;
    if (!is_product(g))
        return true;
    describe(g, &d);
    return td_onednn_ready(&d);
}

size_t td_gemm_onednn_scratch(const struct td_gemm *g)
{
    struct td_onednn_desc d;
    describe(g, &d);
    return td_onednn_scratch(&d);
}

void td_gemm_onednn_run(const struct td_gemm *g, void *scratch)
{
    struct td_onednn_desc d;
    describe(g, &d);
    const struct td_onednn_args args = {
        .src = g->a->data,
        .weight = g->b,
        .bias = d.bias ? g->bias->data : NULL,
        .dst = g->out->data,
        .scratch = scratch,
    };
    if (td_onednn_run(&d, &args))
        td_gemm_ref(g); /* no memory left for the library: slow, but an answer */
    else if (g->act.kind != TD_ACT_none || !td_gemm_bias_is_plain(g))
        td_gemm_activate_default(g);
}
