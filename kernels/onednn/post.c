/* Post-ops on oneDNN, those that it does as the table's formulas say. Its relu makes 0 of NaN, its
 * clip a bound, and its prelu with a slope of 0 makes NaN of -infinity; its exponentials are wrong
 * for infinities, and cost more than a pass of ours over the result. */
#include "kernels/onednn/post.h"
#include "kernels/onednn/prim.h"

#include <string.h>

enum how { LEAKY, SLOPE, HARDSWISH, ADD, SUB, MUL, DIV, MAX, MIN };

static int how_of(const struct td_post_op *op)
{
    switch (op->point) {
    case TD_POINT_prelu:
        return SLOPE;
    case TD_POINT_leaky_relu: /* with a slope of 0 it is its relu */
        return (float)op->param[0] == 0 ? -1 : LEAKY;
    case TD_POINT_hardswish:
        return HARDSWISH;
    case TD_POINT_plus:
        return ADD;
    case TD_POINT_minus:
        return SUB;
    case TD_POINT_mul:
        return MUL;
    case TD_POINT_div:
        return DIV;
    case TD_POINT_fmax:
        return MAX;
    case TD_POINT_fmin:
        return MIN;
    default:
        return -1;
    }
}

bool td_onednn_post_knows(const struct td_post_op *op)
{
    return how_of(op) >= 0;
}

static int shape_of(const struct td_tensor *other, const struct td_tensor *out)
{
    int64_t n = td_numel(other);
    return n == 1 ? 0 : n == td_numel(out) ? 2 : 1;
}

static int channel_of(const struct td_onednn_desc *d)
{
    return d->kind >= TD_ONEDNN_conv ? 1 : d->rank - 1;
}

void td_onednn_post_describe(const struct td_post *post, const struct td_tensor *out,
                             struct td_onednn_desc *desc)
{
    for (desc->posts = 0; desc->posts < post->n; desc->posts++) {
        int i = desc->posts;
        const struct td_post_op *op = &post->op[i];
        struct td_onednn_post *p = &desc->post[i];
        int how = how_of(op);
        if (how < 0)
            return;
        *p = (struct td_onednn_post){.how = how, .shape = -1};
        if (how == LEAKY)
            p->alpha = (float)op->param[0];
        if (op->other)
            p->shape = shape_of(op->other, out);
        if (how == SLOPE && (p->shape > 1 || out->dtype != TD_f32))
            return; /* its slopes are FP32, one or one a channel */
        if (p->shape == 1 && td_numel(op->other) != desc->dst[channel_of(desc)])
            return; /* its channels are not the result's last dimension */
    }
}

void td_onednn_post_args(const struct td_post *post, struct td_onednn_args *args)
{
    for (int i = 0; i < post->n; i++)
        args->post[i] = post->op[i].other ? post->op[i].other->data : NULL;
}

void td_onednn_post_behind(const struct td_post *post, int from, const struct td_tensor *out,
                           int threads)
{
    struct td_post rest = {.n = post->n - from};
    memcpy(rest.op, post->op + from, (size_t)rest.n * sizeof *rest.op);
    td_post_all *all = td_post_all_default;
    TD_IF_avx2(all = td_onednn_isa() >= TD_ISA_avx2 ? td_post_all_avx2 : all;)
        TD_IF_avx512(all = td_onednn_isa() >= TD_ISA_avx512 ? td_post_all_avx512 : all;)
            all(&rest, out, threads);
}

/* ---- what the library is told ---- */

/* The layout of post-op i's tensor. like: the result's. */
static dnnl_status_t layout(dnnl_memory_desc_t *md, const struct td_onednn_desc *d, int i,
                            const_dnnl_memory_desc_t like, dnnl_data_type_t type)
{
    dnnl_dims_t dims, steps;
    int channel = channel_of(d);
    if (d->post[i].shape == 2)
        return dnnl_memory_desc_clone(md, like);
    for (int k = 0; k < d->rank; k++)
        dims[k] = steps[k] = 1;
    if (d->post[i].shape == 1)
        dims[channel] = d->dst[channel];
    for (int k = 0; k < d->rank; k++)
        steps[k] = k < channel ? dims[channel] : 1;
    return dnnl_memory_desc_create_with_strides(md, d->rank, dims, type, steps);
}

static dnnl_status_t append(dnnl_post_ops_t ops, const struct td_onednn_desc *d, int i,
                            const_dnnl_memory_desc_t md)
{
    static const dnnl_alg_kind_t algs[] = {
        [ADD] = dnnl_binary_add, [SUB] = dnnl_binary_sub, [MUL] = dnnl_binary_mul,
        [DIV] = dnnl_binary_div, [MAX] = dnnl_binary_max, [MIN] = dnnl_binary_min};
    const struct td_onednn_post *p = &d->post[i];
    int channel = channel_of(d);
    if (p->how == SLOPE)
        return dnnl_post_ops_append_prelu(ops, p->shape ? 1 << channel : 0);
    if (p->how == HARDSWISH)
        return dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_hardswish, 1.0f / 6, 0.5f);
    if (p->how == LEAKY)
        return dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, p->alpha, 0);
    return dnnl_post_ops_append_binary(ops, algs[p->how], md);
}

dnnl_status_t td_onednn_post_attach(struct td_onednn_prim *p, const struct td_onednn_desc *d,
                                    dnnl_primitive_attr_t attr)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status;
    if (!d->posts)
        return dnnl_success;
    TRY(dnnl_post_ops_create(&ops));
    for (int i = 0; i < d->posts; i++) {
        dnnl_data_type_t type = d->post[i].how == SLOPE ? dnnl_f32 : td_onednn_type(d->dtype);
        if (d->post[i].shape >= 0 && !p->post[i])
            TRY(layout(&p->post[i], d, i, p->user[DST], type));
        p->post_arg[i] = DNNL_ARG_ATTR_MULTIPLE_POST_OP(i) |
                         (d->post[i].how == SLOPE ? DNNL_ARG_WEIGHTS : DNNL_ARG_SRC_1);
        TRY(append(ops, d, i, p->post[i]));
    }
    p->posts = d->posts;
    TRY(dnnl_primitive_attr_set_post_ops(attr, ops));
out:
    dnnl_post_ops_destroy(ops);
    return status;
}
