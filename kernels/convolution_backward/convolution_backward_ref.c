/* convolution_backward, reference: for each result, the sum over all that it takes part in, in
 * double.
 */
#include "kernels/backward.h"
#include "kernels/convolution_backward/convolution_backward.h"
#include "kernels/elementwise.h"

td_kernel td_convolution_backward_ref;

/* The kernel's elements that take input element at: those i for which at + padding - i * dilation
 * is a multiple y * stride. They lie a period apart, and the first is found by the inverse of
 * dilation, so that elements that take nothing cost nothing: there are as many as the stride is
 * wide. */
struct lattice {
    int64_t common, period, inverse; /* common: greatest divisor of dilation and stride */
};

static struct lattice lattice_of(int64_t dilation, int64_t stride)
{
    int64_t a = stride, b = dilation, x = 0, y = 1; /* b = y * dilation modulo stride */
    while (b) {
        int64_t times = a / b, rest = a % b, next = x - times * y;
        a = b;
        b = rest;
        x = y;
        y = next;
    }
    int64_t period = stride / a;
    return (struct lattice){a, period, (x % period + period) % period};
}

/* The first such i; the kernel's size when there is none. */
static int64_t first(const struct td_conv *c, const struct lattice *l, int d, int64_t at)
{
    int64_t from = at + c->padding[d];
    return from % l->common ? c->kernel[d] : from / l->common % l->period * l->inverse % l->period;
}

/* The output position in which it does so; beyond the output, or negative, when it does not. */
static int64_t reached(const struct td_conv *c, int d, int64_t at, int64_t i)
{
    int64_t from = at + c->padding[d] - i * c->dilation[d];
    return from < 0 ? -1 : from / c->stride[d];
}

/* Input channel ch, already counted over all groups, of image n at (row, col). */
static double for_input(const struct td_conv *c, const struct lattice l[2], int64_t n, int64_t ch,
                        int64_t row, int64_t col)
{
    double sum = 0;
    int64_t o_first = ch / c->in_channels * c->out_channels, outs = c->groups * c->out_channels;
    for (int64_t i = first(c, &l[0], 0, row); i < c->kernel[0]; i += l[0].period) {
        int64_t y = reached(c, 0, row, i);
        for (int64_t j = first(c, &l[1], 1, col); y >= 0 && y < c->size[0] && j < c->kernel[1];
             j += l[1].period) {
            int64_t x = reached(c, 1, col, j);
            for (int64_t o = o_first; x >= 0 && x < c->size[1] && o < o_first + c->out_channels;
                 o++) {
                int64_t at = ((n * outs + o) * c->size[0] + y) * c->size[1] + x;
                int64_t w = o * c->in_channels + ch % c->in_channels;
                sum += td_get_real(c->out, at) *
                       td_get_real(c->weight, (w * c->kernel[0] + i) * c->kernel[1] + j);
            }
        }
    }
    return sum;
}

/* Output channel o, already counted over all groups, and input channel ch of its group. */
static double for_weight(const struct td_conv *c, int64_t o, int64_t ch, int64_t i, int64_t j)
{
    double sum = 0;
    int64_t outs = c->groups * c->out_channels, ins = c->groups * c->in_channels;
    for (int64_t n = 0; n < c->images; n++)
        for (int64_t y = 0; y < c->size[0]; y++) {
            int64_t row = y * c->stride[0] - c->padding[0] + i * c->dilation[0];
            for (int64_t x = 0; row >= 0 && row < c->in[0] && x < c->size[1]; x++) {
                int64_t col = x * c->stride[1] - c->padding[1] + j * c->dilation[1];
                if (col < 0 || col >= c->in[1])
                    continue;
                int64_t image = n * ins + o / c->out_channels * c->in_channels + ch;
                sum += td_get_real(c->out, ((n * outs + o) * c->size[0] + y) * c->size[1] + x) *
                       td_get_real(c->input, (image * c->in[0] + row) * c->in[1] + col);
            }
        }
    return sum;
}

static double for_bias(const struct td_conv *c, int64_t o)
{
    double sum = 0;
    int64_t outs = c->groups * c->out_channels, pixels = c->size[0] * c->size[1];
    for (int64_t n = 0; n < c->images; n++)
        for (int64_t i = 0; i < pixels; i++)
            sum += td_get_real(c->out, (n * outs + o) * pixels + i);
    return sum;
}

void td_convolution_backward_ref(const struct td_call *call)
{
    struct td_conv c;
    td_convolution_backward_of(call, &c);
    const struct lattice lattices[2] = {lattice_of(c.dilation[0], c.stride[0]),
                                        lattice_of(c.dilation[1], c.stride[1])};
    int64_t outs = c.groups * c.out_channels, ins = c.groups * c.in_channels, at = 0;
    for (int64_t n = 0; td_wants(call, 0) && n < c.images; n++)
        for (int64_t ch = 0; ch < ins; ch++)
            for (int64_t row = 0; row < c.in[0]; row++)
                for (int64_t col = 0; col < c.in[1] && (at % 64 || !td_stopped()); col++)
                    td_put_real(&call->out[0], at++, for_input(&c, lattices, n, ch, row, col));
    at = 0;
    for (int64_t o = 0; td_wants(call, 1) && o < outs; o++)
        for (int64_t ch = 0; ch < c.in_channels; ch++)
            for (int64_t i = 0; i < c.kernel[0]; i++)
                for (int64_t j = 0; j < c.kernel[1] && !td_stopped(); j++)
                    td_put_real(&call->out[1], at++, for_weight(&c, o, ch, i, j));
    for (int64_t o = 0; td_wants(call, 2) && o < outs && !td_stopped(); o++)
        td_put_real(&call->out[2], o, for_bias(&c, o));
}
