/* im2col, which lays the windows of images side by side, and col2im, which adds them up again. */
#include "kernels/unfold/unfold.h"
#include "kernels/sizes.h"

#include <errno.h>

#define LARGEST INT32_MAX /* of sizes and steps, as in ATen */

/* im2col(self, kernel_size, dilation, padding, stride); col2im has output_size before those. */
static bool is_back(const struct td_call *call)
{
    return call->n_args == 6;
}

static struct td_unfold_axis axis_of(const struct td_call *call, int d)
{
    const struct td_value *arg = &call->arg[1 + is_back(call)];
    const struct td_tensor *image = is_back(call) ? &call->out[0] : &call->arg[0].tensor;
    struct td_unfold_axis a = {.size = image->shape[image->rank - 2 + d],
                               .kernel = arg[0].ints.v[d],
                               .dilation = arg[1].ints.v[d],
                               .padding = arg[2].ints.v[d],
                               .stride = arg[3].ints.v[d]};
    a.windows = td_size_windows(a.size, 2 * a.padding, a.dilation * (a.kernel - 1) + 1, a.stride);
    return a;
}

struct td_unfold td_unfold_of(const struct td_call *call)
{
    const struct td_tensor *image = is_back(call) ? &call->out[0] : &call->arg[0].tensor;
    struct td_unfold u = {1, axis_of(call, 0), axis_of(call, 1)};
    for (int d = 0; d < image->rank - 2; d++)
        u.channels *= image->shape[d];
    return u;
}

static int rule_steps(struct td_call *call)
{
    static const char *const names[] = {"kernel_size", "dilation", "padding", "stride"};
    for (int i = 0; i < 4; i++)
        for (int d = 0; d < 2; d++) {
            int64_t x = call->arg[1 + is_back(call) + i].ints.v[d], least = i != 2;
            if (x < least || x > LARGEST)
                return td_refuse(call, "%s: is %lld; from %lld to %d is right", names[i],
                                 (long long)x, (long long)least, LARGEST);
        }
    return 0;
}

/* Windows there are, and places within one. -EINVAL: too many to be counted, or no window. */
static int counts(struct td_call *call, int64_t *windows, int64_t *places)
{
    struct td_unfold_axis h = axis_of(call, 0), w = axis_of(call, 1);
    *places = h.kernel * w.kernel;
    if (!h.windows || !w.windows || !td_size_times(h.windows, w.windows, windows))
        return td_refuse(
            call,
            "kernel_size: %lld x %lld windows fit; at least one in each dimension, and "
            "so many as can be counted are right",
            (long long)h.windows, (long long)w.windows);
    return 0;
}

static int rule_im2col(struct td_call *call)
{
    struct td_tensor *out = &call->out[0];
    int64_t windows, places;
    int rank = call->arg[0].tensor.rank, err = rule_steps(call);
    if (err)
        return err;
    if (rank != 3 && rank != 4)
        return td_refuse(call,
                         "self: has %d dimensions; channels, height and width, or a batch of "
                         "those are right",
                         rank);
    *out = call->arg[0].tensor;
    out->weight = NULL;
    call->n_out = 1;
    for (int d = rank - 3; d < rank; d++)
        if (!out->shape[d])
            return td_refuse(call, "self: dimension %d is 0; only the batch may be", d);
    if ((err = counts(call, &windows, &places)))
        return err;
    if (!td_size_times(out->shape[rank - 3], places, &out->shape[rank - 3]))
        return td_refuse(call, "kernel_size: the result would be too large to be counted");
    out->shape[rank - 2] = windows;
    out->rank = rank - 1;
    return 0;
}

static int rule_col2im(struct td_call *call)
{
    const struct td_tensor *in = &call->arg[0].tensor;
    const struct td_value *size = &call->arg[1];
    struct td_tensor *out = &call->out[0];
    int64_t windows, places;
    int err = rule_steps(call);
    if (err)
        return err;
    if (in->rank != 2 && in->rank != 3)
        return td_refuse(call,
                         "self: has %d dimensions; columns and windows, or a batch of those "
                         "are right",
                         in->rank);
    if (size->ints.v[0] < 1 || size->ints.v[1] < 1)
        return td_refuse(call, "output_size: is [%lld, %lld]; 1 and up is right",
                         (long long)size->ints.v[0], (long long)size->ints.v[1]);
    *out = *in;
    out->weight = NULL;
    call->n_out = 1;
    out->rank = in->rank + 1;
    out->shape[in->rank - 1] = size->ints.v[0];
    out->shape[in->rank] = size->ints.v[1];
    if ((err = counts(call, &windows, &places)))
        return err;
    int64_t columns = in->shape[in->rank - 2];
    if (!columns || columns % places || in->shape[in->rank - 1] != windows)
        return td_refuse(
            call, "self: has %lld columns of %lld; a multiple of %lld, of %lld windows, is right",
            (long long)columns, (long long)in->shape[in->rank - 1], (long long)places,
            (long long)windows);
    out->shape[in->rank - 2] = columns / places;
    return 0;
}

static double flops(const struct td_call *call)
{
    double in = (double)td_numel(&call->arg[0].tensor), out = (double)td_numel(&call->out[0]);
    return in + out;
}

td_kernel td_im2col_ref, td_col2im_ref;
TD_KERNELS_3(im2col);
TD_KERNELS_3(col2im);
static const struct td_impl impls_im2col[] = {
    TD_SIMD_3(im2col, TD_FLOATS | TD_bool) TD_REF(im2col),
    {0},
};
static const struct td_impl impls_col2im[] = {
    TD_SIMD_3(col2im, TD_FLOATS) TD_REF(col2im),
    {0},
};

const struct td_op td_op_im2col = {
    .schema = "im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, "
              "int[2] stride) -> Tensor",
    .doc = "out[c, i] = element c of window i, 0 in the padding",
    .rule = rule_im2col,
    .dtypes = TD_FLOATS | TD_bool,
    .impls = impls_im2col,
    .samples =
        (const char *const[]){
            "self=[2,2,n,m] kernel_size=3 dilation=1 padding=1 stride=1",
            "self=[3,5,n] kernel_size=[2,3] dilation=[2,1] padding=[0,2] stride=2",
            "self=[1,n,9] kernel_size=[1,4] dilation=2 padding=0 stride=[1,3]", NULL},
    .flops = flops,
};
const struct td_op td_op_col2im = {
    .schema = "col2im(Tensor self, int[2] output_size, int[2] kernel_size, int[2] dilation, "
              "int[2] padding, int[2] stride) -> Tensor",
    .doc = "out[p] = the sum of all elements of windows that lie at p",
    .rule = rule_col2im,
    .dtypes = TD_FLOATS,
    .ulp = 4,
    .sums = true,
    .impls = impls_col2im,
    .samples =
        (const char *const[]){
            "self=[2,6,n] output_size=[1,n] kernel_size=[1,3] dilation=1 padding=[0,1] stride=1",
            "self=[4,n] output_size=[n,4] kernel_size=[1,4] dilation=[3,1] padding=0 stride=1",
            "self=[2,12,6] output_size=[7,5] kernel_size=[3,2] dilation=[1,2] padding=1 "
            "stride=[3,2]",
            "self=[1,9,20] output_size=[4,5] kernel_size=3 dilation=1 padding=1 stride=1", NULL},
    .flops = flops,
};
