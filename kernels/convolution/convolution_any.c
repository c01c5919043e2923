/* The convolutions of any type as products: the level's, of what is gathered. */
#include "kernels/convolution/convolution.h"

TD_KERNEL(convolution_any)
{
    struct td_conv c;
    struct td_gemm g;
    td_conv_of(call, &c);
    struct td_tensor weight = *c.weight;
    if (c.transposed) {
        td_conv_gemm(&c, c.weight, call->threads, &g);
        weight.data = (char *)call->scratch + td_gemm_scratch_any(&g);
        weight.weight = NULL;
        td_conv_turn_weight(&c, weight.data);
    }
    td_conv_gemm(&c, &weight, call->threads, &g);
    TD_NAME(gemm_any)(&g, call->scratch);
}
