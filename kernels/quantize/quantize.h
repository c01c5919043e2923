/* What the quantizing rows and their reference share: where scales and zero points come from. */
#ifndef TD_KERNELS_QUANTIZE_H
#define TD_KERNELS_QUANTIZE_H

#include "kernels/elementwise.h"

/* td_op.family: which of the three, and whether scale and zero point go along a dimension. */
struct td_quantize {
    enum td_quantize_way { TD_QUANTIZE_to, TD_QUANTIZE_back, TD_QUANTIZE_self } way;
    bool channels;
};
static inline const struct td_quantize *td_quantize(const struct td_call *call)
{
    return call->op->family;
}

/* Elements between one channel and the next; the channels; as one scale for all: the elements, 1.
 */
struct td_channels {
    int64_t inner, n;
};
static inline struct td_channels td_channels(const struct td_call *call)
{
    const struct td_tensor *in = &call->arg[0].tensor;
    struct td_channels c = {1, 1};
    if (!td_quantize(call)->channels)
        return (struct td_channels){td_numel(in), 1};
    int axis = (int)call->arg[3].i + (call->arg[3].i < 0 ? in->rank : 0);
    for (int d = axis + 1; d < in->rank; d++)
        c.inner *= in->shape[d];
    c.n = in->shape[axis];
    return c;
}

/* Scale and zero point of a channel, in the FP32 that elements are computed in. */
struct td_scale {
    float scale, zero;
};
static inline struct td_scale td_scale(const struct td_call *call, int64_t channel)
{
    const struct td_value *scale = &call->arg[1], *zero = &call->arg[2];
    struct td_scale s = {0};
    s.scale = scale->kind == TD_KIND_tensor ? (float)td_get_real(&scale->tensor, channel)
                                            : (float)td_scalar(scale);
    if (zero->kind == TD_KIND_tensor)
        s.zero = (float)td_get_real(&zero->tensor, channel);
    else if (zero->kind != TD_KIND_none)
        s.zero = (float)td_scalar(zero);
    return s;
}

/* What ONNX's DynamicQuantizeLinear takes for a tensor whose numbers go from low to high, 0 among
 * them. */
static inline struct td_scale td_scale_of_range(float low, float high)
{
    struct td_scale s = {.scale = (high - low) / 255};
    s.scale = s.scale > 0 ? s.scale : 1; /* of nothing but zeros */
    float zero = __builtin_rintf(-low / s.scale);
    s.zero = zero > 255 ? 255 : zero > 0 ? zero : 0;
    return s;
}

#endif
