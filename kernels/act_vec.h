/* The activations in vector form, for the files built once per level: one formula each, that the
 * operator of its name and the products that fuse it share. */
#ifndef TD_KERNELS_ACT_VEC_H
#define TD_KERNELS_ACT_VEC_H

#include "kernels/activation.h"
#include "kernels/vec.h"

TD_INLINE td_vf td_clamp(td_vf x, float low, float high) /* NaN stays NaN */
{
    return td_select((td_vi)(x < low), td_set(low), td_select((td_vi)(x > high), td_set(high), x));
}

TD_INLINE td_vf td_relu(td_vf x) /* NaN and -0 stay */
{
    return td_select((td_vi)(x < 0), td_set(0), x);
}

/* exp(-|x|) is made as the square of exp(-|x| / 2): below -87 it is a denormal with few digits,
 * while x times it still has most. */
TD_INLINE td_vf td_silu(td_vf x)
{
    td_vf half = td_exp(-0.5f * td_abs(x));
    return td_select((td_vi)(x < 0), half * (half * x), x) / (1 + half * half);
}

TD_INLINE td_vf td_gelu(td_vf x)
{
    return 0.5f * x * (1 + td_erf(x * 0.70710678f));
}

/* The tanh form is x * sigmoid(2 u), which is the same and takes one exponential. */
TD_INLINE td_vf td_gelu_tanh(td_vf x)
{
    td_vf u = x * (1 + 0.044715f * (x * x));
    return x * td_sigmoid(1.5957691f * u); /* 2 sqrt(2 / pi) */
}

TD_INLINE td_vf td_act_vec(const struct td_act *act, td_vf x)
{
    switch (act->kind) {
    case TD_ACT_relu:
        return td_relu(x);
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
        return td_silu(x);
    case TD_ACT_gelu:
        return td_gelu(x);
    case TD_ACT_gelu_tanh:
        return td_gelu_tanh(x);
    default:
        return x;
    }
}

#endif
