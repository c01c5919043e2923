/* neg: the negative, of integers too; BOOL has none. */
#include "kernels/elementwise.h"

td_kernel td_neg_ref;
TD_KERNELS_3(neg);

static const struct td_impl impls[] = {
    TD_SIMD_3(neg, TD_f32) TD_REF(neg),
    {0},
};

const struct td_op td_op_neg = {
    .schema = "neg(Tensor self) -> Tensor",
    .doc = "out = -self",
    .rule = td_rule_unary,
    .promote = TD_PROMOTE_none,
    .dtypes = TD_ALL & ~TD_bool,
    .ulp = 0,
    .impls = impls,
    .samples = (const char *const[]){"self=[n]", "self=[2,n]", NULL},
};
