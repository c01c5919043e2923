/* relu: the rectifier, on integers too; only BOOL has no use for it. */
#include "kernels/elementwise.h"

td_kernel td_relu_ref;
TD_KERNELS_3(relu);

static const struct td_impl impls[] = {
    TD_SIMD_3(relu, TD_f32) TD_REF(relu),
    {0},
};

const struct td_op td_op_relu = {
    .schema = "relu(Tensor self) -> Tensor",
    .doc = "out = self where self > 0, else 0; NaN stays",
    .rule = td_rule_unary,
    .promote = TD_PROMOTE_none,
    .dtypes = TD_ALL & ~TD_bool,
    .ulp = 0,
    .impls = impls,
    .samples = (const char *const[]){"self=[n]", "self=[2,n]", NULL},
};
