/* The convolutions on oneDNN. */
#include "kernels/convolution/convolution.h"
#include "kernels/onednn/post.h"
#include "kernels/weight.h"

#include <string.h>

TD_ONEDNN_ROW(convolution);

#define MOST_GAP 64     /* a dilation that is wider than the input, by how much at most */
#define MOST_STRIDE 256 /* of a transposed one, whose every element walks a stride from 512 on */

/* One channel of the result takes the library the time of a whole register's, 5 to 9 times that of
 * our row where that computes it in runs of memory, and a trial would tell no more. */
static bool is_narrow(const struct td_conv *c, int threads)
{
    struct td_laid cut;
    return c->groups == 1 && c->out_channels == 1 && c->input->dtype == TD_f32 &&
           td_onednn_isa() >= TD_ISA_avx2 &&
           (td_conv_is_direct(c) ||
            (td_conv_positions(c) > 1 && td_conv_cut_laid(c, threads, &cut)));
}

/* The weight's dimensions as the library wants them, the groups apart, and its steps as it lies. */
static void describe_weight(const struct td_conv *c, struct td_onednn_desc *d)
{
    int64_t positions = td_conv_positions(c), step = 1;
    int at = 0;
    if (c->groups > 1) {
        d->step[at] = c->in_channels * c->out_channels * positions;
        d->weight[at++] = c->groups;
    }
    d->step[at] = positions * (c->transposed ? 1 : c->in_channels);
    d->weight[at++] = c->out_channels;
    d->step[at] = positions * (c->transposed ? c->out_channels : 1);
    d->weight[at++] = c->in_channels;
    d->weight_rank = at + c->dims;
    for (int i = c->dims - 1; i >= 0; i--) {
        d->weight[at + i] = c->kernel[i];
        d->step[at + i] = step;
        step *= c->kernel[i];
    }
}

void td_conv_describe(const struct td_conv *c, int threads, struct td_onednn_desc *d)
{
    memset(d, 0, sizeof *d);
    d->kind = c->transposed ? TD_ONEDNN_deconv : TD_ONEDNN_conv;
    d->dtype = c->input->dtype;
    d->threads = threads;
    d->bias = c->bias != NULL;
    d->stored = td_weight_to_pack(c->weight) != NULL;
    d->last = c->last;
    d->rank = 2 + c->dims;
    d->src[0] = d->dst[0] = c->images;
    d->src[1] = c->groups * c->in_channels;
    d->dst[1] = c->groups * c->out_channels;
    describe_weight(c, d);
    for (int i = 0; i < c->dims; i++) {
        d->src[2 + i] = c->in[i];
        d->dst[2 + i] = c->size[i];
        int64_t reach = c->dilation[i] * (c->kernel[i] - 1) + 1;
        d->padding[i] = c->padding[i];
        d->after[i] = c->after[i];
        d->dilation[i] = c->dilation[i];
        d->stride[i] = c->stride[i];
        /* Where the kernel stands once, the least stride is as good: some of the library's loops
           run over it. What a transposed one's last rows lack is padding less behind. */
        int64_t least = c->in[i] + c->padding[i] + c->after[i] - reach + 1;
        if (!c->transposed && c->size[i] == 1 && c->stride[i] > least)
            d->stride[i] = least;
        if (c->transposed)
            d->after[i] = (c->in[i] - 1) * c->stride[i] + reach - c->size[i] - c->padding[i];
    }
}

/* In dimension d, position i of the kernel: the first output that takes it off the left padding. A
 * transposed convolution is looked at from its other side. */
static bool lands(const struct td_conv *c, int d, int64_t i)
{
    int64_t in = c->transposed ? c->size[d] : c->in[d];
    int64_t outs = c->transposed ? c->in[d] : c->size[d];
    int64_t from = c->padding[d] - i * c->dilation[d];
    int64_t out = from > 0 ? (from + c->stride[d] - 1) / c->stride[d] : 0;
    return out < outs && out * c->stride[d] - from < in;
}

/* Some position of the kernel lies on the input somewhere, not always on padding. */
static bool meets(const struct td_conv *c, int d)
{
    int64_t i = 0;
    while (i < c->kernel[d] && !lands(c, d, i))
        i++;
    return i < c->kernel[d];
}

const char *td_conv_unfit_for_onednn(const struct td_conv *c)
{
    for (int d = 0; d < c->dims; d++) {
        int64_t gap = c->kernel[d] > 1 ? c->dilation[d] : 0, in = c->in[d];
        in = c->transposed ? c->size[d] : in;
        if (!meets(c, d))
            return "its kernel lies on nothing but padding";
        if (gap > MOST_GAP + in)
            return "its dilation is much wider than its input";
        if (c->padding[d] > in + gap * (c->kernel[d] - 1))
            return "its padding is wider than its input";
        if (c->transposed && c->stride[d] > MOST_STRIDE)
            return "its stride is too wide";
    }
    bool some = td_numel(c->out) && td_numel(c->weight) && td_numel(c->input);
    return some ? NULL : "there is nothing to multiply: not worth a primitive";
}

static void describe(const struct td_call *call, struct td_conv *c)
{
    td_conv_of(call, c);
    td_conv_squeeze(c);
}

const char *td_convolution_onednn_prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_conv c;
    struct td_onednn_desc d;
    td_conv_of(call, &c);
    if (is_narrow(&c, call->threads))
        return "its one channel of the result would fill a lane of a register";
    describe(call, &c);
    const char *no = td_conv_unfit_for_onednn(&c);
    if (no)
        return no;
    td_conv_describe(&c, call->threads, &d);
    td_onednn_post_describe(&c.post, c.out, &d);
    return td_onednn_prepare(&d, prepared);
}

void td_convolution_onednn(const struct td_call *call)
{
    struct td_conv c;
    describe(call, &c);
    struct td_onednn_args args = {
        .src = c.input->data,
        .weight = c.weight,
        .bias = c.bias ? c.bias->data : NULL,
        .dst = c.out->data,
        .scratch = call->scratch,
    };
    td_onednn_post_args(&c.post, &args);
    if (td_onednn_run(call->prepared->state[0], &args)) {
        td_kernel td_convolution_ref;
        td_convolution_ref(call); /* no memory left for the library: slow, but an answer */
        return;
    }
    if (c.post.n) {
        struct td_onednn_desc d;
        td_conv_describe(&c, call->threads, &d);
        td_onednn_post_describe(&c.post, c.out, &d);
        td_onednn_post_behind(&c.post, d.posts, c.out, call->threads);
    }
}
