/* Results that need no kernel: kernels/move/ says where they lie. */
#ifndef TD_KERNELS_VIEW_H
#define TD_KERNELS_VIEW_H

#include "kernels/kernels.h"

struct td_view { /* how a tensor's elements lie among those of another, which is dense */
    const struct td_tensor *from; /* borrowed */
    int64_t offset;               /* of the first one, in elements */
    int64_t stride[TD_MAX_RANK];  /* as a tensor's */
};

/* Whether it does nothing but move elements: only such operators give views. */
bool td_is_move(const struct td_op *op);
/* Whether result i of a settled call is nothing but elements of an argument, which is taken for a
 * dense one: then the view says how they lie there. Needs no data. */
bool td_view_of(const struct td_call *call, int i, struct td_view *view);

/* Row by row, without gaps; where a dimension has one element, its stride says nothing. */
bool td_is_dense(const struct td_tensor *shape, const int64_t *stride);

/* Whether the elements of its rows have others between them, or are in reverse order. */
bool td_is_apart(const struct td_tensor *t);

/* A view of t as if that were dense, which a tensor of that shape has, becomes one of the memory in
 * which t lies by its strides, from t's data on. False: no strides are such. */
bool td_view_through(struct td_view *view, const struct td_tensor *shape,
                     const struct td_tensor *t);
/* How a dense tensor, seen, lies in memory in which its elements, or from view->offset on as many
 * as it has, lie as t's do by t's strides. False: no strides say that. */
bool td_view_seen(struct td_view *view, const struct td_tensor *seen, const struct td_tensor *t);

#endif
