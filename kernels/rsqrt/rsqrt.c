/* rsqrt: the reciprocal square root; integers become FP32. */
#include "kernels/elementwise.h"

td_kernel td_rsqrt_ref;
TD_KERNELS_3(rsqrt);

static const struct td_impl impls[] = {
    TD_SIMD_3(rsqrt, TD_f32) TD_REF(rsqrt),
    {0},
};

const struct td_op td_op_rsqrt = {
    .schema = "rsqrt(Tensor self) -> Tensor",
    .doc = "out = 1 / sqrt(self); infinite at 0, NaN below",
    .rule = td_rule_unary,
    .promote = TD_PROMOTE_float,
    .dtypes = TD_ALL,
    .ulp = 2,
    .impls = impls,
    .samples = (const char *const[]){"self=[n]", "self=[2,n]", NULL},
};
