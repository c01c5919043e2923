/* add: the operator that the others are copied from. */
#include "kernels/elementwise.h"

static int rule_tensor(struct td_call *call)
{
    int err = td_rule_binary(call);
    return err ? err : td_rule_alpha(call, 2);
}

static int rule_scalar(struct td_call *call)
{
    int err = td_rule_unary(call);
    return err ? err : td_rule_alpha(call, 2);
}

td_kernel td_add_ref, td_add_Scalar_ref;
TD_KERNELS_3(add);
TD_KERNELS_3(add_Scalar);

static const struct td_impl impls[] = {
    TD_SIMD_3(add, TD_f32 | TD_i64) TD_REF(add),
    {0},
};

const struct td_op td_op_add_Tensor = {
    .schema = "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    .doc = "out = self + alpha * other, with broadcasting",
    .rule = rule_tensor,
    .promote = TD_PROMOTE_arith,
    .dtypes = TD_ALL,
    .ulp = 1,
    .impls = impls,
    .samples = (const char *const[]){"self=[n] other=[n]", "self=[3,n] other=[n] alpha=2",
                                     "self=[n,1] other=[1,n]", "self=[] other=[n]", NULL},
};

static const struct td_impl impls_scalar[] = {
    TD_SIMD_3(add_Scalar, TD_f32) TD_REF(add_Scalar),
    {0},
};

const struct td_op td_op_add_Scalar = {
    .schema = "add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    .doc = "out = self + alpha * other, other one number",
    .rule = rule_scalar,
    .promote = TD_PROMOTE_arith,
    .dtypes = TD_ALL,
    .ulp = 1,
    .impls = impls_scalar,
    .samples = (const char *const[]){"self=[n] other=2", "self=[2,n] other=3 alpha=2", NULL},
};
