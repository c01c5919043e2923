/* Convolutions of FP32 with channels last where they lie, by one of four ways: depthwise ones
 * (convolution_depth.c), those of up to three channels of the result (convolution_dots.c), others
 * whose kernel has more than one position (convolution_direct.c), and those of one position, which
 * are products of rows, a pixel each, of which with a stride those that are read are copied. */
#include "kernels/convolution/convolution.h"

#include <assert.h>

TD_KERNEL(convolution_last)
{
    struct td_conv c;
    struct td_gemm g;
    struct td_tensor picked;
    struct td_piece piece;
    char *room = call->scratch;
    td_conv_of(call, &c);
    if (td_conv_is_depth(&c)) {
        TD_NAME(conv_depth)(&c, call->threads, room);
        return;
    }
    if (td_conv_is_direct(&c)) {
        (c.out_channels > TD_CONV_DOTS ? TD_NAME(conv_direct)
                                       : TD_NAME(conv_dots))(&c, call->threads, room);
        return;
    }
    if (td_conv_pick(&c, &picked, &piece)) {
        picked.data = room;
        room += td_conv_turned(&picked);
        TD_NAME(move_piece)(&piece, call->threads);
    }
    bool linear = td_conv_linear(&c, call->threads, &g);
    assert(linear); /* prepare has looked */
    (void)linear;
    TD_NAME(gemm)(&g, room);
}
