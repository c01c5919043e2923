/* Making primitives of oneDNN: descriptors, attributes, the layouts that the library chose and the
 * reorders to get there. All of it is slow (0.2 to 8 ms, code is generated) and done once a key.
 *
 * Scratchpads are the caller's: the library's own is thread-local, sized on the thread that made
 * the primitive, and a call may run on another.
 *
 * Layouts: src and dst of products stay row-major. A weight that the server stores may take any
 * layout and is packed once into the weight's own list of forms, of a product into one form for all
 * row counts; a weight that came with the request is used as it lies, unless the library then has
 * only slow code, and is reordered in scratch if so. Convolutions reorder all three, as plain NCHW
 * has no fast code. Their gradients are described like themselves; the library only wants the
 * forward primitive as a hint. */
#include "kernels/onednn/prim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dnnl_status_t dense(dnnl_memory_desc_t *md, int rank, const int64_t *dims,
                           const int64_t *step, dnnl_data_type_t type)
{
    dnnl_dims_t sizes, steps;
    int64_t n = 1;
    for (int d = rank - 1; d >= 0; d--) {
        sizes[d] = dims[d];
        steps[d] = step ? step[d] : n;
        n *= dims[d];
    }
    return dnnl_memory_desc_create_with_strides(md, rank, sizes, type, steps);
}

/* The steps of a dense [n,..,c] whose sizes stand as [n,c,..]. */
static void channels_last(int rank, const int64_t *dims, int64_t *step)
{
    int64_t n = dims[1];
    step[1] = 1;
    for (int d = rank - 1; d > 1; d--) {
        step[d] = n;
        n *= dims[d];
    }
    step[0] = n;
}

/* FP32 is computed as FP32, whatever ONEDNN_DEFAULT_FPMATH_MODE says: replies tell the type. */
static dnnl_status_t attributes(dnnl_primitive_attr_t *attr)
{
    dnnl_status_t status;
    TRY(dnnl_primitive_attr_create(attr));
    TRY(dnnl_primitive_attr_set_fpmath_mode(*attr, dnnl_fpmath_mode_strict));
    TRY(dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user));
out:
    return status;
}

/* A convolution, or the gradient that d->kind says. */
static dnnl_status_t describe_conv(dnnl_primitive_desc_t *pd, const struct td_onednn_prim *p,
                                   const struct td_onednn_desc *d, dnnl_memory_desc_t *want,
                                   dnnl_primitive_attr_t attr)
{
    dnnl_primitive_desc_t hint = NULL;
    dnnl_dims_t stride, gaps, pad, after;
    dnnl_status_t status;
    for (int i = 0; i < d->rank - 2; i++) {
        stride[i] = d->stride[i];
        gaps[i] = d->dilation[i] - 1;
        pad[i] = d->padding[i];
        after[i] = d->after[i];
    }
    if (d->kind == TD_ONEDNN_deconv)
        return dnnl_deconvolution_forward_primitive_desc_create(
            pd, td_onednn_engine, dnnl_forward_inference, dnnl_deconvolution_direct, want[SRC],
            want[WEIGHT], p->bias, want[DST], stride, gaps, pad, after, attr);
    bool forward = d->kind == TD_ONEDNN_conv;
    TRY(dnnl_convolution_forward_primitive_desc_create(
        forward ? pd : &hint, td_onednn_engine,
        forward ? dnnl_forward_inference : dnnl_forward_training, dnnl_convolution_direct,
        want[SRC], want[WEIGHT], p->bias, want[DST], stride, gaps, pad, after, attr));
    if (d->kind == TD_ONEDNN_conv_src)
        TRY(dnnl_convolution_backward_data_primitive_desc_create(
            pd, td_onednn_engine, dnnl_convolution_direct, want[SRC], want[WEIGHT], want[DST],
            stride, gaps, pad, after, hint, attr));
    else if (d->kind == TD_ONEDNN_conv_weight)
        TRY(dnnl_convolution_backward_weights_primitive_desc_create(
            pd, td_onednn_engine, dnnl_convolution_direct, want[SRC], want[WEIGHT], NULL, want[DST],
            stride, gaps, pad, after, hint, attr));
out:
    dnnl_primitive_desc_destroy(hint);
    return status;
}

/* With post-ops, or without. how: what the library computes it by. */
static dnnl_status_t describe_one(dnnl_primitive_desc_t *pd, struct td_onednn_prim *p,
                                  const struct td_onednn_desc *d, dnnl_memory_desc_t *want,
                                  bool posts, const char **how)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status;
    TRY(attributes(&attr));
    if (posts)
        TRY(td_onednn_post_attach(p, d, attr));
    if (d->kind == TD_ONEDNN_linear) {
        TRY(dnnl_inner_product_forward_primitive_desc_create(
            pd, td_onednn_engine, dnnl_forward_inference, want[SRC], want[WEIGHT], p->bias,
            want[DST], attr));
    } else if (d->kind == TD_ONEDNN_matmul) {
        TRY(dnnl_matmul_primitive_desc_create(pd, td_onednn_engine, want[SRC], want[WEIGHT],
                                              p->bias, want[DST], attr));
    } else {
        TRY(describe_conv(pd, p, d, want, attr));
    }
    status = td_onednn_settle(*pd, d, how);
out:
    dnnl_primitive_attr_destroy(attr);
    return status;
}

#define FORM_ROWS 256 /* for which the library chooses the form of a product's weight */
#define FORM_WIDTH 64 /* of its widest blocks */

/* The library packs a product's weight in wide blocks for few rows and for many, and in narrow ones
 * for those between: another copy of the weight, for 3 % of the time at most (AVX-512, 1 to 256
 * rows). So the weight has the form for many rows whatever they are, as long as there are two of
 * its blocks for each thread. want[WEIGHT] becomes that form; how: the code that the library has
 * for it. */
static dnnl_status_t form_for_any_rows(struct td_onednn_prim *p, const struct td_onednn_desc *d,
                                       dnnl_memory_desc_t *want, const char **how)
{
    struct td_onednn_desc many = *d;
    dnnl_memory_desc_t like[SLOTS] = {NULL, want[WEIGHT], NULL}, form = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t status;
    many.src[0] = many.dst[0] = FORM_ROWS;
    TRY(dense(&like[SRC], d->rank, many.src, NULL, td_onednn_type(d->dtype)));
    TRY(dense(&like[DST], d->rank, many.dst, NULL, td_onednn_type(d->dtype)));
    TRY(describe_one(&pd, p, &many, like, false, how));
    TRY(dnnl_memory_desc_clone(&form, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0)));
    dnnl_memory_desc_destroy(want[WEIGHT]);
    want[WEIGHT] = form;
out:
    dnnl_memory_desc_destroy(like[SRC]);
    dnnl_memory_desc_destroy(like[DST]);
    dnnl_primitive_desc_destroy(pd);
    return status;
}

/* Post-ops and strides are not worth slower code than there is without. */
static dnnl_status_t describe(dnnl_primitive_desc_t *pd, struct td_onednn_prim *p,
                              const struct td_onednn_desc *d, dnnl_memory_desc_t *want)
{
    dnnl_memory_desc_t like[SLOTS] = {want[SRC], want[WEIGHT], want[DST]}, src = NULL,
                       weight = NULL;
    dnnl_primitive_desc_t plain = NULL;
    const char *how = "", *plainly = "";
    dnnl_status_t status;
    TRY(describe_one(pd, p, d, want, true, &how));
    if (!d->posts && !d->strided)
        return status;
    if (d->strided) {
        TRY(dense(&src, d->rank, d->src, NULL, td_onednn_type(d->dtype)));
        TRY(dense(&weight, d->rank, d->weight, NULL, td_onednn_type(d->dtype)));
        like[SRC] = src;
        like[WEIGHT] = weight;
    }
    TRY(describe_one(&plain, p, d, like, false, &plainly));
    if (strcmp(how, plainly) != 0)
        status = dnnl_unimplemented;
out:
    dnnl_memory_desc_destroy(src);
    dnnl_memory_desc_destroy(weight);
    dnnl_primitive_desc_destroy(plain);
    return status;
}

/* With the form for any rows, if the library then has the same code. */
static dnnl_status_t describe_formed(dnnl_primitive_desc_t *pd, struct td_onednn_prim *p,
                                     const struct td_onednn_desc *d, dnnl_memory_desc_t *want)
{
    const char *how = "", *formed = "";
    dnnl_memory_desc_t like[SLOTS] = {want[SRC], NULL, want[DST]};
    dnnl_status_t status;
    TRY(dnnl_memory_desc_clone(&like[WEIGHT], want[WEIGHT]));
    TRY(form_for_any_rows(p, d, like, &how));
    TRY(describe(pd, p, d, like));
    TRY(dnnl_primitive_desc_query(*pd, dnnl_query_impl_info_str, 0, &formed));
    if (strcmp(how, formed) != 0)
        status = dnnl_unimplemented;
out:
    dnnl_memory_desc_destroy(like[WEIGHT]);
    if (status == dnnl_success || status == dnnl_out_of_memory)
        return status;
    dnnl_primitive_desc_destroy(*pd);
    *pd = NULL;
    return describe(pd, p, d, want);
}

static bool has_form(const struct td_onednn_desc *d)
{
    return d->stored && d->kind == TD_ONEDNN_linear &&
           d->weight[0] >= (int64_t)2 * FORM_WIDTH * d->threads;
}

dnnl_status_t td_onednn_reorder(dnnl_primitive_t *r, const_dnnl_memory_desc_t from,
                                const_dnnl_memory_desc_t to, size_t *pad)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t status;
    if (pad)
        TRY(attributes(&attr));
    TRY(dnnl_reorder_primitive_desc_create(&pd, from, td_onednn_engine, to, td_onednn_engine,
                                           attr));
    TRY(dnnl_primitive_create(r, pd));
    if (pad) {
        size_t bytes = dnnl_memory_desc_get_size(
            dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
        *pad = bytes > *pad ? bytes : *pad;
    }
out:
    dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

/* Lays out scratch: the pad that all steps share, then every tensor that is reordered. */
static dnnl_status_t lay_out(struct td_onednn_prim *p, const struct td_onednn_desc *d, size_t pad)
{
    dnnl_dims_t bytes = {(int64_t)pad};
    p->scratch = (pad + 63) & ~(size_t)63;
    for (int i = 0; i < SLOTS; i++) {
        if (!p->own[i] || (i == WEIGHT && d->stored))
            continue;
        p->at[i] = p->scratch;
        p->scratch += (dnnl_memory_desc_get_size(p->own[i]) + 63) & ~(size_t)63;
    }
    return dnnl_memory_desc_create_with_tag(&p->pad, 1, bytes, dnnl_u8, dnnl_a);
}

/* How main calls its tensors, and the question after their layouts. */
static void name_slots(struct td_onednn_prim *p, enum td_onednn_kind kind, dnnl_query_t *query)
{
    bool src = kind == TD_ONEDNN_conv_src, weight = kind == TD_ONEDNN_conv_weight;
    p->out = src ? SRC : weight ? WEIGHT : DST;
    p->arg[SRC] = src ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    p->arg[WEIGHT] = weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
    p->arg[DST] = src || weight ? DNNL_ARG_DIFF_DST : DNNL_ARG_DST;
    query[SRC] = src ? dnnl_query_diff_src_md : dnnl_query_src_md;
    query[WEIGHT] = weight ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
    query[DST] = src || weight ? dnnl_query_diff_dst_md : dnnl_query_dst_md;
}

/* Some post-op's tensor is as large as the result. */
static bool has_whole(const struct td_onednn_desc *d)
{
    bool whole = false;
    for (int i = 0; i < d->posts; i++)
        whole = whole || d->post[i].shape == 2;
    return whole;
}

/* A number a channel, for products in a tensor of the result's rank. */
static dnnl_status_t describe_bias(struct td_onednn_prim *p, const struct td_onednn_desc *d,
                                   dnnl_data_type_t type)
{
    dnnl_dims_t dims = {1, 1, 1, 1, 1, 1, 1, 1};
    bool product = d->kind == TD_ONEDNN_matmul;
    int rank = product ? d->rank : 1;
    dims[rank - 1] = d->dst[product ? rank - 1 : 1];
    return d->bias ? dense(&p->bias, rank, dims, NULL, type) : dnnl_success;
}

static dnnl_status_t build(struct td_onednn_prim *p, const struct td_onednn_desc *d,
                           bool any_weight)
{
    dnnl_query_t query[SLOTS];
    const int64_t *dims[SLOTS] = {d->src, d->weight, d->dst};
    dnnl_memory_desc_t want[SLOTS] = {NULL};
    dnnl_primitive_desc_t pd = NULL;
    dnnl_data_type_t type = td_onednn_type(d->dtype);
    const char *how;
    dnnl_status_t status;
    name_slots(p, d->kind, query);
    for (int i = 0; i < SLOTS; i++) {
        int rank = i == WEIGHT ? d->weight_rank : d->rank;
        bool any = d->kind >= TD_ONEDNN_conv || (i == WEIGHT && any_weight);
        if (i == DST && has_whole(d)) /* which lies as the result does */
            any = false;
        int64_t last[TD_MAX_RANK];
        const int64_t *step = i == WEIGHT                               ? d->step
                              : i == SRC && d->kind == TD_ONEDNN_matmul ? d->src_step
                              : d->last                                 ? last
                                                                        : NULL;
        if (d->last)
            channels_last(rank, dims[i], last);
        TRY(dense(&p->user[i], rank, dims[i], step, type));
        if (any)
            TRY(dnnl_memory_desc_create_with_tag(&want[i], rank, dims[i], type,
                                                 dnnl_format_tag_any));
        else
            TRY(dnnl_memory_desc_clone(&want[i], p->user[i]));
    }
    TRY(describe_bias(p, d, type));
    TRY(any_weight && has_form(d) ? describe_formed(&pd, p, d, want) : describe(&pd, p, d, want));
    TRY(td_onednn_main(p, pd, d));
    TRY(dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &how));
    p->isa = td_onednn_named(how);
    size_t pad =
        dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    for (int i = 0; i < SLOTS; i++) {
        const_dnnl_memory_desc_t got = dnnl_primitive_desc_query_md(pd, query[i], 0);
        if (dnnl_memory_desc_equal(got, p->user[i]))
            continue;
        TRY(dnnl_memory_desc_clone(&p->own[i], got));
        if (i == WEIGHT && d->stored)
            TRY(td_onednn_form_describe(p, d));
        else
            TRY(td_onednn_reorder(&p->reorder[i], i == (int)p->out ? got : p->user[i],
                                  i == (int)p->out ? p->user[i] : got, &pad));
    }
    TRY(lay_out(p, d, pad));
out:
    dnnl_primitive_desc_destroy(pd);
    for (int i = 0; i < SLOTS; i++)
        dnnl_memory_desc_destroy(want[i]);
    return status;
}

struct td_onednn_prim *td_onednn_prim_create(const struct td_onednn_desc *desc, int *error)
{
    dnnl_status_t status = dnnl_unimplemented;
    for (int any_weight = desc->stored; any_weight < 2; any_weight++) {
        struct td_onednn_prim *p = calloc(1, sizeof *p);
        status = p ? build(p, desc, any_weight) : dnnl_out_of_memory;
        if (status == dnnl_success) {
            p->threads = desc->threads;
            return p;
        }
        td_onednn_prim_destroy(p);
        if (status == dnnl_out_of_memory)
            break;
    }
    *error = status == dnnl_out_of_memory ? -ENOMEM : 0;
    return NULL;
}

void td_onednn_prim_destroy(void *value)
{
    struct td_onednn_prim *p = value;
    if (!p)
        return;
    for (int i = 0; i < TD_ONEDNN_SPARES; i++)
        td_onednn_frame_destroy(p->spare[i]);
    if (!p->kept)
        dnnl_primitive_destroy(p->main);
    for (int i = 0; i < SLOTS; i++) {
        dnnl_primitive_destroy(p->reorder[i]);
        dnnl_memory_desc_destroy(p->user[i]);
        dnnl_memory_desc_destroy(p->own[i]);
    }
    dnnl_memory_desc_destroy(p->bias);
    dnnl_memory_desc_destroy(p->pad);
    for (int i = 0; i < TD_POSTS; i++)
        dnnl_memory_desc_destroy(p->post[i]);
    free(p);
}
