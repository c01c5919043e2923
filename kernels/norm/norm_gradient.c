/* native_group_norm_backward: its descriptor, and the reference, which sums each result by itself.
 * Bounds are as wide as native_layer_norm_backward's, for the same reason. */
#include "kernels/backward.h"
#include "kernels/elementwise.h"
#include "kernels/norm/norm.h"
#include "kernels/sizes.h"

#include <errno.h>

struct td_group_sizes td_group_sizes(const struct td_call *call)
{
    return (struct td_group_sizes){call->arg[5].i, call->arg[6].i, call->arg[7].i, call->arg[8].i};
}

static int check_sizes(struct td_call *call, const struct td_group_sizes *s)
{
    const struct td_tensor *x = &call->arg[1].tensor;
    int64_t all = 0;
    bool right = s->images >= 0 && s->channels >= 0 && s->inner >= 0 &&
                 td_size_times(s->images, s->channels, &all) &&
                 td_size_times(all, s->inner, &all) && all == td_numel(x);
    if (!right)
        return td_refuse(
            call, "N, C, HxW: are %lld, %lld, %lld; sizes of input's %lld elements are right",
            (long long)s->images, (long long)s->channels, (long long)s->inner,
            (long long)td_numel(x));
    if (s->groups < 1 || s->channels % s->groups)
        return td_refuse(call, "group: is %lld; a divisor of the %lld channels is right",
                         (long long)s->groups, (long long)s->channels);
    return 0;
}

static int check_stats(struct td_call *call, const struct td_group_sizes *s)
{
    static const char *const names[] = {"mean", "rstd"};
    int64_t right = 0;
    if (!td_size_times(s->images, s->groups, &right))
        right = -1;
    for (int i = 2; i < 4; i++)
        if (td_numel(td_arg(call, i)) != right)
            return td_refuse(call, "%s: has %lld numbers; %lld, one a group, are right",
                             names[i - 2], (long long)td_numel(td_arg(call, i)), (long long)right);
    return 0;
}

static int rule(struct td_call *call)
{
    static const char *const names[] = {"mean", "rstd", "weight"};
    const struct td_tensor *x = &call->arg[1].tensor;
    struct td_group_sizes s = td_group_sizes(call);
    enum td_dtype type = TD_DTYPE_none;
    int err = td_rule_type(call, 1, "input");
    err = err ? err : td_rule_shape(call, 0, "grad_out", "input's", x->rank, x->shape);
    err = err ? err : td_rule_normalizing(call, x, 2, 4, names, &type);
    err = err ? err : check_sizes(call, &s);
    err = err ? err : check_stats(call, &s);
    err = err ? err : td_rule_shape(call, 4, "weight", "one number a channel", 1, &s.channels);
    if (!err && td_wants(call, 1) && !td_arg(call, 4))
        err = td_refuse(call, "output_mask: wants the gradient of weight, which is not given");
    td_rule_unary(call);
    for (int i = 1; i < 3; i++)
        call->out[i] = (struct td_tensor){.rank = 1, .shape = {s.channels}};
    td_rule_mask(call);
    call->out[1].dtype = call->out[2].dtype = type;
    return err;
}

static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    prepared->scratch = (size_t)(call->arg[5].i * call->arg[6].i) * 2 * sizeof(double);
    return NULL;
}

static double flops(const struct td_call *call)
{
    return 14 * (double)td_numel(&call->arg[1].tensor);
}

/* ---- the reference ---- */

struct args {
    const struct td_tensor *grad, *x, *mean, *rstd, *weight;
    struct td_group_sizes s;
};

/* Of element i: its group, its channel, and what it is when normalized. */
static int64_t group_of(const struct args *a, int64_t i)
{
    return i / (a->s.inner * (a->s.channels / a->s.groups));
}

static int64_t channel_of(const struct args *a, int64_t i)
{
    return i / a->s.inner % a->s.channels;
}

static long double normal(const struct args *a, int64_t i)
{
    int64_t g = group_of(a, i);
    return ((long double)td_get_real(a->x, i) - td_get_real(a->mean, g)) * td_get_real(a->rstd, g);
}

static long double scaled(const struct args *a, int64_t i)
{
    double weight = a->weight ? td_get_real(a->weight, channel_of(a, i)) : 1;
    return (long double)td_get_real(a->grad, i) * weight;
}

static void input(const struct args *a, const struct td_tensor *out)
{
    int64_t n = a->s.inner * (a->s.channels / a->s.groups);
    for (int64_t g = 0; g < a->s.images * a->s.groups && !td_stopped(); g++) {
        long double level = 0, slope = 0; /* what is left of the three terms may be little */
        for (int64_t i = g * n; i < (g + 1) * n; i++) {
            level += scaled(a, i) / n;
            slope += scaled(a, i) * normal(a, i) / n;
        }
        for (int64_t i = g * n; i < (g + 1) * n; i++)
            td_put_real(
                out, i,
                (double)(td_get_real(a->rstd, g) * (scaled(a, i) - level - normal(a, i) * slope)));
    }
}

static void affine(const struct args *a, const struct td_tensor *out, bool weight)
{
    for (int64_t c = 0; c < a->s.channels && !td_stopped(); c++) {
        long double sum = 0;
        for (int64_t row = c; row < a->s.images * a->s.channels; row += a->s.channels)
            for (int64_t i = row * a->s.inner; i < (row + 1) * a->s.inner; i++)
                sum += td_get_real(a->grad, i) * (weight ? normal(a, i) : 1);
        td_put_real(out, c, (double)sum);
    }
}

td_kernel td_group_norm_backward_ref;
void td_group_norm_backward_ref(const struct td_call *call)
{
    struct args a = {td_arg(call, 0), td_arg(call, 1), td_arg(call, 2),
                     td_arg(call, 3), td_arg(call, 4), td_group_sizes(call)};
    if (td_wants(call, 0) && td_numel(a.x))
        input(&a, &call->out[0]);
    for (int i = 1; i < 3; i++)
        if (td_wants(call, i))
            affine(&a, &call->out[i], i == 1);
}

TD_KERNELS_3(norm_back);

static const struct td_impl impls[] = {
    TD_SIMD_3(norm_back, TD_FLOATS, .prepare = prepare) TD_REF(group_norm_backward),
    {0},
};

const struct td_op td_op_native_group_norm_backward = {
    .schema = "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, "
              "Tensor? weight, int N, int C, int HxW, int group, bool[3] output_mask) -> (Tensor, "
              "Tensor, Tensor)",
    .doc = "with x = (input - mean) * rstd and g = grad_out * weight: out0 = rstd * (g - mean(g) - "
           "x * mean(g * x)), means over groups; out1 = sum(grad_out * x), out2 = sum(grad_out), "
           "sums over channels",
    .rule = rule,
    .dtypes = TD_FLOATS,
    .ulp = 48,
    .sums = true,
    .impls = impls,
    .samples =
        (const char *const[]){
            "grad_out=[2,6,n] input=[2,6,n] mean=[2,3] rstd=[2,3] weight=[6] N=2 C=6 HxW=n group=3 "
            "output_mask=[True,True,True] finite",
            "grad_out=[n,4,5] input=[n,4,5] mean=[n,1] rstd=[n,1] weight=None N=n C=4 HxW=5 "
            "group=1 output_mask=[True,False,True]",
            "grad_out=[3,n,2] input=[3,n,2] mean=[3,n] rstd=[3,n] weight=[n] N=3 C=n HxW=2 "
            "group=n output_mask=[False,True,False]",
            NULL},
    .flops = flops,
};
