/* exp: the exponential; integers become FP32. */
#include "kernels/elementwise.h"

td_kernel td_exp_ref;
TD_KERNELS_3(exp);

static const struct td_impl impls[] = {
    TD_SIMD_3(exp, TD_f32) TD_REF(exp),
    {0},
};

const struct td_op td_op_exp = {
    .schema = "exp(Tensor self) -> Tensor",
    .doc = "out = e to the power of self",
    .rule = td_rule_unary,
    .promote = TD_PROMOTE_float,
    .dtypes = TD_ALL,
    .ulp = 2,
    .impls = impls,
    .samples = (const char *const[]){"self=[n]", "self=[2,n]", NULL},
};
