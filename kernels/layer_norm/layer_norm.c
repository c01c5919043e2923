/* layer_norm over the last dimensions, and native_layer_norm, which gives as well what its gradient
 * wants to know. The bound is in units of the results' general size, since self - mean and the bias
 * may cancel. */
#include "kernels/layer_norm/layer_norm.h"

#include "kernels/backward.h"
#include "kernels/elementwise.h"

#include <errno.h>

int td_rule_normalized(struct td_call *call, const struct td_tensor *x, int i)
{
    int n = call->arg[i].ints.n;
    if (n < 1 || n > x->rank)
        return td_refuse(call, "normalized_shape: has %d dimensions; from 1 to input's %d is right",
                         n, x->rank);
    for (int d = 0; d < n; d++)
        if (call->arg[i].ints.v[d] != x->shape[x->rank - n + d])
            return td_refuse(call,
                             "normalized_shape: entry %d is %lld; the size of input's dimension "
                             "%d, %lld, is right",
                             d, (long long)call->arg[i].ints.v[d], x->rank - n + d,
                             (long long)x->shape[x->rank - n + d]);
    return 0;
}

int td_rule_normalizing(struct td_call *call, const struct td_tensor *input, int first, int last,
                        const char *const *names, enum td_dtype *type)
{
    bool half = input->dtype & (TD_f16 | TD_bf16), any = false;
    *type = input->dtype;
    for (int i = first; i <= last; i++) {
        const struct td_tensor *t = td_arg(call, i);
        if (!t)
            continue;
        bool fits = any ? t->dtype == *type : t->dtype == *type || (half && t->dtype == TD_f32);
        if (!fits)
            return td_refuse(call, "%s: is %s; %s%s is right", names[i - first],
                             td_dtype_name(t->dtype), td_dtype_name(*type),
                             half && !any ? " or FP32" : "");
        *type = t->dtype;
        any = true;
    }
    return 0;
}

struct td_rows td_normalized_rows(const struct td_tensor *input, const struct td_value *shape)
{
    struct td_rows rows = {1, 1};
    for (int d = 0; d < input->rank; d++)
        *(d < input->rank - shape->ints.n ? &rows.count : &rows.n) *= input->shape[d];
    return rows;
}

static int judge(struct td_call *call, enum td_dtype *type)
{
    static const char *const names[] = {"weight", "bias"};
    const struct td_value *shape = &call->arg[1];
    int err = td_rule_normalized(call, &call->arg[0].tensor, 1);
    err = err ? err : td_rule_normalizing(call, &call->arg[0].tensor, 2, 3, names, type);
    for (int i = 2; !err && i < 4; i++)
        err =
            td_rule_shape(call, i, names[i - 2], "normalized_shape", shape->ints.n, shape->ints.v);
    td_rule_unary(call);
    return err;
}

static int rule(struct td_call *call)
{
    enum td_dtype type;
    return judge(call, &type);
}

static int rule_native(struct td_call *call)
{
    enum td_dtype type;
    int err = judge(call, &type);
    for (int i = 1; i < 3; i++) {
        call->out[i] = call->out[0];
        call->out[i].dtype = type;
        for (int d = 0; !err && d < call->arg[1].ints.n; d++)
            call->out[i].shape[call->out[i].rank - 1 - d] = 1;
    }
    call->n_out = 3;
    return err;
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
    .dtypes = TD_FLOATS,
    .ulp = 8,
    .sums = true,
    .impls = impls,
    .samples = (const char *const[]){"input=[5,n] normalized_shape=[n] weight=[n] bias=[n]",
                                     "input=[2,3,n] normalized_shape=[3,n]",
                                     "input=[n,9] normalized_shape=[9] bias=[9]",
                                     "input=[n] normalized_shape=[n] weight=[n] eps=0.1", NULL},
    .flops = flops,
};

const struct td_op td_op_native_layer_norm = {
    .schema = "native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, "
              "Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
    .doc = "layer_norm's result, the mean, and 1 / sqrt(var + eps), these of weight's type",
    .rule = rule_native,
    .dtypes = TD_FLOATS,
    .ulp = 8,
    .sums = true,
    .impls = impls,
    .samples =
        (const char *const[]){"input=[5,n] normalized_shape=[n] weight=[n] bias=[n] eps=1e-05",
                              "input=[2,3,n] normalized_shape=[3,n] weight=None bias=None eps=0.1",
                              "input=[n,9] normalized_shape=[9] weight=None bias=[9] eps=1e-05",
                              NULL},
    .flops = flops,
};
