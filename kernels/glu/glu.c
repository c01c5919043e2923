/* glu: the first half of self along a dimension, gated by the second. */
#include "kernels/dims.h"
#include "kernels/elementwise.h"

#include <errno.h>

static int rule(struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor;
    int err = td_rule_dim(call, 1, "dim", self->rank);
    td_rule_unary(call);
    if (err)
        return err;
    int64_t size = self->rank ? self->shape[call->arg[1].i] : 1;
    if (size % 2 || !self->rank)
        return td_refuse(call, "self: has size %lld in dimension dim; an even one is right",
                         (long long)size);
    call->out[0].shape[call->arg[1].i] = size / 2;
    return 0;
}

static double flops(const struct td_call *call)
{
    return 30 * (double)td_numel(&call->out[0]);
}

td_kernel td_glu_ref;
TD_KERNELS_3(glu_f32);
TD_KERNELS_3(glu_f64);

static const struct td_impl impls[] = {
    TD_SIMD_3(glu_f32, TD_f32 | TD_f16 | TD_bf16) TD_SIMD_3(glu_f64, TD_f64) TD_REF(glu),
    {0},
};

const struct td_op td_op_glu = {
    .schema = "glu(Tensor self, int dim=-1) -> Tensor",
    .doc = "out = a * sigmoid(b), a and b the halves of self along dim",
    .rule = rule,
    .dtypes = TD_FLOATS,
    .ulp = 6,
    .impls = impls,
    .flops = flops,
    .samples = (const char *const[]){"self=[n,6]", "self=[4,n] dim=0", "self=[2,2,n] dim=1",
                                     "self=[3,600]", NULL},
};
