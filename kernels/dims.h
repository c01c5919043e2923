/* What operators with dimension arguments share: judging them, and reducing a tensor to the three
 * sizes that a loop along one dimension needs. */
#ifndef TD_KERNELS_DIMS_H
#define TD_KERNELS_DIMS_H

#include "kernels/kernels.h"

/* Judges argument i, called name in the schema: one dimension, or a list without repeats, of a
 * tensor of that rank. Negative ones, which count from the end, are replaced in the call. A tensor
 * of rank 0 is treated as if of rank 1. 0 or -EINVAL. */
int td_rule_dim(struct td_call *call, int i, const char *name, int rank);
int td_rule_dims(struct td_call *call, int i, const char *name, int rank);

/* The tensor seen as [outer, size, inner] around dimension dim, which the rule has judged. */
struct td_span {
    int64_t outer, size, inner;
};
struct td_span td_span(const struct td_tensor *t, int dim);

#endif
