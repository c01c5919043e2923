/* What histc's files share. */
#ifndef TD_KERNELS_HISTC_H
#define TD_KERNELS_HISTC_H

#include "kernels/kernels.h"

/* A number as the call's self has it, in FP32 or FP64. */
double td_histc_typed(const struct td_call *call, double x);
/* The smallest and the largest element, of one or more; false: one is not finite. Where the call
 * is stopped they are of some. */
bool td_histc_extent(const struct td_tensor *self, double *min, double *max);
/* From where to where a checked call counts, as self's type has it, which may have no number beside
 * a large one; false: self, which says it, is not finite. */
bool td_histc_range(const struct td_call *call, double *min, double *max);

#endif
