/* Computes again, as direct sums, results that Winograd's algorithm left infinite or NaN: it
 * subtracts inputs from each other, and the difference of two infinities is NaN. Uses vectors,
 * since a whole input may be NaN. Included by convolution_winograd.c alone. */
#ifndef TD_KERNELS_CONVOLUTION_WINOGRAD_SUMS_H
#define TD_KERNELS_CONVOLUTION_WINOGRAD_SUMS_H

#include "kernels/convolution/convolution_posts.h"

#include <string.h>

struct job {
    const struct td_conv *c;
    const struct td_winograd *w;
    const float *taps; /* of the weight, as it is kept */
    struct conv_posts posts;
    char *scratch; /* the weights' matrices, then the slots' */
};

TD_INLINE bool is_row_finite(const float *row, int64_t n)
{
    bool all = true;
    for (int64_t i = 0; i < n; i++)
        all &= row[i] - row[i] == 0;
    return all;
}

/* Row y of an output channel, channels first. padded: room for a row of the input with zeros
 * around. */
static void put_row(const struct job *j, int64_t image, int64_t channel, int64_t y, float *padded,
                    float *to)
{
    const struct td_conv *c = j->c;
    int64_t width = c->in[1], pixels = td_conv_pixels(c, c->in), plane = j->w->plane;
    const float *input = (const float *)c->input->data + image * c->in_channels * pixels;
    const float bias = c->bias ? ((const float *)c->bias->data)[channel] : 0;
    for (int64_t x = 0; x < c->size[1]; x++)
        to[x] = bias;
    for (int64_t i = 0; i < c->in_channels; i++, input += pixels) {
        const float *tap = j->taps + td_winograd_place(j->w, channel, i);
        for (int64_t k = 0; k < 3; k++) {
            int64_t row = y - c->padding[0] + k;
            if (row >= 0 && row < c->in[0])
                memcpy(padded + c->padding[1], input + row * width, (size_t)width * sizeof *input);
            else
                memset(padded + c->padding[1], 0, (size_t)width * sizeof *input);
            td_vf left = td_set(tap[3 * k * plane]), middle = td_set(tap[(3 * k + 1) * plane]),
                  right = td_set(tap[(3 * k + 2) * plane]);
            for (int64_t x = 0; x < c->size[1]; x += TD_LANES) {
                td_vf sum = td_load_next(to + x, c->size[1] - x, 0);
                sum = td_fma(td_load(padded + x), left, sum);
                sum = td_fma(td_load(padded + x + 1), middle, sum);
                sum = td_fma(td_load(padded + x + 2), right, sum);
                td_store_next(to + x, c->size[1] - x, sum);
            }
        }
    }
}

/* All channels of a pixel, channels last, with the post-ops that are done in registers. */
static void put_pixel(const struct job *j, int64_t image, int64_t y, int64_t x)
{
    const struct td_conv *c = j->c;
    int64_t outs = c->out_channels, ins = c->in_channels, width = j->w->width;
    const float *input = (const float *)c->input->data + image * td_conv_pixels(c, c->in) * ins;
    const float *bias = c->bias ? c->bias->data : NULL;
    float *to = (float *)c->out->data + ((image * c->size[0] + y) * c->size[1] + x) * outs;
    for (int64_t o = 0; o < outs; o += TD_LANES) {
        const float *tap = j->taps + td_winograd_place(j->w, o, 0);
        td_vf sum = bias ? td_load_next(bias + o, outs - o, 0) : td_set(0);
        for (int64_t k = 0; k < 9; k++, tap += j->w->plane) {
            int64_t row = y - c->padding[0] + k / 3, column = x - c->padding[1] + k % 3;
            bool inside = row >= 0 && row < c->in[0] && column >= 0 && column < c->in[1];
            const float *at = inside ? input + (row * c->in[1] + column) * ins : NULL;
            for (int64_t i = 0; i < ins; i++)
                sum = td_fma(td_set(at ? at[i] : 0), td_load(tap + i * width), sum);
        }
        conv_posts_early(&j->posts, &sum, 1);
        td_store_next(to + o, outs - o, sum);
    }
}

#endif
