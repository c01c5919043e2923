/* Results that need no kernel: kernels/move/ says where they lie. */
#ifndef TD_KERNELS_VIEW_H
#define TD_KERNELS_VIEW_H

#include "kernels/kernels.h"

/* Whether result i of a settled call is nothing but elements of an argument, in their order and
 * without gaps: the argument's tensor is given in *from (borrowed of the call), and the first one's
 * place in it, in elements. -1: it is not, or the operator computes. Needs no data. */
int64_t td_view_in(const struct td_call *call, int i, const struct td_tensor **from);

#endif
