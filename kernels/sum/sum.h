/* What sum's files share. */
#ifndef TD_KERNELS_SUM_H
#define TD_KERNELS_SUM_H

#include "kernels/dims.h"

/* The reduced dimensions of a checked call of either overload, as bits. */
unsigned td_sum_dims(const struct td_call *call);

/* How a sum is cut: into columns blocks of TD_SUM_COLUMNS where the innermost dimension is kept,
 * and a long reduction with few outputs into parts, whose totals are added in order. It depends on
 * the shape only, so that the result is the same with any number of threads. */
#define TD_SUM_COLUMNS 512
struct td_sum_cut {
    int64_t blocks; /* of columns; 1 along the innermost dimension */
    int64_t parts;  /* of each output's reduction */
    int64_t length; /* of a part: elements along the innermost dimension, else rows */
};
struct td_sum_cut td_sum_cut(const struct td_reduction *r);

#endif
