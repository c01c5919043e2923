/* threshold_backward: relu's gradient, with a threshold of 0. Where self is NaN the gradient
 * passes, as in ATen. FP16 and BF16 are held against the threshold as an FP32 number, integers
 * against its whole part, as there too. */
#include "kernels/backward.h"

static int rule(struct td_call *call)
{
    return td_rule_gradient(call, "self");
}

td_kernel td_threshold_backward_ref;
TD_KERNELS_3(threshold_backward);

static const struct td_impl impls[] = {
    TD_SIMD_3(threshold_backward, TD_f32) TD_REF(threshold_backward),
    {0},
};

const struct td_op td_op_threshold_backward = {
    .schema = "threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
    .doc = "out = 0 where self <= threshold, else grad_output",
    .rule = rule,
    .dtypes = TD_ALL & ~TD_bool,
    .ulp = 0,
    .impls = impls,
    .samples = (const char *const[]){"grad_output=[n] self=[n] threshold=0",
                                     "grad_output=[2,n] self=[2,n] threshold=1",
                                     "grad_output=[n] self=[n] threshold=-0.1", NULL},
};
