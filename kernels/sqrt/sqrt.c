/* sqrt: the square root; integers become FP32. */
#include "kernels/elementwise.h"

td_kernel td_sqrt_ref;
TD_KERNELS_3(sqrt);

static const struct td_impl impls[] = {
    TD_SIMD_3(sqrt, TD_f32) TD_REF(sqrt),
    {0},
};

const struct td_op td_op_sqrt = {
    .schema = "sqrt(Tensor self) -> Tensor",
    .doc = "out = the square root of self; NaN below 0",
    .rule = td_rule_unary,
    .promote = TD_PROMOTE_float,
    .dtypes = TD_ALL,
    .ulp = 0,
    .impls = impls,
    .samples = (const char *const[]){"self=[n]", "self=[2,n]", NULL},
};
