/* Sizes of results that are told by numbers or by factors, which operators that resample share. */
#ifndef TD_KERNELS_UPSAMPLE_H
#define TD_KERNELS_UPSAMPLE_H

#include "kernels/kernels.h"

/* A rule: out[0] is like argument 0, [N, C, ...] with dims more, of which the sizes are those of
 * the list in argument 1 or, where that is None, its own times the factors in argument `factors`
 * (below 0: there are none). 0 or -EINVAL. */
int td_rule_upsample(struct td_call *call, int dims, int factors);

/* Result elements for one of self's in dimension d of dims, as the call tells it: by factors as
 * above, or by the arguments from number -factors on. 0: it does not. */
double td_upsample_factor(const struct td_call *call, int dims, int factors, int d);

#endif
