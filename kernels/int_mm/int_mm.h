/* What the rows of _int_mm share. */
#ifndef TD_KERNELS_INT_MM_H
#define TD_KERNELS_INT_MM_H

#include "kernels/gemm/gemm.h"

/* What a checked call computes, in lanes of so many elements (kernels/gemm/gemm.h). */
void td_int_mm_gemm(const struct td_call *call, struct td_gemm *g, int group, int pad);

#endif
