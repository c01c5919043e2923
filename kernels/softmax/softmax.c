/* softmax along one dimension. Its bound is in units of the results' general size: the rounding of
 * self - max costs a result far below the others up to 32 units of its own. */
#include "kernels/dims.h"
#include "kernels/elementwise.h"

#include <errno.h>

static int rule(struct td_call *call)
{
    td_rule_unary(call);
    if (!(call->out[0].dtype & TD_FLOATS))
        return td_refuse(call,
                         "dtype: softmax gives a floating type, not %s; FP16, BF16, FP32 or FP64 "
                         "is right",
                         td_dtype_name(call->out[0].dtype));
    return td_rule_dim(call, 1, "dim", call->out[0].rank);
}

static double flops(const struct td_call *call)
{
    return 5.0 * (double)td_numel(&call->out[0]);
}

td_kernel td_softmax_ref;
TD_KERNELS_3(softmax);

static const struct td_impl impls[] = {
    TD_SIMD_3(softmax, TD_f32) TD_REF(softmax),
    {0},
};

const struct td_op td_op_softmax_int = {
    .schema = "softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    .doc = "out = exp(self - max) / sum(exp(self - max)), max and sum along dim",
    .rule = rule,
    .promote = TD_PROMOTE_float,
    .casts = true,
    .dtypes = TD_ALL,
    .ulp = 10,
    .sums = true,
    .impls = impls,
    .samples = (const char *const[]){"self=[3,n] dim=-1", "self=[n,3] dim=0", "self=[2,3,n] dim=1",
                                     "self=[2,n,5] dim=1", "self=[3,m,n] dim=1", "self=[] dim=0",
                                     "self=[2,n] dim=1 dtype=FP64", NULL},
    .flops = flops,
};
