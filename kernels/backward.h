/* What the operators that compute gradients share: judging tensors that must lie like another one,
 * and results that the caller may do without. */
#ifndef TD_KERNELS_BACKWARD_H
#define TD_KERNELS_BACKWARD_H

#include "kernels/kernels.h"

/* Tensor argument i, called name, is of the first tensor's type, or is absent; it has that shape,
 * which is whose ("input's"), or is absent. 0 or -EINVAL. */
int td_rule_type(struct td_call *call, int i, const char *name);
int td_rule_shape(struct td_call *call, int i, const char *name, const char *whose, int rank,
                  const int64_t *shape);

/* Tensor argument i, called name, is INT32 or INT64 and has one dimension, or is absent. 0 or
 * -EINVAL. */
int td_rule_whole(struct td_call *call, int i, const char *name);

/* The whole rule of an elementwise gradient: argument 1, called name, is of grad_output's type and
 * shape; out is like them. */
int td_rule_gradient(struct td_call *call, const char *name);

/* Operators with three results say in their last argument, output_mask, which are wanted. The
 * others get the shape [0]. */
bool td_wants(const struct td_call *call, int i);
void td_rule_mask(struct td_call *call);

#endif
