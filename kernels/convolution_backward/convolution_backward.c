/* convolution_backward: the gradients of conv2d for its input, its weight and its bias. What is
 * right for conv2d is right here, so its rule judges most of the arguments, and says what
 * grad_output's shape has to be. */
#include "kernels/convolution_backward/convolution_backward.h"

#include "kernels/backward.h"
#include "kernels/elementwise.h"
#include "kernels/onednn/onednn.h"

#include <errno.h>

extern const struct td_op td_op_conv2d;

enum { /* arguments */
       GRAD,
       INPUT,
       WEIGHT,
       BIAS_SIZES,
       STRIDE,
       PADDING,
       DILATION,
       TRANSPOSED,
       OUTPUT_PADDING,
       GROUPS
};

struct forward {
    struct td_call call;
    struct td_value arg[7];
    struct td_tensor out[1];
};

/* The call of conv2d whose gradient is asked for. */
static void forward_of(const struct td_call *call, struct forward *forward)
{
    *forward = (struct forward){
        .call = {.op = &td_op_conv2d,
                 .n_args = 7,
                 .arg = forward->arg,
                 .out = forward->out,
                 .problem = call->problem},
        .arg = {call->arg[INPUT],
                call->arg[WEIGHT],
                {.kind = TD_KIND_none},
                call->arg[STRIDE],
                call->arg[PADDING],
                call->arg[DILATION],
                call->arg[GROUPS]},
    };
}

static int check_lists(struct td_call *call)
{
    struct td_value *padding = &call->arg[OUTPUT_PADDING];
    for (int i = STRIDE; i <= DILATION; i++)
        if (call->arg[i].ints.n == 1) { /* one number for both dimensions */
            call->arg[i].ints.v[1] = call->arg[i].ints.v[0];
            call->arg[i].ints.n = 2;
        }
    if (call->arg[TRANSPOSED].i)
        return td_refuse(call, "transposed: is true; there are gradients of ordinary convolutions "
                               "only, so false is right");
    for (int i = 0; i < padding->ints.n; i++)
        if (padding->ints.v[i])
            return td_refuse(call,
                             "output_padding: is %lld in dimension %d; 0 is right, since it "
                             "belongs to transposed convolutions",
                             (long long)padding->ints.v[i], i);
    return 0;
}

/* ATen hands over the bias's sizes, which are [0] when there is none. */
static int check_bias(struct td_call *call, int64_t channels)
{
    const struct td_value *sizes = &call->arg[BIAS_SIZES];
    bool none = sizes->kind == TD_KIND_none;
    bool empty = !none && sizes->ints.n == 1 && !sizes->ints.v[0] && !td_wants(call, 2);
    if (!none && !empty && (sizes->ints.n != 1 || sizes->ints.v[0] != channels))
        return td_refuse(call, "bias_sizes: must be [%lld], one number an output channel, or null",
                         (long long)channels);
    return 0;
}

static int rule(struct td_call *call)
{
    struct forward forward;
    const struct td_tensor *weight = &call->arg[WEIGHT].tensor, *right = &forward.out[0];
    int err = check_lists(call);
    err = err ? err : td_rule_type(call, INPUT, "input");
    err = err ? err : td_rule_type(call, WEIGHT, "weight");
    if (err)
        return err;
    forward_of(call, &forward);
    err = td_op_conv2d.rule(&forward.call);
    err = err ? err
              : td_rule_shape(call, GRAD, "grad_output", "that of conv2d(input, weight)",
                              right->rank, right->shape);
    err = err ? err : check_bias(call, weight->shape[0]);
    if (err)
        return err;
    call->out[0] = call->arg[INPUT].tensor;
    call->out[1] = *weight;
    call->out[2] = (struct td_tensor){.rank = 1, .shape = {weight->shape[0]}};
    call->out[0].weight = call->out[1].weight = NULL;
    td_rule_mask(call);
    return 0;
}

void td_convolution_backward_of(const struct td_call *call, struct td_conv *c)
{
    struct forward forward;
    forward_of(call, &forward);
    forward.out[0] = call->arg[GRAD].tensor;
    td_conv_of(&forward.call, c);
    c->input = &call->arg[INPUT].tensor;
    c->weight = &call->arg[WEIGHT].tensor;
    c->out = &call->arg[GRAD].tensor;
}

static double flops(const struct td_call *call)
{
    const struct td_tensor *weight = &call->arg[WEIGHT].tensor;
    double products = td_wants(call, 0) + td_wants(call, 1);
    return (double)td_numel(&call->arg[GRAD].tensor) *
           (2 * products * (double)(weight->shape[1] * weight->shape[2] * weight->shape[3]) +
            td_wants(call, 2));
}

td_kernel td_convolution_backward_ref;
TD_ONEDNN_ROW(convolution_backward);

static const struct td_impl impls[] = {
    TD_ONEDNN(convolution_backward, TD_f32) TD_REF(convolution_backward),
    {0},
};

#define MORE " transposed=False output_padding=[0,0]"
#define PLAIN " stride=[1,1] dilation=[1,1]" MORE " groups=1"
#define ALL " output_mask=[True,True,True]"

const struct td_op td_op_convolution_backward = {
    .schema = "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, "
              "int[]? bias_sizes, int[] stride, int[] padding, int[] dilation, bool transposed, "
              "int[] output_padding, int groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    .doc = "out0, out1, out2 = the gradients of sum(grad_output * conv2d(input, weight, bias)) in "
           "input, weight and bias",
    .rule = rule,
    .dtypes = TD_FLOATS,
    .ulp = 16,
    .sums = true,
    .impls = impls,
    .samples =
        (const char *const[]){
            "grad_output=[1,5,n,m] input=[1,3,n,m] weight=[5,3,3,3] bias_sizes=[5] "
            "padding=[1,1]" PLAIN ALL,
            "grad_output=[2,m,5,4] input=[2,n,9,7] weight=[m,n,3,3] bias_sizes=None stride=[2] "
            "padding=[1] dilation=[1]" MORE " groups=1" ALL,
            "grad_output=[n,m,7,5] input=[n,8,7,5] weight=[m,8,1,1] bias_sizes=[0] "
            "padding=[0,0]" PLAIN " output_mask=[True,True,False]",
            "grad_output=[1,12,n,m] input=[1,12,n,m] weight=[12,1,3,3] bias_sizes=[12] "
            "stride=[1,1] padding=[2,2] dilation=[2,2]" MORE " groups=12" ALL,
            "grad_output=[9,n,m] input=[6,n,m] weight=[9,2,3,5] bias_sizes=[9] stride=[1,1] "
            "padding=[3,2] dilation=[3,1]" MORE " groups=3 output_mask=[False,True,True]",
            "grad_output=[n,6,4,4] input=[n,m,6,6] weight=[6,m,3,3] bias_sizes=[6] "
            "padding=[0,0]" PLAIN " output_mask=[True,False,False]",
            NULL},
    .flops = flops,
};
