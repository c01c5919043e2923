/* The activations in vector form, for the files built once per level: one formula each, that the
 * operator of its name and the products that fuse it share. */
#ifndef TD_KERNELS_ACT_VEC_H
#define TD_KERNELS_ACT_VEC_H

#include "kernels/activation.h"
#include "kernels/formulas.h"

TD_INLINE td_vf td_act_vec(const struct td_act *act, td_vf x)
{
    switch (act->kind) {
    case TD_ACT_relu:
        return o_relu(x);
    case TD_ACT_leaky_relu:
        return L_sel(L_gt(x, L_c(0)), x, L_mul(x, L_c((float)act->alpha)));
    case TD_ACT_relu6:
    case TD_ACT_hardtanh:
        return o_clamp(x, L_c((float)act->alpha), L_c((float)act->beta));
    case TD_ACT_hardsigmoid:
        return o_hardsigmoid(x);
    case TD_ACT_hardswish:
        return o_hardswish(x);
    case TD_ACT_sigmoid:
        return o_sigmoid(x);
    case TD_ACT_tanh:
        return o_tanh(x);
    case TD_ACT_silu:
    case TD_ACT_swish:
        return o_silu(x);
    case TD_ACT_gelu:
        return o_gelu(x);
    case TD_ACT_gelu_tanh:
        return o_gelu_tanh(x);
    default:
        return x;
    }
}

#endif
