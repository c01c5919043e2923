/* The activation that an operator applies to its result before storing it. */
#ifndef TD_KERNELS_ACTIVATION_H
#define TD_KERNELS_ACTIVATION_H

enum td_act_kind {
#define TD_ACT(id, name, alpha, beta) TD_ACT_##id,
#include "kernels/activation.def"
#undef TD_ACT
    TD_ACTS
};

struct td_act {
    enum td_act_kind kind;
    double alpha, beta; /* leaky_relu: slope; hardtanh: low, high; else the defaults */
};

/* All names, comma-separated, for messages. */
extern const char *const td_act_names;

/* The activation called so, with its defaults. 0 or -EINVAL. NULL is "none". */
int td_act_parse(struct td_act *act, const char *name);

/* The reference: one number. */
double td_act_apply(const struct td_act *act, double x);

#endif
