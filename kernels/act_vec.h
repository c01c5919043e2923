/* The fused activations in vector form, for the files built once per level. */
#ifndef TD_KERNELS_ACT_VEC_H
#define TD_KERNELS_ACT_VEC_H

#include "kernels/activation.h"
#include "kernels/vec.h"

TD_INLINE td_vf td_clamp(td_vf x, float low, float high) /* NaN stays NaN */
{
    return td_select((td_vi)(x < low), td_set(low), td_select((td_vi)(x > high), td_set(high), x));
}

TD_INLINE td_vf td_act_vec(const struct td_act *act, td_vf x)
{
    switch (act->kind) {
    case TD_ACT_relu: /* keeps NaN; a product with 0 would leave -0 */
        return td_max(x, td_set(0));
    case TD_ACT_leaky_relu:
        return td_select((td_vi)(x <= 0), x * (float)act->alpha, x);
    case TD_ACT_relu6:
    case TD_ACT_hardtanh:
        return td_clamp(x, (float)act->alpha, (float)act->beta);
    case TD_ACT_hardsigmoid:
        return td_clamp(x * (1.0f / 6) + 0.5f, 0, 1);
    case TD_ACT_hardswish:
        return x * td_clamp(x * (1.0f / 6) + 0.5f, 0, 1);
    case TD_ACT_sigmoid:
        return td_sigmoid(x);
    case TD_ACT_tanh:
        return td_tanh(x);
    case TD_ACT_silu:
    case TD_ACT_swish:
        return x * td_sigmoid(x);
    case TD_ACT_gelu:
        return 0.5f * x * (1 + td_erf(x * 0.70710678f));
    case TD_ACT_gelu_tanh:
        return x * td_sigmoid(1.5957691f * (x * (1 + 0.044715f * (x * x))));
    default:
        return x;
    }
}

#endif
