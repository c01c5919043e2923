/* _softmax_backward_data: softmax's gradient along one dimension, from softmax's result. Its terms
 * may cancel, so the bound is in units of the results' general size. */
#include "kernels/backward.h"
#include "kernels/dims.h"

#include <errno.h>

static int rule(struct td_call *call)
{
    enum td_dtype type = call->arg[3].dtype;
    int err = td_rule_gradient(call, "output");
    err = err ? err : td_rule_dim(call, 2, "dim", call->out[0].rank);
    if (!err && !(type & TD_FLOATS))
        err = td_refuse(call,
                        "input_dtype: softmax has a gradient for floating types, not for %s; FP16, "
                        "BF16, FP32 or FP64 is right",
                        td_dtype_name(type));
    if (type == TD_f16 && call->out[0].dtype == TD_f32) /* as ATen has it: no other type counts */
        call->out[0].dtype = type;
    return err;
}

static bool same_type(const struct td_call *call)
{
    return call->out[0].dtype == call->arg[0].tensor.dtype;
}

static double flops(const struct td_call *call)
{
    return 4.0 * (double)td_numel(&call->out[0]);
}

td_kernel td_softmax_backward_data_ref;
TD_KERNELS_3(softmax_backward_data);

static const struct td_impl impls[] = {
    TD_SIMD_3(softmax_backward_data, TD_f32, .accepts = same_type) TD_REF(softmax_backward_data),
    {0},
};

const struct td_op td_op__softmax_backward_data = {
    .schema = "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, "
              "ScalarType input_dtype) -> Tensor",
    .doc = "out = (grad_output - sum(grad_output * output)) * output, sum along dim; in "
           "grad_output's type, or in FP16 where that is FP32 and input_dtype FP16",
    .rule = rule,
    .dtypes = TD_FLOATS,
    .ulp = 4,
    .sums = true,
    .impls = impls,
    .samples = (const char *const[]){"grad_output=[9,n] output=[9,n] dim=-1 input_dtype=FP32",
                                     "grad_output=[n,9] output=[n,9] dim=0 input_dtype=FP32",
                                     "grad_output=[2,5,n] output=[2,5,n] dim=1 input_dtype=FP32",
                                     "grad_output=[2,n,5] output=[2,n,5] dim=1 input_dtype=FP32",
                                     "grad_output=[3,m,n] output=[3,m,n] dim=-2 input_dtype=FP32",
                                     "grad_output=[9,n] output=[9,n] dim=1 input_dtype=FP16", NULL},
    .flops = flops,
};
