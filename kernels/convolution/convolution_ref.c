/* The convolutions, reference: the sum as it is written, in double, or wrapping. Where nothing of
 * the input lies under the kernel there are zeros. They are passed over, but for weights that are
 * not finite, of which they make NaN; a transposed convolution has no zeros, as in PyTorch. */
#include "kernels/convolution/convolution.h"
#include "kernels/elementwise.h"

td_kernel td_convolution_ref;

struct range {
    int64_t begin, end;
};

/* The kernel's positions in dimension d that may take part in output at. With a big kernel and a
 * small input most lie on its padding. */
static struct range inside(const struct td_conv *c, int d, int64_t at, bool zeros)
{
    if (!c->in_channels)
        return (struct range){0, 0};
    if (zeros)
        return (struct range){0, c->kernel[d]};
    if (c->transposed) { /* i * dilation is at + padding less a multiple of stride below in */
        int64_t most = at + c->padding[d], least = most - (c->in[d] - 1) * c->stride[d];
        int64_t last = most / c->dilation[d] + 1;
        return (struct range){least > 0 ? (least - 1) / c->dilation[d] + 1 : 0,
                              last < c->kernel[d] ? last : c->kernel[d]};
    }
    int64_t from = at * c->stride[d] - c->padding[d], step = c->dilation[d], room = c->in[d] - from;
    int64_t end = room > 0 ? (room + step - 1) / step : 0;
    return (struct range){from < 0 ? (step - 1 - from) / step : 0,
                          end < c->kernel[d] ? end : c->kernel[d]};
}

/* The element of the input under position i; -1: none. */
static int64_t under(const struct td_conv *c, int d, int64_t at, int64_t i)
{
    int64_t x = at * c->stride[d] - c->padding[d] + i * c->dilation[d];
    if (c->transposed) {
        x = at + c->padding[d] - i * c->dilation[d];
        x = x < 0 || x % c->stride[d] ? -1 : x / c->stride[d];
    }
    return x < c->in[d] ? x : -1;
}

/* A call, and what all of its results have in common. */
struct whole {
    struct td_conv c;
    int64_t in, positions; /* pixels of an image of the input, positions of the kernel */
    bool zeros;            /* the padding is multiplied as well, as zeros */
};

struct sum {
    double real;
    uint64_t whole;
};

/* What the channels of image n under one position of the kernel give to output channel o. pixel -1:
 * zeros. */
static void add(const struct whole *w, struct sum *sum, int64_t n, int64_t o, int64_t pixel,
                int64_t position)
{
    static const float zero;
    const struct td_tensor zeros = {.data = (void *)&zero, .dtype = TD_f32};
    const struct td_conv *c = &w->c;
    int64_t channels = c->groups * c->in_channels, first = o / c->out_channels * c->in_channels;
    const struct td_tensor *in = pixel < 0 ? &zeros : c->input;
    int64_t at = pixel < 0 ? 0 : td_conv_at(c, n, first, channels, pixel, w->in);
    int64_t step = pixel < 0 ? 0 : c->last ? 1 : w->in;
    int64_t row =
        c->transposed ? first * c->out_channels + o % c->out_channels : o * c->in_channels;
    int64_t step_w = w->positions * (c->transposed ? c->out_channels : 1);
    int64_t at_w = row * w->positions + position;
    if (td_dtype_kind(c->out->dtype) == 'f')
        sum->real += td_dot_real(in, at, step, c->weight, at_w, step_w, c->in_channels);
    else if (pixel >= 0)
        sum->whole += td_dot_whole(in, at, step, c->weight, at_w, step_w, c->in_channels);
}

/* Output channel o, already counted over all groups, of image n at (z, y, x), where positions r of
 * the kernel take part. */
static struct sum one(const struct whole *w, int64_t n, int64_t o, const int64_t at[TD_CONV_DIMS],
                      const struct range r[TD_CONV_DIMS])
{
    const struct td_conv *c = &w->c;
    struct sum sum = {0};
    if (c->bias && td_dtype_kind(c->out->dtype) == 'f')
        sum.real = td_get_real(c->bias, o);
    else if (c->bias)
        sum.whole = (uint64_t)td_get_whole(c->bias, o);
    for (int64_t i = r[0].begin; i < r[0].end; i++) {
        int64_t z = under(c, 0, at[0], i);
        for (int64_t j = r[1].begin; (z >= 0 || w->zeros) && j < r[1].end; j++) {
            int64_t y = under(c, 1, at[1], j);
            for (int64_t k = r[2].begin; (y >= 0 || w->zeros) && k < r[2].end; k++) {
                int64_t x = under(c, 2, at[2], k);
                bool there = z >= 0 && y >= 0 && x >= 0;
                if (there || w->zeros)
                    add(w, &sum, n, o, there ? (z * c->in[1] + y) * c->in[2] + x : -1,
                        (i * c->kernel[1] + j) * c->kernel[2] + k);
            }
        }
    }
    return sum;
}

/* All channels of pixel p of image n. */
static void pixel(const struct whole *w, int64_t n, int64_t p, int64_t pixels)
{
    const struct td_conv *c = &w->c;
    int64_t outs = c->groups * c->out_channels;
    int64_t place[TD_CONV_DIMS] = {p / c->size[2] / c->size[1], p / c->size[2] % c->size[1],
                                   p % c->size[2]};
    struct range r[TD_CONV_DIMS];
    for (int d = 0; d < TD_CONV_DIMS; d++)
        r[d] = inside(c, d, place[d], w->zeros);
    for (int64_t o = 0; o < outs && (o % 64 || !td_stopped()); o++) {
        struct sum sum = one(w, n, o, place, r);
        int64_t at = td_conv_at(c, n, o, outs, p, pixels);
        if (td_dtype_kind(c->out->dtype) == 'f')
            td_put_real(c->out, at, td_post_judge(&c->post, c->out, at, sum.real));
        else
            td_put_whole(c->out, at, (int64_t)sum.whole);
    }
}

void td_convolution_ref(const struct td_call *call)
{
    struct whole w;
    td_conv_of(call, &w.c);
    int64_t pixels = td_conv_pixels(&w.c, w.c.size);
    w.in = td_conv_pixels(&w.c, w.c.in);
    w.positions = td_conv_positions(&w.c);
    w.zeros = !w.c.transposed && td_numel(w.c.out) && !td_conv_is_finite(&w.c);
    for (int64_t i = 0; td_numel(w.c.out) && i < w.c.images * pixels && !td_stopped(); i++)
        pixel(&w, i / pixels, i % pixels, pixels);
}
