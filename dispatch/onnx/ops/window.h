/* The numbers of a node that moves a window over an image: what its attributes say, dimension by
 * dimension. Internal to dispatch/onnx/ops/. */
#ifndef TD_DISPATCH_ONNX_WINDOW_H
#define TD_DISPATCH_ONNX_WINDOW_H

#include "dispatch/onnx/ops/onnx.h"

struct td_onnx_window {
    int dims;
    int64_t image[TD_MAX_RANK], kernel[TD_MAX_RANK], stride[TD_MAX_RANK], dilation[TD_MAX_RANK];
    int64_t span[TD_MAX_RANK];                    /* of a window, with what dilation leaves out */
    int64_t begin[TD_MAX_RANK], end[TD_MAX_RANK]; /* pads */
    int64_t result[TD_MAX_RANK];
};

/* Of the image called so, with as many dimensions behind the first two as kernel has sizes (NULL:
 * the attribute kernel_shape). False: something does not fit, and the node has failed. */
bool td_onnx_window(struct td_onnx *n, struct td_onnx_window *w, const char *image,
                    const char *weight);
/* Gives pads for amounts that are to be shared between both ends. */
void td_onnx_share(struct td_onnx_window *w, const int64_t *amount, bool upper);
bool td_onnx_is_even(const struct td_onnx_window *w); /* as much before as behind */
/* Names strides, dilations, zeros and kernel, and pads as ATen's convolutions have them. */
void td_onnx_let_window(struct td_onnx *n, const struct td_onnx_window *w);
/* Names pads as constant_pad_nd has them. */
void td_onnx_let_around(struct td_onnx *n, const char *name, const int64_t *begin,
                        const int64_t *end, int dims);
/* Has the image padded by name, unless it is as much before as behind: names what is left for the
 * operator to add pads. */
void td_onnx_pad_image(struct td_onnx *n, const struct td_onnx_window *w, const char *image);

#endif
