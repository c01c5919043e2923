/* What the files of the resample family share: which elements of self a result is made of in each
 * dimension, and their weights. */
#ifndef TD_KERNELS_RESAMPLE_H
#define TD_KERNELS_RESAMPLE_H

#include "kernels/kernels.h"

/* td_op.family of an operator that resamples. */
struct td_resample {
    int dims;       /* that are resampled, the last ones */
    bool cubic;     /* else linear */
    bool antialias; /* where there are fewer results than elements, each has its share in some */
    bool vec;       /* the size may be given by factors */
};

struct td_resampled { /* one dimension */
    int64_t in, out;
    int taps;     /* elements that a result is made of */
    double scale; /* elements for one result */
    bool cubic, antialias, align_corners;
    bool wide; /* places are computed in FP64, else in FP32 */
};

/* The dimensions of a call that the rule has judged: depth, height, width; those that are not
 * resampled are of one element. */
void td_resample_axes(const struct td_call *call, struct td_resampled axis[3]);

/* Tap k of result o: its weight, and which element of self it is for. Where all elements have their
 * share, weights are still to be divided by their sum, which is 1 otherwise. */
double td_resample_tap(const struct td_resampled *a, int64_t o, int k, int64_t *at);
double td_resample_sum(const struct td_resampled *a, int64_t o);

/* What a result of each dimension is made of: elements at[k * out + o], times weight[k * out + o],
 * k in [0, taps). */
struct td_resample_table {
    int64_t *at;
    double *weight;
};

/* Bytes of all tables of a call, a multiple of 64; and filling them in. */
size_t td_resample_size(const struct td_resampled axis[3]);
/* As many results of the last dimension as whole vectors of any level hold. */
int64_t td_resample_step(const struct td_resampled axis[3]);
void td_resample_fill(const struct td_resampled axis[3], struct td_resample_table table[3],
                      void *room);

#endif
