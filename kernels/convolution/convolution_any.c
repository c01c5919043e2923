/* Convolutions of any type, by one of five ways: a kernel of one position is a matrix product of
 * the weight and the input, of which with a stride only the elements read are copied first; rows
 * that fill vectors are laid out (convolution_laid.c); transposed ones are products of which rows
 * are added up (convolution_col2im.c); with channels last a kernel of one position is a product of
 * rows; any other is a product with columns that are gathered (im2col) as they are
 * multiplied. */
#include "kernels/convolution/convolution.h"

td_kernel td_convolution_ref;

TD_KERNEL(convolution_any)
{
    struct td_conv c;
    struct td_gemm g;
    struct td_laid cut;
    struct td_col2im col2im;
    struct td_tensor picked;
    struct td_piece piece;
    char *room = call->scratch;
    td_conv_of(call, &c);
    if (td_conv_cut_laid(&c, call->threads, &cut)) {
        TD_NAME(conv_laid)(&c, &cut, call->scratch);
        return;
    }
    if (!td_conv_cut_col2im(&c, call->threads, &col2im)) {
        TD_NAME(conv_col2im)(&c, &col2im, call->scratch);
        return;
    }
    if (td_conv_pick(&c, &picked, &piece)) {
        picked.data = room;
        room += td_conv_turned(&picked);
        TD_NAME(move_piece)(&piece, call->threads);
    }
    if (td_conv_linear(&c, call->threads, &g)) {
        TD_NAME(gemm)(&g, room);
        return;
    }
    td_conv_gemm(&c, c.weight, call->threads, &g);
    if (td_conv_is_matmul(&c, &g)) {
        TD_NAME(gemm)(&g, room);
        return;
    }
    if (c.transposed &&
        !td_conv_is_finite(&c)) { /* which zeros between elements would make NaN of */
        td_convolution_ref(call);
        return;
    }
    struct td_tensor weight = *c.weight, input = *c.input, out = *c.out;
    int64_t pixels = td_conv_pixels(&c, c.in), outs = td_conv_pixels(&c, c.size);
    if (c.last) { /* turned round, and back */
        input.data = room;
        out.data = room + td_conv_turned(&input);
        room += td_conv_turned(&input) + td_conv_turned(&out);
        TD_NAME(conv_transpose)
        (c.input, c.images, pixels, c.groups * c.in_channels, call->threads, input.data);
        c.input = &input;
        c.out = &out;
    }
    if (c.transposed) {
        td_conv_gemm(&c, c.weight, call->threads, &g);
        weight.data = room + td_gemm_scratch_any(&g);
        weight.weight = NULL;
        td_conv_turn_weight(&c, weight.data);
    }
    td_conv_gemm(&c, &weight, call->threads, &g);
    TD_NAME(gemm_any)(&g, room);
    if (c.last)
        TD_NAME(conv_transpose)
    (&out, c.images, c.groups * c.out_channels, outs, call->threads, call->out[0].data);
    TD_NAME(post_all)(&c.post, &call->out[0], call->threads);
}
