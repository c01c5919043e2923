/* div: the true quotient, of two tensors or of a tensor and one number; integers become FP32. */
#include "kernels/elementwise.h"

td_kernel td_div_ref, td_div_Scalar_ref;
TD_KERNELS_3(div);
TD_KERNELS_3(div_Scalar);

static const struct td_impl impls[] = {
    TD_SIMD_3(div, TD_f32) TD_REF(div),
    {0},
};

const struct td_op td_op_div_Tensor = {
    .schema = "div.Tensor(Tensor self, Tensor other) -> Tensor",
    .doc = "out = self / other, with broadcasting",
    .rule = td_rule_binary,
    .promote = TD_PROMOTE_float,
    .dtypes = TD_ALL,
    .ulp = 0,
    .impls = impls,
    .samples = (const char *const[]){"self=[n] other=[n]", "self=[3,n] other=[n]",
                                     "self=[n,1] other=[1,n]", "self=[] other=[n]", NULL},
};

static const struct td_impl impls_scalar[] = {
    TD_SIMD_3(div_Scalar, TD_f32) TD_REF(div_Scalar),
    {0},
};

const struct td_op td_op_div_Scalar = {
    .schema = "div.Scalar(Tensor self, Scalar other) -> Tensor",
    .doc = "out = self / other, other one number",
    .rule = td_rule_unary,
    .promote = TD_PROMOTE_float,
    .dtypes = TD_ALL,
    .ulp = 0,
    .impls = impls_scalar,
    .samples = (const char *const[]){"self=[n] other=2", "self=[2,n] other=-0.3", NULL},
};
