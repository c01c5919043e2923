/* tanh_backward: tanh's gradient, from tanh's result. */
#include "kernels/backward.h"

static int rule(struct td_call *call)
{
    return td_rule_gradient(call, "output");
}

td_kernel td_tanh_backward_ref;
TD_KERNELS_3(tanh_backward);

static const struct td_impl impls[] = {
    TD_SIMD_3(tanh_backward, TD_f32) TD_REF(tanh_backward),
    {0},
};

const struct td_op td_op_tanh_backward = {
    .schema = "tanh_backward(Tensor grad_output, Tensor output) -> Tensor",
    .doc = "out = grad_output * (1 - output^2)",
    .rule = rule,
    .promote = TD_PROMOTE_arith,
    .dtypes = TD_FLOATS,
    .ulp = 4,
    .impls = impls,
    .samples =
        (const char *const[]){"grad_output=[n] output=[n]", "grad_output=[2,n] output=[2,n]", NULL},
};
