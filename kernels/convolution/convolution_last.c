/* Convolutions of FP32 with channels last where they lie, by one of four ways: depthwise ones
 * (convolution_depth.c), those of up to three channels of the result (convolution_dots.c), others
 * whose kernel has more than one position (convolution_direct.c), and those of one position, which
 * are products of rows, a pixel each (convolution_any.c). */
#include "kernels/convolution/convolution.h"

td_kernel TD_NAME(convolution_any);

TD_KERNEL(convolution_last)
{
    struct td_conv c;
    td_conv_of(call, &c);
    if (td_conv_is_depth(&c))
        TD_NAME(conv_depth)(&c, call->threads, call->scratch);
    else if (!td_conv_is_direct(&c))
        TD_NAME(convolution_any)(call);
    else if (c.out_channels > TD_CONV_DOTS)
        TD_NAME(conv_direct)(&c, call->threads, call->scratch);
    else
        TD_NAME(conv_dots)(&c, call->threads, call->scratch);
}
