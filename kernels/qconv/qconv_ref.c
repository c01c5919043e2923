/* Convolutions of 8-bit integers, reference: each element's sum by itself. */
#include "kernels/qconv/qconv.h"

td_kernel td_qconv_ref;

/* Of output channel o, whose kernel begins at (row, col) of the image. */
static int64_t sum_of(const struct td_call *call, const struct td_qconv *c, int64_t image,
                      int64_t o, int64_t row, int64_t col)
{
    int64_t x_zero = (int64_t)td_qconv_number(call, TD_QCONV_X_ZERO, 0), sum = 0;
    int64_t w_zero = (int64_t)td_qconv_number(call, TD_QCONV_W_ZERO, o);
    int64_t first = o / (c->outs / c->groups) * c->each;
    for (int64_t i = 0; i < c->kernel[0] && !td_stopped(); i++)
        for (int64_t j = 0; j < c->kernel[1]; j++) {
            int64_t y = row + i * c->dilation[0], x = col + j * c->dilation[1];
            if (y < 0 || y >= c->in[0] || x < 0 || x >= c->in[1])
                continue;
            int64_t from = ((image * c->in[0] + y) * c->in[1] + x) * c->channels + first;
            for (int64_t p = 0; p < c->each; p++) {
                int64_t w = ((o * c->each + p) * c->kernel[0] + i) * c->kernel[1] + j;
                sum += (td_get_whole(c->x, from + p) - x_zero) * (td_get_whole(c->w, w) - w_zero);
            }
        }
    return sum;
}

void td_qconv_ref(const struct td_call *call)
{
    struct td_qconv c;
    td_qconv_of(call, &c);
    bool rounds = td_qconv_rounds(call);
    float zero = rounds ? (float)td_qconv_number(call, TD_QCONV_Y_ZERO, 0) : 0;
    for (int64_t at = 0, n = td_numel(c.out); at < n && !td_stopped(); at++) {
        int64_t o = at % c.outs, pixel = at / c.outs;
        int64_t x = pixel % c.size[1], y = pixel / c.size[1] % c.size[0];
        int64_t sum = sum_of(call, &c, pixel / c.size[1] / c.size[0], o,
                             y * c.stride[0] - c.padding[0], x * c.stride[1] - c.padding[1]);
        if (!rounds) {
            float real = (float)(int32_t)sum * td_qconv_scale(call, o);
            ((float *)c.out->data)[at] = c.bias ? real + ((const float *)c.bias->data)[o] : real;
            continue;
        }
        sum += c.bias ? td_get_whole(c.bias, o) : 0;
        td_put_whole(c.out, at,
                     td_int_mm_round((int32_t)sum, td_qconv_scale(call, o), zero, c.out->dtype));
    }
}
