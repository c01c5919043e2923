/* A checked call of convolution_backward, by the names of the convolution that it belongs to. */
#ifndef TD_KERNELS_CONVOLUTION_BACKWARD_H
#define TD_KERNELS_CONVOLUTION_BACKWARD_H

#include "kernels/convolution/convolution.h"

/* out is grad_output, bias NULL. */
void td_convolution_backward_of(const struct td_call *call, struct td_conv *c);

#endif
