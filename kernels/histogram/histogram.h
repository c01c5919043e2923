/* What histogram's files share. */
#ifndef TD_KERNELS_HISTOGRAM_H
#define TD_KERNELS_HISTOGRAM_H

#include "kernels/kernels.h"

/* From where to where a checked call of histogram.bin_ct counts, as self's type has it; false:
 * self, which says it, is not finite. */
bool td_histogram_range(const struct td_call *call, double *low, double *high);

#endif
