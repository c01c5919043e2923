/* The operators there are, in the order of ops.def. */
#include "kernels/kernels.h"

#define TD_OP(id) extern const struct td_op td_op_##id;
#include "kernels/ops.def"
#undef TD_OP

const struct td_op *const td_ops[] = {
#define TD_OP(id) &td_op_##id,
#include "kernels/ops.def"
#undef TD_OP
    NULL,
};
