/* maximum: the larger of two tensors' elements; NaN where either is. */
#include "kernels/elementwise.h"

td_kernel td_maximum_ref;
TD_KERNELS_3(maximum);

static const struct td_impl impls[] = {
    TD_SIMD_3(maximum, TD_f32) TD_REF(maximum),
    {0},
};

const struct td_op td_op_maximum = {
    .schema = "maximum(Tensor self, Tensor other) -> Tensor",
    .doc = "out = the larger of self and other, with broadcasting; NaN where either is NaN",
    .rule = td_rule_binary,
    .promote = TD_PROMOTE_arith,
    .dtypes = TD_ALL,
    .ulp = 0,
    .impls = impls,
    .samples = (const char *const[]){"self=[n] other=[n]", "self=[3,n] other=[n]",
                                     "self=[n,1] other=[1,n]", "self=[] other=[n]", NULL},
};
