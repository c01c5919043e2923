/* fractional_max_pool2d: the maxima of windows of one size, whose places are drawn: steps of two
 * sizes follow each other so that the last window ends with the plane (B. Graham, Fractional
 * Max-Pooling, 2014). */
#include "kernels/kernels.h"
#include "kernels/sizes.h"

#include <errno.h>

enum { SELF, KERNEL, SIZE, SAMPLES };

static int rule_sizes(struct td_call *call)
{
    const struct td_tensor *self = &call->arg[SELF].tensor;
    for (int d = 0; d < 2; d++) {
        long long kernel = call->arg[KERNEL].ints.v[d], size = call->arg[SIZE].ints.v[d];
        int64_t room = self->shape[self->rank - 2 + d], most;
        if (kernel < 1)
            return td_refuse(call, "kernel_size: has %lld; 1 or more is right", kernel);
        if (size < 0)
            return td_refuse(call, "output_size: has %lld; 0 or more is right", size);
        td_size_minus(room, kernel, &most);
        if (most < 0 || size - 1 > most)
            return td_refuse(call,
                             "%lld windows of %lld elements do not fit %lld: kernel_size + "
                             "output_size - 1 may be %lld at most",
                             size, kernel, (long long)room, (long long)room);
    }
    return 0;
}

static int rule_samples(struct td_call *call)
{
    const struct td_tensor *self = &call->arg[SELF].tensor, *samples = &call->arg[SAMPLES].tensor;
    int64_t planes = self->shape[self->rank - 3], images = self->rank == 4 ? self->shape[0] : 1;
    if (samples->dtype != self->dtype)
        return td_refuse(call, "random_samples: is of type %s; self's, %s, is right",
                         td_dtype_name(samples->dtype), td_dtype_name(self->dtype));
    if (samples->rank != 3 || samples->shape[0] < images || samples->shape[1] != planes ||
        samples->shape[2] != 2)
        return td_refuse(call,
                         "random_samples: two for each of %lld planes of %lld images are right",
                         (long long)planes, (long long)images);
    return 0;
}

static int rule(struct td_call *call)
{
    const struct td_tensor *self = &call->arg[SELF].tensor;
    if (self->rank != 3 && self->rank != 4)
        return td_refuse(call, "self: has %d dimensions; three or four are right", self->rank);
    for (int d = self->rank - 3; d < self->rank; d++)
        if (!self->shape[d])
            return td_refuse(call, "self: has no elements in dimension %d; only the batch may be 0",
                             d);
    int err = rule_sizes(call);
    err = err ? err : rule_samples(call);
    if (err)
        return err;
    struct td_tensor out = {.dtype = self->dtype, .rank = self->rank};
    for (int d = 0; d < self->rank; d++)
        out.shape[d] =
            d < self->rank - 2 ? self->shape[d] : call->arg[SIZE].ints.v[d - self->rank + 2];
    call->out[0] = out;
    out.dtype = TD_i64;
    call->out[1] = out;
    call->n_out = 2;
    return 0;
}

static double flops(const struct td_call *call)
{
    const int64_t *kernel = call->arg[KERNEL].ints.v;
    return (double)td_numel(&call->out[0]) * (double)kernel[0] * (double)kernel[1];
}

/* Where the windows of a plane begin, for both dimensions. */
static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    int64_t starts, bytes;
    bool fits = td_size_plus(call->arg[SIZE].ints.v[0], call->arg[SIZE].ints.v[1], &starts) &&
                td_size_times(starts, 8, &bytes);
    prepared->scratch = fits ? (size_t)bytes : 0;
    return fits ? NULL : "there are too many windows";
}

td_kernel td_fractional_ref;

static const struct td_impl impls[] = {
    {.name = "ref", .run = td_fractional_ref, .dtypes = TD_FLOATS, .prepare = prepare},
    {0},
};

const struct td_op td_op_fractional_max_pool2d = {
    .schema = "fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor "
              "random_samples) -> (Tensor, Tensor)",
    .doc =
        "the largest of self in each window, and where in its plane it stands; window i begins at "
        "floor((i + s) a) - floor(s a), a = (size - kernel_size) / (output_size - 1), where s of "
        "columns and of rows are a plane's random_samples, from 0 to 1",
    .rule = rule,
    .dtypes = TD_FLOATS,
    .impls = impls,
    .flops = flops,
    .follows = 1 << SAMPLES,
    .mixes = TD_MAX_RANK, /* random_samples may be of more images than there are */
    .samples =
        (const char *const[]){
            "self=[2,3,n,9] kernel_size=[1,2] output_size=[1,4] random_samples=[2,3,2]",
            "self=[3,7,8] kernel_size=2 output_size=[3,5] random_samples=[1,3,2]",
            "self=[2,9,n] kernel_size=[3,1] output_size=[7,n] random_samples=[1,2,2]", NULL},
};
