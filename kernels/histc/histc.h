/* What histc's files share. */
#ifndef TD_KERNELS_HISTC_H
#define TD_KERNELS_HISTC_H

#include "kernels/kernels.h"

/* From where to where a checked call counts, as self's type has it, which may have no number beside
 * a large one; false: self, which says it, is not finite. */
bool td_histc_range(const struct td_call *call, double *min, double *max);

#endif
