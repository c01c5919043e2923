/* histc: how many elements lie in each of equal parts of a range, as PyTorch counts them: a
 * quotient in the elements' own type, rounded at each step, says which part. */
#include "kernels/histc/histc.h"

#include "kernels/elementwise.h"

#include <errno.h>
#include <math.h>

double td_histc_typed(const struct td_call *call, double x)
{
    return call->arg[0].tensor.dtype == TD_f64 ? x : (double)(float)x;
}

static int rule(struct td_call *call)
{
    int64_t bins = call->arg[1].i;
    double min = td_histc_typed(call, td_scalar(&call->arg[2])),
           max = td_histc_typed(call, td_scalar(&call->arg[3]));
    if (bins < 1 || bins > INT32_MAX)
        return td_refuse(call, "bins: is %lld; from 1 to %d is right", (long long)bins, INT32_MAX);
    if (!isfinite(min) || !isfinite(max) || min > max)
        return td_refuse(
            call, "min, max: are %.15g and %.15g in %s; finite, and min not above max, is right",
            min, max, td_dtype_name(call->arg[0].tensor.dtype));
    call->out[0] =
        (struct td_tensor){.dtype = call->arg[0].tensor.dtype, .rank = 1, .shape = {bins}};
    call->n_out = 1;
    return 0;
}

bool td_histc_extent(const struct td_tensor *self, double *min, double *max)
{
    bool finite = true;
    *min = *max = td_get_real(self, 0);
    for (int64_t i = 0, n = td_numel(self); i < n && (i % TD_STRIDE || !td_stopped()); i++) {
        double x = td_get_real(self, i);
        finite = finite && isfinite(x);
        *min = x < *min ? x : *min;
        *max = x > *max ? x : *max;
    }
    return finite;
}

bool td_histc_range(const struct td_call *call, double *min, double *max)
{
    const struct td_tensor *self = &call->arg[0].tensor;
    bool finite = true;
    *min = td_histc_typed(call, td_scalar(&call->arg[2]));
    *max = td_histc_typed(call, td_scalar(&call->arg[3]));
    if (*min == *max && td_numel(self))
        finite = td_histc_extent(self, min, max);
    if (*min == *max) {
        *min = td_histc_typed(call, *min - 1);
        *max = td_histc_typed(call, *max + 1);
    }
    return finite;
}

static int check(const struct td_call *call)
{
    double min, max;
    return td_histc_range(call, &min, &max)
               ? 0
               : td_refuse(call, "self: has elements that are not finite; beside min and max that "
                                 "differ they are right");
}

static double flops(const struct td_call *call)
{
    return 4 * (double)td_numel(&call->arg[0].tensor);
}

td_kernel td_histc_ref;

static const struct td_impl impls[] = {
    {.name = "ref", .run = td_histc_ref, .dtypes = TD_f32 | TD_f64},
    {0},
};

const struct td_op td_op_histc = {
    .schema = "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
    .doc = "out = how many of self's elements lie in each of bins equal parts from min to max, the "
           "last of which has max, too; where both are one, from self's smallest to its largest",
    .rule = rule,
    .dtypes = TD_f32 | TD_f64,
    .impls = impls,
    .flops = flops,
    .follows = 1,
    .check = check,
    .mixes = TD_MAX_RANK,
    .samples = (const char *const[]){"self=[n]", "self=[3,n] bins=7 min=-2 max=2",
                                     "self=[n] bins=1", NULL},
};
