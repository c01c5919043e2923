/* silu_backward: silu's gradient, from what went into silu. It crosses 0 near self = -1.28, so the
 * bound is in units of the result for |self|, which is never below half of grad_output. */
#include "kernels/backward.h"

static int rule(struct td_call *call)
{
    return td_rule_gradient(call, "self");
}

static double flops(const struct td_call *call)
{
    return 10 * (double)td_numel(&call->out[0]);
}

td_kernel td_silu_backward_ref;
TD_KERNELS_3(silu_backward);

static const struct td_impl impls[] = {
    TD_SIMD_3(silu_backward, TD_f32) TD_REF(silu_backward),
    {0},
};

const struct td_op td_op_silu_backward = {
    .schema = "silu_backward(Tensor grad_output, Tensor self) -> Tensor",
    .doc = "out = grad_output * s * (1 + self * (1 - s)), s = 1 / (1 + exp(-self))",
    .rule = rule,
    .promote = TD_PROMOTE_arith,
    .dtypes = TD_FLOATS,
    .ulp = 6,
    .sums = true,
    .impls = impls,
    .samples =
        (const char *const[]){"grad_output=[n] self=[n]", "grad_output=[2,n] self=[2,n]", NULL},
    .flops = flops,
};
