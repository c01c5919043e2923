/* sigmoid_backward: sigmoid's gradient, from sigmoid's result. */
#include "kernels/backward.h"

static int rule(struct td_call *call)
{
    return td_rule_gradient(call, "output");
}

td_kernel td_sigmoid_backward_ref;
TD_KERNELS_3(sigmoid_backward);

static const struct td_impl impls[] = {
    TD_SIMD_3(sigmoid_backward, TD_f32) TD_REF(sigmoid_backward),
    {0},
};

const struct td_op td_op_sigmoid_backward = {
    .schema = "sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor",
    .doc = "out = grad_output * (1 - output) * output",
    .rule = rule,
    .promote = TD_PROMOTE_arith,
    .dtypes = TD_FLOATS,
    .ulp = 3,
    .impls = impls,
    .samples =
        (const char *const[]){"grad_output=[n] output=[n]", "grad_output=[2,n] output=[2,n]", NULL},
};
