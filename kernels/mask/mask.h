/* Operators that pass over the elements of a tensor which a mask leaves out: nonzero, masked_select
 * and masked_scatter. A mask, or self, broadcast is walked in order, so what comes out is in order.
 */
#ifndef TD_KERNELS_MASK_H
#define TD_KERNELS_MASK_H

#include "kernels/kernels.h"

/* Steps through t, broadcast to like's shape, in elements. */
void td_mask_steps(const struct td_tensor *t, const struct td_tensor *like,
                   int64_t step[TD_MAX_RANK]);

/* Whether element i, of so many bytes, is not zero; -0 is. */
bool td_mask_is_set(const struct td_tensor *t, int64_t i);

/* The shape that masked_select walks: self and mask, broadcast to each other. */
struct td_tensor td_mask_common(const struct td_call *call);

#endif
