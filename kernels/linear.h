/* Linear layers among the operators. */
#ifndef TD_KERNELS_LINEAR_H
#define TD_KERNELS_LINEAR_H

#include "kernels/kernels.h"

/* Whether the operator is linear or dense, with scales or without: a product with a weight, plus a
 * bias, that applies post-ops. */
bool td_is_linear(const struct td_op *op);

#endif
