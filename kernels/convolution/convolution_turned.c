/* Convolutions of FP32 with channels first whose rows do not fill vectors, as those of short lines
 * and of the last layers of a network. They are turned to channels last, which are vectors of any
 * rows, and their result back. */
#include "kernels/convolution/convolution.h"

void TD_NAME(conv_transpose)(const struct td_tensor *from, int64_t images, int64_t rows,
                             int64_t columns, int threads, void *to)
{
    struct td_tensor out = {
        .dtype = from->dtype, .rank = 3, .shape = {images, columns, rows}, .data = to};
    struct td_piece piece = {.box = {.from = from,
                                     .rank = 3,
                                     .shape = {images, columns, rows},
                                     .stride = {rows * columns, 1, columns}},
                             .out = &out,
                             .stride = {rows * columns, rows, 1}};
    TD_NAME(move_piece)(&piece, threads);
}

TD_KERNEL(convolution_turned)
{
    struct td_conv c, last;
    td_conv_of(call, &c);
    td_conv_turn(&c, &last);
    struct td_tensor input = *c.input, out = *c.out;
    int64_t in_pixels = td_conv_pixels(&c, c.in), pixels = td_conv_pixels(&c, c.size);
    char *room = call->scratch;
    if (c.in_channels > 1 && in_pixels > 1) {
        input.data = room;
        room += td_conv_turned(&input);
        TD_NAME(conv_transpose)
        (c.input, c.images, c.in_channels, in_pixels, call->threads, input.data);
    }
    const bool turns = c.out_channels > 1 && pixels > 1;
    if (turns) {
        out.data = room;
        room += td_conv_turned(&out);
    }
    last.input = &input;
    last.out = &out;
    (c.out_channels > TD_CONV_DOTS ? TD_NAME(conv_direct)
                                   : TD_NAME(conv_dots))(&last, call->threads, room);
    if (turns)
        TD_NAME(conv_transpose)(&out, c.images, pixels, c.out_channels, call->threads, c.out->data);
}
