/* abs: the absolute value, of integers too. */
#include "kernels/elementwise.h"

td_kernel td_abs_ref;
TD_KERNELS_3(abs);

static const struct td_impl impls[] = {
    TD_SIMD_3(abs, TD_f32) TD_REF(abs),
    {0},
};

const struct td_op td_op_abs = {
    .schema = "abs(Tensor self) -> Tensor",
    .doc = "out = |self|",
    .rule = td_rule_unary,
    .promote = TD_PROMOTE_none,
    .dtypes = TD_ALL & ~TD_bool,
    .ulp = 0,
    .impls = impls,
    .samples = (const char *const[]){"self=[n]", "self=[2,n]", NULL},
};
