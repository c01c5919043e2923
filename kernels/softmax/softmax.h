/* What softmax's files share. */
#ifndef TD_KERNELS_SOFTMAX_H
#define TD_KERNELS_SOFTMAX_H

#include "kernels/dims.h"

/* td_op.family points to one. The slopes are of two operands, grad_output and the result. */
enum td_soft { TD_SOFT_plain, TD_SOFT_log, TD_SOFT_plain_slope, TD_SOFT_log_slope };

static inline enum td_soft td_soft_of(const struct td_call *call)
{
    return *(const enum td_soft *)call->op->family;
}

/* The call's tensor seen along its dimension. */
static inline struct td_span td_soft_span(const struct td_call *call)
{
    return td_span(&call->out[0], (int)call->arg[td_soft_of(call) < TD_SOFT_plain_slope ? 1 : 2].i);
}

/* How self lies along its dimension. False: not by rows, nor by rows of all that is behind the
 * dimension, which are what is read by strides. */
bool td_soft_walk(const struct td_call *call, struct td_reduction *walk);

#endif
