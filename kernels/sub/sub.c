/* sub: the difference, the other side scaled; of two tensors or of a tensor and one number. */
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

td_kernel td_sub_ref, td_sub_Scalar_ref;
TD_KERNELS_3(sub);
TD_KERNELS_3(sub_Scalar);

static const struct td_impl impls[] = {
    TD_SIMD_3(sub, TD_f32) TD_REF(sub),
    {0},
};

const struct td_op td_op_sub_Tensor = {
    .schema = "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    .doc = "out = self - alpha * other, with broadcasting",
    .rule = rule_tensor,
    .promote = TD_PROMOTE_arith,
    .dtypes = TD_ALL & ~TD_bool,
    .ulp = 1,
    .impls = impls,
    .samples = (const char *const[]){"self=[n] other=[n]", "self=[3,n] other=[n] alpha=2",
                                     "self=[n,1] other=[1,n]", "self=[] other=[n]", NULL},
};

static const struct td_impl impls_scalar[] = {
    TD_SIMD_3(sub_Scalar, TD_f32) TD_REF(sub_Scalar),
    {0},
};

const struct td_op td_op_sub_Scalar = {
    .schema = "sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    .doc = "out = self - alpha * other, other one number",
    .rule = rule_scalar,
    .promote = TD_PROMOTE_arith,
    .dtypes = TD_ALL & ~TD_bool,
    .ulp = 1,
    .impls = impls_scalar,
    .samples = (const char *const[]){"self=[n] other=2", "self=[2,n] other=3 alpha=2", NULL},
};
