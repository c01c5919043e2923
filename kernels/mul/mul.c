/* mul: the product, of two tensors that broadcast or of a tensor and one number. */
#include "kernels/elementwise.h"

td_kernel td_mul_ref, td_mul_Scalar_ref;
TD_KERNELS_3(mul);
TD_KERNELS_3(mul_Scalar);

static const struct td_impl impls[] = {
    TD_SIMD_3(mul, TD_f32 | TD_i64) TD_REF(mul),
    {0},
};

const struct td_op td_op_mul_Tensor = {
    .schema = "mul.Tensor(Tensor self, Tensor other) -> Tensor",
    .doc = "out = self * other, with broadcasting",
    .rule = td_rule_binary,
    .promote = TD_PROMOTE_arith,
    .dtypes = TD_ALL,
    .ulp = 0,
    .impls = impls,
    .samples = (const char *const[]){"self=[n] other=[n]", "self=[3,n] other=[n]",
                                     "self=[n,1] other=[1,n]", "self=[] other=[n]", NULL},
};

static const struct td_impl impls_scalar[] = {
    TD_SIMD_3(mul_Scalar, TD_f32) TD_REF(mul_Scalar),
    {0},
};

const struct td_op td_op_mul_Scalar = {
    .schema = "mul.Scalar(Tensor self, Scalar other) -> Tensor",
    .doc = "out = self * other, other one number",
    .rule = td_rule_unary,
    .promote = TD_PROMOTE_arith,
    .dtypes = TD_ALL,
    .ulp = 0,
    .impls = impls_scalar,
    .samples = (const char *const[]){"self=[n] other=2", "self=[2,n] other=-3", NULL},
};
