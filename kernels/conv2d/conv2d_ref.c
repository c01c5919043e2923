/* conv2d, reference: the sum as it is written, in double. */
#include "kernels/conv2d/conv2d.h"
#include "kernels/elementwise.h"

td_kernel td_conv2d_ref;

struct range {
    int64_t begin, end;
};

/* The kernel's positions in dimension d that lie on the input, from at on, and not on its padding:
 * with a big kernel and a small input most do not. */
static struct range inside(const struct td_conv2d *c, int d, int64_t at)
{
    int64_t step = c->dilation[d], room = c->in[d] - at;
    int64_t end = room > 0 && c->in_channels ? (room + step - 1) / step : 0;
    return (struct range){at < 0 ? (step - 1 - at) / step : 0,
                          end < c->kernel[d] ? end : c->kernel[d]};
}

/* Output channel o, already counted over all groups, of image n at (y, x). */
static double one(const struct td_conv2d *c, int64_t n, int64_t o, int64_t y, int64_t x)
{
    double sum = c->bias ? td_get_real(c->bias, o) : 0;
    int64_t first = (n * c->groups + o / c->out_channels) * c->in_channels;
    int64_t top = y * c->stride[0] - c->padding[0], left = x * c->stride[1] - c->padding[1];
    struct range rows = inside(c, 0, top), cols = inside(c, 1, left);
    for (int64_t i = rows.begin; i < rows.end; i++) {
        int64_t row = top + i * c->dilation[0];
        for (int64_t j = cols.begin; j < cols.end; j++) {
            int64_t col = left + j * c->dilation[1];
            for (int64_t ch = 0; ch < c->in_channels; ch++) {
                int64_t at = ((first + ch) * c->in[0] + row) * c->in[1] + col;
                int64_t w = ((o * c->in_channels + ch) * c->kernel[0] + i) * c->kernel[1] + j;
                sum += td_get_real(c->input, at) * td_get_real(c->weight, w);
            }
        }
    }
    return sum;
}

void td_conv2d_ref(const struct td_call *call)
{
    struct td_conv2d c;
    td_conv2d_of(call, &c);
    int64_t at = 0, images = td_numel(c.out) ? c.images : 0;
    for (int64_t n = 0; n < images; n++)
        for (int64_t o = 0; o < c.groups * c.out_channels; o++)
            for (int64_t y = 0; y < c.size[0]; y++)
                for (int64_t x = 0; x < c.size[1] && (at % 64 || !td_stopped()); x++)
                    td_put_real(c.out, at++, one(&c, n, o, y, x));
}
