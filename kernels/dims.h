/* What operators with dimension arguments share: judging them, and reducing a tensor to the three
 * sizes that a loop along one dimension needs. */
#ifndef TD_KERNELS_DIMS_H
#define TD_KERNELS_DIMS_H

#include "kernels/kernels.h"

/* Judges a dimension, or a list of them without repeats, that argument `name` says for a tensor of
 * that rank. Negative ones count from the end; a tensor of rank 0 is treated as if of rank 1. dims
 * has room for TD_MAX_LIST. 0 or -EINVAL. */
int td_dim(const struct td_call *call, const char *name, int rank, int64_t said, int *dim);
int td_dims(const struct td_call *call, const char *name, int rank, const struct td_value *list,
            int *dims);

/* The same of argument i, in which what was judged stands afterwards. */
int td_rule_dim(struct td_call *call, int i, const char *name, int rank);
int td_rule_dims(struct td_call *call, int i, const char *name, int rank);

/* Puts dimensions of size 1 before t's, until it has that rank at least. */
void td_rank_up(struct td_tensor *t, int rank);

/* The common shape of to and t becomes to's. -1, or the dimension of t whose size does not go with
 * that of to, which is in *other. */
int td_broadcast(struct td_tensor *to, const struct td_tensor *t, int64_t *other);

/* The tensor seen as [outer, size, inner] around dimension dim, which the rule has judged. */
struct td_span {
    int64_t outer, size, inner;
};
struct td_span td_span(const struct td_tensor *t, int dim);

/* The output of a reduction over the dimensions whose bits are set: sizes and rank, not the type.
 */
void td_reduced_shape(struct td_tensor *out, const struct td_tensor *in, unsigned dims,
                      bool keepdim);

/* A reduction as loops: dimensions that can be walked as one, by the tensor's strides, are folded,
 * and the innermost is set apart. Either it is reduced (along): each of `kept` outputs has
 * `reduced` runs of `inner` elements. Or it is kept: each of `kept` groups of `inner` outputs has
 * `reduced` rows. The innermost one's elements lie side by side: td_has_rows. */
struct td_reduction {
    bool along;
    int64_t kept, reduced, inner;
    int n[2]; /* dimensions outside of the innermost: kept ones [0], reduced ones [1] */
    int64_t size[2][TD_MAX_RANK], step[2][TD_MAX_RANK]; /* theirs; steps in elements */
};
struct td_reduction td_reduction(const struct td_tensor *in, unsigned dims);

/* Elements are side by side along the last dimension that has several. */
bool td_has_rows(const struct td_tensor *t);

/* Where the i-th combination of the kept [0] or reduced [1] dimensions starts, in elements. */
static inline int64_t td_reduction_at(const struct td_reduction *r, int reduced, int64_t i)
{
    int64_t at = 0;
    for (int d = r->n[reduced] - 1; d > 0; d--) {
        at += i % r->size[reduced][d] * r->step[reduced][d];
        i /= r->size[reduced][d];
    }
    return r->n[reduced] ? at + i * r->step[reduced][0] : at;
}

#endif
