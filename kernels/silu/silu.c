/* silu: the sigmoid linear unit; integers become FP32. */
#include "kernels/elementwise.h"

td_kernel td_silu_ref;
TD_KERNELS_3(silu);

static const struct td_impl impls[] = {
    TD_SIMD_3(silu, TD_f32) TD_REF(silu),
    {0},
};

const struct td_op td_op_silu = {
    .schema = "silu(Tensor self) -> Tensor",
    .doc = "out = self / (1 + exp(-self))",
    .rule = td_rule_unary,
    .promote = TD_PROMOTE_float,
    .dtypes = TD_ALL,
    .ulp = 5,
    .impls = impls,
    .composite = "mul(self, sigmoid(self))",
    .samples = (const char *const[]){"self=[n]", "self=[2,n]", NULL},
};
