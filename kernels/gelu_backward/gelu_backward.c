/* gelu_backward: gelu's gradient, of either form, from what went into gelu. It crosses 0 near self
 * = -0.75, so the bound is in units of the result for |self|, which is never below half of
 * grad_output. */
#include "kernels/backward.h"

#include <errno.h>
#include <string.h>

static int rule(struct td_call *call)
{
    const char *form = call->arg[2].str;
    if (strcmp(form, "none") != 0 && strcmp(form, "tanh") != 0)
        return td_refuse(call, "approximate: is '%.60s'; 'none' or 'tanh' is right", form);
    return td_rule_gradient(call, "self");
}

static double flops(const struct td_call *call)
{
    return 15 * (double)td_numel(&call->out[0]);
}

td_kernel td_gelu_backward_ref;
TD_KERNELS_3(gelu_backward);

static const struct td_impl impls[] = {
    TD_SIMD_3(gelu_backward, TD_f32) TD_REF(gelu_backward),
    {0},
};

const struct td_op td_op_gelu_backward = {
    .schema = "gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor",
    .doc = "none: out = grad_output * ((1 + erf(self / sqrt(2))) / 2 + self * exp(-self^2 / 2) / "
           "sqrt(2 pi)); tanh: the derivative of gelu's tanh form instead",
    .rule = rule,
    .promote = TD_PROMOTE_arith,
    .dtypes = TD_FLOATS,
    .ulp = 6,
    .sums = true,
    .impls = impls,
    .samples = (const char *const[]){"grad_output=[n] self=[n]",
                                     "grad_output=[n] self=[n] approximate=tanh",
                                     "grad_output=[2,n] self=[2,n]", NULL},
    .flops = flops,
};
