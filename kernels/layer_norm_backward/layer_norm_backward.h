/* How the gradient of layer_norm is cut, for its vector form and the scratch that this asks for. */
#ifndef TD_KERNELS_LAYER_NORM_BACKWARD_H
#define TD_KERNELS_LAYER_NORM_BACKWARD_H

#include "kernels/norm/norm.h"

/* Rows are shared out in parts; each sums what they give to weight and bias in 2 n floats of its
 * own, which are added up in order. So the result is the same with any number of threads. */
struct td_layer_norm_cut {
    struct td_rows rows;
    int64_t length, parts; /* rows of a part, at most; how many parts */
};
struct td_layer_norm_cut td_layer_norm_cut(const struct td_call *call);

#endif
