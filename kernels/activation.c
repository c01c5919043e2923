/* The activations' names, defaults and plain formulas, which their operators' references share. */
#include "kernels/activation.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    double alpha, beta;
} acts[TD_ACTS] = {
#define TD_ACT(id, name, alpha, beta) {name, alpha, beta},
#include "kernels/activation.def"
#undef TD_ACT
};

const char *const td_act_names = &(
#define TD_ACT(id, name, alpha, beta) ", " name
#include "kernels/activation.def"
#undef TD_ACT
    )[2];

int td_act_parse(struct td_act *act, const char *name)
{
    for (int i = 0; i < TD_ACTS; i++) {
        if (!strcmp(name ? name : "none", acts[i].name)) {
            *act = (struct td_act){(enum td_act_kind)i, acts[i].alpha, acts[i].beta};
            return 0;
        }
    }
    return -EINVAL;
}

static double clamp(double x, double low, double high) /* NaN stays NaN */
{
    return x < low ? low : x > high ? high : x;
}

double td_act_apply(const struct td_act *act, double x)
{
    switch (act->kind) {
    case TD_ACT_relu: /* NaN and -0 stay; not a product with 0, which is NaN for -inf */
        return x < 0 ? 0 : x;
    case TD_ACT_leaky_relu:
        return x <= 0 ? x * act->alpha : x;
    case TD_ACT_relu6:
    case TD_ACT_hardtanh:
        return clamp(x, act->alpha, act->beta);
    case TD_ACT_hardsigmoid:
        return clamp(x / 6 + 0.5, 0, 1);
    case TD_ACT_hardswish:
        return x * clamp(x / 6 + 0.5, 0, 1);
    case TD_ACT_sigmoid:
        return 1 / (1 + exp(-x));
    case TD_ACT_tanh:
        return tanh(x);
    case TD_ACT_silu:
    case TD_ACT_swish:
        return x / (1 + exp(-x));
    case TD_ACT_gelu:
        return 0.5 * x * (1 + erf(x * M_SQRT1_2));
    case TD_ACT_gelu_tanh:
        return 0.5 * x * (1 + tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
    default:
        return x;
    }
}
