/* A checked call of conv2d, its numbers by name. */
#ifndef TD_KERNELS_CONV2D_H
#define TD_KERNELS_CONV2D_H

#include "kernels/kernels.h"

struct td_conv2d {
    const struct td_tensor *input, *weight, *bias, *out; /* borrowed; bias NULL: none */
    int64_t images, groups;
    int64_t in_channels, out_channels; /* of one group */
    int64_t in[2], kernel[2], size[2]; /* height and width: input, kernel, output */
    int64_t stride[2], padding[2], dilation[2];
};

void td_conv2d_of(const struct td_call *call, struct td_conv2d *c);

/* What oneDNN is to do, described as TD_ONEDNN_conv2d. */
struct td_onednn_desc;
void td_conv2d_describe(const struct td_conv2d *c, int threads, struct td_onednn_desc *d);

/* Whether the library is to be asked for it at all: there is something to compute, its loops run
 * over the tensors and little else (paddings and dilations of any size would be walked), and in
 * both dimensions some position of the kernel lies on the input somewhere: where it only ever
 * meets padding, oneDNN 3.2 crashes while it makes the primitive for AMX. */
bool td_conv2d_suits_onednn(const struct td_conv2d *c);

#endif
