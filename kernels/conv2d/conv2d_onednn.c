/* conv2d on oneDNN. */
#include "kernels/conv2d/conv2d.h"
#include "kernels/onednn.h"
#include "kernels/weight.h"

#include <string.h>

TD_ONEDNN_ROW(conv2d);

#define MOST_GAP 64 /* a dilation that is wider than the input, by how much at most */

void td_conv2d_describe(const struct td_conv2d *c, int threads, struct td_onednn_desc *d)
{
    memset(d, 0, sizeof *d);
    d->kind = TD_ONEDNN_conv2d;
    d->dtype = c->input->dtype;
    d->threads = threads;
    d->bias = c->bias != NULL;
    d->stored = td_weight_of(c->weight) != NULL;
    d->rank = 4;
    d->src[0] = d->dst[0] = c->images;
    d->src[1] = c->groups * c->in_channels;
    d->dst[1] = c->groups * c->out_channels;
    int at = 0;
    if (c->groups > 1) /* the library wants the groups as a dimension of their own */
        d->weight[at++] = c->groups;
    d->weight[at++] = c->out_channels;
    d->weight[at++] = c->in_channels;
    for (int i = 0; i < 2; i++) {
        d->src[2 + i] = c->in[i];
        d->dst[2 + i] = c->size[i];
        d->weight[at++] = c->kernel[i];
        /* Where the kernel stands once, the least stride is as good: some of the library's loops
           run over it. */
        int64_t reach = c->dilation[i] * (c->kernel[i] - 1) + 1;
        int64_t least = c->in[i] + 2 * c->padding[i] - reach + 1;
        d->stride[i] = c->size[i] > 1 || c->stride[i] < least ? c->stride[i] : least;
        d->padding[i] = c->padding[i];
        d->dilation[i] = c->dilation[i];
    }
    d->weight_rank = at;
    for (int64_t step = 1; at-- > 0; step *= d->weight[at])
        d->step[at] = step;
}

/* In dimension d, position i of the kernel: the first output that takes it off the left padding. */
static bool lands(const struct td_conv2d *c, int d, int64_t i)
{
    int64_t from = c->padding[d] - i * c->dilation[d];
    int64_t out = from > 0 ? (from + c->stride[d] - 1) / c->stride[d] : 0;
    return out < c->size[d] && out * c->stride[d] - from < c->in[d];
}

/* Some position of the kernel lies on the input somewhere, not always on padding. */
static bool meets(const struct td_conv2d *c, int d)
{
    int64_t i = 0;
    while (i < c->kernel[d] && !lands(c, d, i))
        i++;
    return i < c->kernel[d];
}

bool td_conv2d_suits_onednn(const struct td_conv2d *c)
{
    for (int d = 0; d < 2; d++) {
        int64_t gap = c->kernel[d] > 1 ? c->dilation[d] : 0;
        if (!meets(c, d) || gap > MOST_GAP + c->in[d] ||
            c->padding[d] > c->in[d] + gap * (c->kernel[d] - 1))
            return false;
    }
    return td_numel(c->out) && td_numel(c->weight) && td_numel(c->input);
}

bool td_conv2d_onednn_accepts(const struct td_call *call)
{
    struct td_conv2d c;
    struct td_onednn_desc d;
    td_conv2d_of(call, &c);
    if (!td_conv2d_suits_onednn(&c))
        return false;
    td_conv2d_describe(&c, call->threads, &d);
    return td_onednn_accepts(&d);
}

bool td_conv2d_onednn_ready(const struct td_call *call)
{
    struct td_conv2d c;
    struct td_onednn_desc d;
    td_conv2d_of(call, &c);
    if (!td_conv2d_suits_onednn(&c))
        return true;
    td_conv2d_describe(&c, call->threads, &d);
    return td_onednn_ready(&d);
}

size_t td_conv2d_onednn_scratch(const struct td_call *call)
{
    struct td_conv2d c;
    struct td_onednn_desc d;
    td_conv2d_of(call, &c);
    td_conv2d_describe(&c, call->threads, &d);
    return td_onednn_scratch(&d);
}

void td_conv2d_onednn(const struct td_call *call)
{
    struct td_conv2d c;
    struct td_onednn_desc d;
    td_conv2d_of(call, &c);
    td_conv2d_describe(&c, call->threads, &d);
    const struct td_onednn_args args = {
        .src = c.input->data,
        .weight = c.weight,
        .bias = c.bias ? c.bias->data : NULL,
        .dst = c.out->data,
        .scratch = call->scratch,
    };
    if (td_onednn_run(&d, &args)) {
        td_kernel td_conv2d_ref;
        td_conv2d_ref(call); /* no memory left for the library: slow, but an answer */
    }
}
