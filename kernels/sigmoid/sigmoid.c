/* sigmoid: the logistic function; integers become FP32. */
#include "kernels/elementwise.h"

td_kernel td_sigmoid_ref;
TD_KERNELS_3(sigmoid);

static const struct td_impl impls[] = {
    TD_SIMD_3(sigmoid, TD_f32) TD_REF(sigmoid),
    {0},
};

const struct td_op td_op_sigmoid = {
    .schema = "sigmoid(Tensor self) -> Tensor",
    .doc = "out = 1 / (1 + exp(-self))",
    .rule = td_rule_unary,
    .promote = TD_PROMOTE_float,
    .dtypes = TD_ALL,
    .ulp = 3,
    .impls = impls,
    .samples = (const char *const[]){"self=[n]", "self=[2,n]", NULL},
};
