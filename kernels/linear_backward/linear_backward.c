/* linear_backward: the gradients of linear for its input, its weight and its bias. Two of them are
 * products, which share their kernels with matmul and linear; for the weight's, grad_output is
 * transposed into scratch first. */
#include "kernels/linear_backward/linear_backward.h"

#include "kernels/backward.h"
#include "kernels/elementwise.h"

#include <errno.h>

static int check_shapes(struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor, *weight = &call->arg[2].tensor;
    struct td_tensor right = *self;
    if (!self->rank)
        return td_refuse(call, "self: is a single number; its shape must be [.., in_features]");
    if (weight->rank != 2)
        return td_refuse(call,
                         "weight: is of rank %d; its shape must be [out_features, in_features]",
                         weight->rank);
    if (weight->shape[1] != self->shape[self->rank - 1])
        return td_refuse(call,
                         "weight: has %lld columns, self's last dimension is %lld; they must be "
                         "equal",
                         (long long)weight->shape[1], (long long)self->shape[self->rank - 1]);
    right.shape[right.rank - 1] = weight->shape[0];
    return td_rule_shape(call, 1, "grad_output", "that of linear(self, weight)", right.rank,
                         right.shape);
}

static int rule(struct td_call *call)
{
    int err = td_rule_type(call, 1, "grad_output");
    err = err ? err : td_rule_type(call, 2, "weight");
    err = err ? err : check_shapes(call);
    if (err)
        return err;
    const struct td_tensor *weight = &call->arg[2].tensor;
    td_rule_unary(call);
    call->out[1].rank = 2;
    call->out[1].shape[0] = call->out[2].shape[0] = weight->shape[0];
    call->out[1].shape[1] = weight->shape[1];
    call->out[2].rank = 1;
    td_rule_mask(call);
    return 0;
}

void td_linear_backward_of(const struct td_call *call, struct td_linear_backward *l)
{
    *l = (struct td_linear_backward){td_arg(call, 0), td_arg(call, 1), td_arg(call, 2)};
    l->rows = 1;
    for (int d = 0; d < l->self->rank - 1; d++)
        l->rows *= l->self->shape[d];
    l->out = l->weight->shape[0];
    l->in = l->weight->shape[1];
}

void td_linear_backward_self(const struct td_call *call, struct td_gemm *g)
{
    struct td_linear_backward l;
    td_linear_backward_of(call, &l);
    *g = (struct td_gemm){.m = l.rows,
                          .n = l.in,
                          .k = l.out,
                          .step_k = l.in,
                          .step_n = 1,
                          .a = l.grad,
                          .b = l.weight,
                          .out = &call->out[0],
                          .threads = call->threads};
}

void td_linear_backward_weight(const struct td_call *call, const struct td_tensor *turned,
                               struct td_gemm *g)
{
    struct td_linear_backward l;
    td_linear_backward_of(call, &l);
    *g = (struct td_gemm){.m = l.out,
                          .n = l.in,
                          .k = l.rows,
                          .step_k = l.in,
                          .step_n = 1,
                          .a = turned,
                          .b = l.self,
                          .out = &call->out[1],
                          .threads = call->threads};
}

size_t td_linear_backward_turned(const struct td_call *call)
{
    return (td_nbytes(td_arg(call, 1)) + 63) & ~(size_t)63;
}

static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_gemm g;
    size_t bytes = 0;
    if (td_wants(call, 0)) {
        td_linear_backward_self(call, &g);
        bytes = td_gemm_scratch(&g);
    }
    if (td_wants(call, 1)) {
        td_linear_backward_weight(call, NULL, &g);
        size_t more = td_gemm_scratch(&g) + td_linear_backward_turned(call);
        bytes = more > bytes ? more : bytes;
    }
    prepared->scratch = bytes;
    return NULL;
}

static double flops(const struct td_call *call)
{
    struct td_linear_backward l;
    td_linear_backward_of(call, &l);
    double products = td_wants(call, 0) + td_wants(call, 1);
    return (2.0 * products * (double)l.in + td_wants(call, 2)) * (double)l.rows * (double)l.out;
}

td_kernel td_linear_backward_ref;
TD_KERNELS_3(linear_backward);

static const struct td_impl impls[] = {
    TD_SIMD_3(linear_backward, TD_f32, .prepare = prepare) TD_REF(linear_backward),
    {0},
};

const struct td_op td_op_linear_backward = {
    .schema = "linear_backward(Tensor self, Tensor grad_output, Tensor weight, "
              "bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    .doc = "out0 = grad_output x weight, out1 = grad_output transposed x self, out2 = "
           "sum(grad_output) over the rows",
    .rule = rule,
    .dtypes = TD_FLOATS,
    .ulp = 24,
    .sums = true,
    .impls = impls,
    .samples =
        (const char *const[]){
            "self=[n,m] grad_output=[n,k] weight=[k,m] output_mask=[True,True,True]",
            "self=[5,n] grad_output=[5,m] weight=[m,n] output_mask=[True,True,True]",
            "self=[n] grad_output=[m] weight=[m,n] output_mask=[True,True,True]",
            "self=[2,n,9] grad_output=[2,n,m] weight=[m,9] output_mask=[False,True,False]",
            "self=[n,20] grad_output=[n,33] weight=[33,20] output_mask=[True,False,False]",
            "self=[m,40] grad_output=[m,n] weight=[n,40] output_mask=[False,False,True]", NULL},
    .flops = flops,
};
