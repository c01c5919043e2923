/* layer_norm over the last dimensions. The bound is in units of the results' general size, since
 * self - mean and the bias may cancel. */
#include "kernels/elementwise.h"

#include <errno.h>

static int check_affine(struct td_call *call, int i, const char *name)
{
    const struct td_tensor *t = td_arg(call, i);
    bool same = !t || t->rank == call->arg[1].ints.n;
    for (int d = 0; t && same && d < t->rank; d++)
        same = t->shape[d] == call->arg[1].ints.v[d];
    if (!same)
        return td_refuse(call, "%s: its shape differs; that of normalized_shape is right", name);
    if (t && t->dtype != call->arg[0].tensor.dtype)
        return td_refuse(call, "%s: is %s; input's type, %s, is right", name,
                         td_dtype_name(t->dtype), td_dtype_name(call->arg[0].tensor.dtype));
    return 0;
}

static int rule(struct td_call *call)
{
    const struct td_tensor *x = &call->arg[0].tensor;
    int n = call->arg[1].ints.n;
    td_rule_unary(call);
    if (n < 1 || n > x->rank)
        return td_refuse(call, "normalized_shape: has %d dimensions; from 1 to input's %d is right",
                         n, x->rank);
    for (int d = 0; d < n; d++)
        if (call->arg[1].ints.v[d] != x->shape[x->rank - n + d])
            return td_refuse(call,
                             "normalized_shape: entry %d is %lld; the size of input's dimension "
                             "%d, %lld, is right",
                             d, (long long)call->arg[1].ints.v[d], x->rank - n + d,
                             (long long)x->shape[x->rank - n + d]);
    int err = check_affine(call, 2, "weight");
    return err ? err : check_affine(call, 3, "bias");
}

static double flops(const struct td_call *call)
{
    return 8 * (double)td_numel(&call->out[0]);
}

td_kernel td_layer_norm_ref;
TD_KERNELS_3(layer_norm);

static const struct td_impl impls[] = {
    TD_SIMD_3(layer_norm, TD_f32) TD_REF(layer_norm),
    {0},
};

const struct td_op td_op_layer_norm = {
    .schema = "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, "
              "Tensor? bias=None, float eps=1e-05, bool cudnn_enable=True) -> Tensor",
    .doc = "out = (input - mean) / sqrt(var + eps) * weight + bias, mean and var over the last "
           "dimensions",
    .rule = rule,
    .promote = TD_PROMOTE_float,
    .dtypes = TD_ALL,
    .ulp = 8,
    .sums = true,
    .impls = impls,
    .samples = (const char *const[]){"input=[5,n] normalized_shape=[n] weight=[n] bias=[n]",
                                     "input=[2,3,n] normalized_shape=[3,n]",
                                     "input=[n,9] normalized_shape=[9] bias=[9]",
                                     "input=[n] normalized_shape=[n] weight=[n] eps=0.1", NULL},
    .flops = flops,
};
