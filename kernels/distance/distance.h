/* What the files of the distances share: which rows are held against which. */
#ifndef TD_KERNELS_DISTANCE_H
#define TD_KERNELS_DISTANCE_H

#include "kernels/kernels.h"

struct td_distance {
    const struct td_tensor *a, *b, *out; /* borrowed; of pdist a and b are one */
    int64_t batches, rows, cols, n;      /* sets of rows of a, of b, and the elements of each row */
    bool pairs;                          /* of each two rows of one set, once */
    double p;
};

struct td_distance td_distance_of(const struct td_call *call);

/* The first element of the batch's rows, in either argument. */
int64_t td_distance_at(const struct td_distance *d, const struct td_tensor *of, int64_t batch);

#endif
