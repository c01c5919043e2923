/* tanh: the hyperbolic tangent; integers become FP32. */
#include "kernels/elementwise.h"

td_kernel td_tanh_ref;
TD_KERNELS_3(tanh);

static const struct td_impl impls[] = {
    TD_SIMD_3(tanh, TD_f32) TD_REF(tanh),
    {0},
};

const struct td_op td_op_tanh = {
    .schema = "tanh(Tensor self) -> Tensor",
    .doc = "out = tanh(self)",
    .rule = td_rule_unary,
    .promote = TD_PROMOTE_float,
    .dtypes = TD_ALL,
    .ulp = 2,
    .impls = impls,
    .samples = (const char *const[]){"self=[n]", "self=[2,n]", NULL},
};
