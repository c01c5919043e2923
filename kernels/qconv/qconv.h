/* A checked call of qlinear_conv or conv_integer_to_float, its numbers by name. */
#ifndef TD_KERNELS_QCONV_H
#define TD_KERNELS_QCONV_H

#include "kernels/elementwise.h"
#include "kernels/gemm/gemm.h"
#include "kernels/int_mm/int_mm.h"

enum { /* arguments of qlinear_conv; conv_integer_to_float has none of y */
       TD_QCONV_X,
       TD_QCONV_X_SCALE,
       TD_QCONV_X_ZERO,
       TD_QCONV_W,
       TD_QCONV_W_SCALE,
       TD_QCONV_W_ZERO,
       TD_QCONV_Y_SCALE,
       TD_QCONV_Y_ZERO,
       TD_QCONV_BIAS,
       TD_QCONV_STRIDE,
       TD_QCONV_PADDING,
       TD_QCONV_DILATION,
       TD_QCONV_GROUPS,
};

/* td_op.family. */
struct td_qconv_family {
    bool rounds; /* to y's 8 bits; else results are FP32, and so is the bias */
};

static inline bool td_qconv_rounds(const struct td_call *call)
{
    return ((const struct td_qconv_family *)call->op->family)->rounds;
}

/* The place of an argument that the operator has: without the two of y, those behind are two
 * places earlier. */
static inline int td_qconv_place(const struct td_call *call, int arg)
{
    return arg < TD_QCONV_Y_SCALE || td_qconv_rounds(call) ? arg : arg - 2;
}

struct td_qconv {
    const struct td_tensor *x, *w, *bias, *out; /* borrowed; bias NULL: none */
    int64_t images, channels, outs, groups;
    int64_t each; /* channels of a group */
    /* Height and width. */
    int64_t in[2], kernel[2], size[2], stride[2], padding[2], dilation[2];
};

void td_qconv_of(const struct td_call *call, struct td_qconv *c);

/* Each channel has a kernel of its own, and makes one. */
static inline bool td_qconv_is_depthwise(const struct td_qconv *c)
{
    return c->groups == c->channels && c->outs == c->channels;
}

/* The number for output channel o of a scale or zero point. */
static inline double td_qconv_number(const struct td_call *call, int arg, int64_t o)
{
    const struct td_tensor *t = &call->arg[arg].tensor;
    return td_get_real(t, td_numel(t) == 1 ? 0 : o);
}

/* What sums of channel o are multiplied by. */
static inline float td_qconv_scale(const struct td_call *call, int64_t o)
{
    float scale = (float)td_qconv_number(call, TD_QCONV_X_SCALE, 0) *
                  (float)td_qconv_number(call, TD_QCONV_W_SCALE, o);
    return td_qconv_rounds(call) ? scale / (float)td_qconv_number(call, TD_QCONV_Y_SCALE, 0)
                                 : scale;
}

/* The vector rows compute it in bands of so many pixels of all images, each a product of what lies
 * under the kernel, gathered, and the weight; sums of a band stay in a cache. Where that lies in
 * the call's scratch, in bytes: */
struct td_qconv_cut {
    int64_t band, depth;             /* pixels; depth: elements under the kernel */
    size_t at_add, at_scale, at_sum; /* what is added to a channel's sums; its scale; and sums */
    size_t at_w, bytes;              /* room for a weight in another order; all of it */
};
void td_qconv_cut(const struct td_call *call, int group, int pad, struct td_qconv_cut *cut);
/* The product of a band of so many pixels, in lanes of group elements (kernels/gemm/gemm.h). */
void td_qconv_gemm(const struct td_qconv *c, int64_t pixels, int threads, int group, int pad,
                   struct td_gemm *g);

#endif
