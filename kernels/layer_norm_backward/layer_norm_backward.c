/* native_layer_norm_backward: layer_norm's gradient, from what native_layer_norm gave. The bound is
 * in units of the results' general size, since all three results are sums whose terms may cancel;
 * it is wide because it holds for any mean and rstd: with input's own a few units are usual, with
 * random ones the terms are easily a hundred times the result. */
#include "kernels/layer_norm_backward/layer_norm_backward.h"

#include "kernels/backward.h"
#include "kernels/elementwise.h"

#include <errno.h>

static int check_stat(struct td_call *call, int i, const char *name, int64_t rows)
{
    int64_t n = td_numel(td_arg(call, i));
    if (n != rows)
        return td_refuse(call, "%s: has %lld numbers; %lld, one for each normalized row, are right",
                         name, (long long)n, (long long)rows);
    return 0;
}

static int check_mask(struct td_call *call, int i, const char *name)
{
    if (td_wants(call, i) && !td_arg(call, 4 + i))
        return td_refuse(call, "output_mask: wants the gradient of %s, which is not given", name);
    return 0;
}

static int rule(struct td_call *call)
{
    static const char *const name[] = {"mean", "rstd", "weight", "bias"};
    enum td_dtype type = TD_DTYPE_none;
    const struct td_tensor *x = &call->arg[1].tensor;
    const struct td_value *shape = &call->arg[2];
    int err = td_rule_normalized(call, x, 2);
    err = err ? err : td_rule_type(call, 1, "input");
    err = err ? err : td_rule_normalizing(call, x, 3, 6, name, &type);
    err = err ? err : td_rule_shape(call, 0, "grad_out", "input's", x->rank, x->shape);
    for (int i = 5; !err && i < 7; i++)
        err = td_rule_shape(call, i, name[i - 3], "normalized_shape", shape->ints.n, shape->ints.v);
    if (err)
        return err;
    struct td_rows rows = td_normalized_rows(x, shape);
    err = check_stat(call, 3, "mean", rows.count);
    err = err ? err : check_stat(call, 4, "rstd", rows.count);
    err = err ? err : check_mask(call, 1, "weight");
    err = err ? err : check_mask(call, 2, "bias");
    if (err)
        return err;
    td_rule_unary(call);
    for (int i = 1; i < 3; i++) {
        call->out[i].rank = shape->ints.n;
        for (int d = 0; d < shape->ints.n; d++)
            call->out[i].shape[d] = shape->ints.v[d];
    }
    td_rule_mask(call);
    call->out[1].dtype = call->out[2].dtype = type;
    return 0;
}

struct td_layer_norm_cut td_layer_norm_cut(const struct td_call *call)
{
    enum { FEW = 8, MOST = 64 }; /* parts where rows are few; rows of a part where they are many */
    struct td_layer_norm_cut cut = {td_normalized_rows(&call->arg[1].tensor, &call->arg[2]), 1, 0};
    cut.length = cut.rows.count / FEW;
    cut.length = cut.length < 1 ? 1 : cut.length > MOST ? MOST : cut.length;
    cut.parts = (cut.rows.count + cut.length - 1) / cut.length;
    return cut;
}

static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_layer_norm_cut cut = td_layer_norm_cut(call);
    bool sums = td_wants(call, 1) || td_wants(call, 2);
    prepared->scratch = sums ? (size_t)(cut.parts * cut.rows.n) * 2 * sizeof(float) : 0;
    return NULL;
}

static double flops(const struct td_call *call)
{
    return 14 * (double)td_numel(&call->arg[1].tensor);
}

td_kernel td_layer_norm_backward_ref;
TD_KERNELS_3(layer_norm_backward);

static const struct td_impl impls[] = {
    TD_SIMD_3(layer_norm_backward, TD_f32, .prepare = prepare) TD_REF(layer_norm_backward),
    {0},
};

const struct td_op td_op_native_layer_norm_backward = {
    .schema = "native_layer_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, "
              "Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) "
              "-> (Tensor, Tensor, Tensor)",
    .doc = "with x = (input - mean) * rstd and g = grad_out * weight: out0 = rstd * (g - mean(g) - "
           "x * mean(g * x)), out1 = sum(grad_out * x), out2 = sum(grad_out), sums over the rows",
    .rule = rule,
    .dtypes = TD_FLOATS,
    .ulp = 48,
    .sums = true,
    .impls = impls,
    .samples =
        (const char *const[]){
            "grad_out=[12,3,n] input=[12,3,n] normalized_shape=[3,n] mean=[12,1,1] rstd=[12,1,1] "
            "weight=[3,n] bias=[3,n] output_mask=[True,True,True]",
            "grad_out=[n,33] input=[n,33] normalized_shape=[33] mean=[n,1] rstd=[n,1] weight=[33] "
            "bias=[33] output_mask=[False,True,True]",
            "grad_out=[5,7,n] input=[5,7,n] normalized_shape=[n] mean=[5,7,1] rstd=[5,7,1] "
            "weight=None bias=None output_mask=[True,False,False]",
            "grad_out=[n,33] input=[n,33] normalized_shape=[33] mean=[n] rstd=[n] weight=[33] "
            "bias=None output_mask=[False,True,False]",
            "grad_out=[n,8] input=[n,8] normalized_shape=[8] mean=[n] rstd=[n] weight=None "
            "bias=[8] output_mask=[False,False,True]",
            NULL},
    .flops = flops,
};
