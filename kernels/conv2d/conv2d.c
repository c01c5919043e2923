/* conv2d: ATen's, over NCHW or one image CHW. What a parameter may be is bounded before anything is
 * computed from it, since a padding can ask for a result of any size. */
#include "kernels/conv2d/conv2d.h"
#include "kernels/onednn.h"

#include <errno.h>

static int check_types(struct td_call *call)
{
    const struct td_tensor *input = &call->arg[0].tensor, *weight = &call->arg[1].tensor;
    const struct td_tensor *bias = td_arg(call, 2);
    if (input->rank != 3 && input->rank != 4)
        return td_refuse(call, "input: is of rank %d; its shape must be [n, c, h, w] or [c, h, w]",
                         input->rank);
    if (weight->rank != 4)
        return td_refuse(call, "weight: is of rank %d; its shape must be [out, c / groups, h, w]",
                         weight->rank);
    if (weight->dtype != input->dtype)
        return td_refuse(call, "weight: is %s, input is %s; both must be of one type",
                         td_dtype_name(weight->dtype), td_dtype_name(input->dtype));
    if (bias && bias->dtype != input->dtype)
        return td_refuse(call, "bias: is %s, input is %s; both must be of one type",
                         td_dtype_name(bias->dtype), td_dtype_name(input->dtype));
    if (bias && (bias->rank != 1 || bias->shape[0] != weight->shape[0]))
        return td_refuse(call, "bias: must be of shape [%lld], one number an output channel",
                         (long long)weight->shape[0]);
    return 0;
}

static int check_pair(struct td_call *call, int i, const char *name, int64_t least)
{
    const struct td_value *v = &call->arg[i];
    if (v->ints.n != 2)
        return td_refuse(call, "%s: has %d numbers; one or two are right", name, v->ints.n);
    for (int d = 0; d < 2; d++)
        if (v->ints.v[d] < least || v->ints.v[d] > INT32_MAX)
            return td_refuse(call, "%s: is %lld in dimension %d; %lld to %d is right", name,
                             (long long)v->ints.v[d], d, (long long)least, INT32_MAX);
    return 0;
}

static int check_groups(struct td_call *call)
{
    const struct td_tensor *input = &call->arg[0].tensor, *weight = &call->arg[1].tensor;
    int64_t groups = call->arg[6].i, channels = input->shape[input->rank - 3];
    if (groups < 1 || groups > INT32_MAX)
        return td_refuse(call, "groups: is %lld; at least 1 is right", (long long)groups);
    if (weight->shape[0] % groups)
        return td_refuse(call, "groups: %lld does not divide weight's %lld output channels",
                         (long long)groups, (long long)weight->shape[0]);
    if (channels % groups || channels / groups != weight->shape[1])
        return td_refuse(call,
                         "weight: takes %lld channels in each of %lld groups, input has %lld; "
                         "input's must be their product",
                         (long long)weight->shape[1], (long long)groups, (long long)channels);
    return 0;
}

/* The output's size in spatial dimension d, 0 height and 1 width. */
static int spatial(struct td_call *call, int d, int64_t *size)
{
    const struct td_tensor *input = &call->arg[0].tensor, *weight = &call->arg[1].tensor;
    int64_t in = input->shape[input->rank - 2 + d], kernel = weight->shape[2 + d];
    int64_t stride = call->arg[3].ints.v[d], padding = call->arg[4].ints.v[d];
    int64_t dilation = call->arg[5].ints.v[d];
    if (in > INT32_MAX || kernel > INT32_MAX || !kernel)
        return td_refuse(call, "%s: its %s is %lld; 1 to %d is right", kernel ? "input" : "weight",
                         d ? "width" : "height", (long long)(kernel ? in : kernel), INT32_MAX);
    int64_t reach = dilation * (kernel - 1) + 1, room = in + 2 * padding;
    if (reach > room)
        return td_refuse(call,
                         "weight: the kernel reaches over %lld elements of the %s, and input has "
                         "%lld with its padding",
                         (long long)reach, d ? "width" : "height", (long long)room);
    *size = (room - reach) / stride + 1;
    return 0;
}

static int rule(struct td_call *call)
{
    const struct td_tensor *input = &call->arg[0].tensor, *weight = &call->arg[1].tensor;
    struct td_tensor *out = &call->out[0];
    int err = check_types(call);
    err = err ? err : check_pair(call, 3, "stride", 1);
    err = err ? err : check_pair(call, 4, "padding", 0);
    err = err ? err : check_pair(call, 5, "dilation", 1);
    err = err ? err : check_groups(call);
    if (err)
        return err;
    *out = *input;
    out->weight = NULL;
    out->shape[out->rank - 3] = weight->shape[0];
    for (int d = 0; d < 2 && !err; d++)
        err = spatial(call, d, &out->shape[out->rank - 2 + d]);
    call->n_out = 1;
    return err;
}

void td_conv2d_of(const struct td_call *call, struct td_conv2d *c)
{
    const struct td_tensor *input = &call->arg[0].tensor, *weight = &call->arg[1].tensor;
    const struct td_tensor *out = &call->out[0];
    *c = (struct td_conv2d){.input = input, .weight = weight, .bias = td_arg(call, 2), .out = out};
    c->images = input->rank == 4 ? input->shape[0] : 1;
    c->groups = call->arg[6].i;
    c->in_channels = weight->shape[1];
    c->out_channels = weight->shape[0] / c->groups;
    for (int d = 0; d < 2; d++) {
        c->in[d] = input->shape[input->rank - 2 + d];
        c->kernel[d] = weight->shape[2 + d];
        c->size[d] = out->shape[out->rank - 2 + d];
        c->stride[d] = call->arg[3].ints.v[d];
        c->padding[d] = call->arg[4].ints.v[d];
        c->dilation[d] = call->arg[5].ints.v[d];
    }
}

static double flops(const struct td_call *call)
{
    const struct td_tensor *weight = &call->arg[1].tensor;
    return 2.0 * (double)td_numel(&call->out[0]) *
           (double)(weight->shape[1] * weight->shape[2] * weight->shape[3]);
}

td_kernel td_conv2d_ref;
TD_ONEDNN_ROW(conv2d);

static const struct td_impl impls[] = {
    TD_ONEDNN(conv2d, TD_f32 | TD_bf16 | TD_f16),
    TD_REF(conv2d),
    {0},
};

const struct td_op td_op_conv2d = {
    .schema = "conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, "
              "int[2] padding=0, int[2] dilation=1, int groups=1) -> Tensor",
    .doc = "out[n, o, y, x] = bias[o] + sum over c, i, j of weight[o, c, i, j] * "
           "input[n, c, y * stride - padding + i * dilation, x .. j]",
    .rule = rule,
    .dtypes = TD_FLOATS,
    .ulp = 16,
    .sums = true,
    .impls = impls,
    .samples =
        (const char *const[]){
            "input=[1,3,n,m] weight=[5,3,3,3] bias=[5] padding=2 stride=2",
            "input=[2,n,9,7] weight=[m,n,3,3] bias=[m] padding=1",
            "input=[n,8,7,5] weight=[m,8,1,1]",
            "input=[4,n,m] weight=[8,4,3,2] padding=[2,1] stride=2",
            "input=[1,12,n,m] weight=[12,1,3,3] padding=3 dilation=2 groups=12",
            "input=[1,6,n,m] weight=[9,2,2,3] padding=[2,3] dilation=[3,2] groups=3", NULL},
    .flops = flops,
};
