/* gelu, exact or by its tanh form. Both results are within 2.5e-7 * max(1, |self|) of the exact
 * formula; the bound is in units of the result for |self|, since far below 0 the exact form takes
 * 1 from what is nearly 1. */
#include "kernels/elementwise.h"

#include <errno.h>
#include <string.h>

static int rule(struct td_call *call)
{
    const char *form = call->arg[1].str;
    if (strcmp(form, "none") != 0 && strcmp(form, "tanh") != 0)
        return td_refuse(call, "approximate: is '%.60s'; 'none' or 'tanh' is right", form);
    return td_rule_unary(call);
}

static double flops(const struct td_call *call)
{
    return 10 * (double)td_numel(&call->out[0]);
}

td_kernel td_gelu_ref;
TD_KERNELS_3(gelu);

static const struct td_impl impls[] = {
    TD_SIMD_3(gelu, TD_f32) TD_REF(gelu),
    {0},
};

const struct td_op td_op_gelu = {
    .schema = "gelu(Tensor self, *, str approximate='none') -> Tensor",
    .doc = "none: out = self / 2 * (1 + erf(self / sqrt(2))); tanh: out = self / 2 * "
           "(1 + tanh(sqrt(2 / pi) * (self + 0.044715 * self^3)))",
    .rule = rule,
    .promote = TD_PROMOTE_float,
    .dtypes = TD_ALL,
    .ulp = 4,
    .sums = true,
    .impls = impls,
    .samples = (const char *const[]){"self=[n]", "self=[n] approximate=tanh", "self=[2,n]", NULL},
    .flops = flops,
};
