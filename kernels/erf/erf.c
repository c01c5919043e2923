/* erf: the error function; integers become FP32. */
#include "kernels/elementwise.h"

td_kernel td_erf_ref;
TD_KERNELS_3(erf);

static const struct td_impl impls[] = {
    TD_SIMD_3(erf, TD_f32) TD_REF(erf),
    {0},
};

const struct td_op td_op_erf = {
    .schema = "erf(Tensor self) -> Tensor",
    .doc = "out = erf(self)",
    .rule = td_rule_unary,
    .promote = TD_PROMOTE_float,
    .dtypes = TD_ALL,
    .ulp = 3,
    .impls = impls,
    .samples = (const char *const[]){"self=[n]", "self=[2,n]", NULL},
};
