/* histogram: how many of self's elements lie between each two neighbours of a row of edges, or the
 * sum of their weights. The edges are given, or a number of even parts of a range, as linspace
 * makes them. */
#include "kernels/histogram/histogram.h"

#include "kernels/histc/histc.h"

#include <errno.h>
#include <math.h>

bool td_histogram_range(const struct td_call *call, double *low, double *high)
{
    const struct td_tensor *self = &call->arg[0].tensor;
    const struct td_value *range = &call->arg[2];
    bool finite = true;
    *low = 0;
    *high = 1;
    if (range->kind == TD_KIND_floats) {
        *low = td_histc_typed(call, range->floats.v[0]);
        *high = td_histc_typed(call, range->floats.v[1]);
    } else if (td_numel(self)) {
        finite = td_histc_extent(self, low, high);
    }
    if (*low == *high) {
        *low = td_histc_typed(call, *low - 0.5);
        *high = td_histc_typed(call, *high + 0.5);
    }
    return finite;
}

/* ---- rules ---- */

static int rule_weight(struct td_call *call, int i)
{
    const struct td_tensor *self = &call->arg[0].tensor, *weight = td_arg(call, i);
    if (!weight)
        return 0;
    if (weight->dtype != self->dtype)
        return td_refuse(call, "weight: is of type %s; self's, %s, is right",
                         td_dtype_name(weight->dtype), td_dtype_name(self->dtype));
    if (td_numel(weight) != td_numel(self))
        return td_refuse(call, "weight: has %lld elements; one for each of self's %lld is right",
                         (long long)td_numel(weight), (long long)td_numel(self));
    return 0;
}

static void fill_results(struct td_call *call, int64_t bins)
{
    enum td_dtype dtype = call->arg[0].tensor.dtype;
    call->out[0] = (struct td_tensor){.dtype = dtype, .rank = 1, .shape = {bins}};
    call->out[1] = (struct td_tensor){.dtype = dtype, .rank = 1, .shape = {bins + 1}};
    call->n_out = 2;
}

static int rule_number(struct td_call *call)
{
    int64_t bins = call->arg[1].i;
    const struct td_value *range = &call->arg[2];
    if (bins < 1 || bins >= INT32_MAX)
        return td_refuse(call, "bins: is %lld; from 1 to %d is right", (long long)bins,
                         INT32_MAX - 1);
    if (range->kind == TD_KIND_floats) {
        if (range->floats.n != 2)
            return td_refuse(call, "range: has %d numbers; two are right", range->floats.n);
        double low = td_histc_typed(call, range->floats.v[0]),
               high = td_histc_typed(call, range->floats.v[1]);
        if (!isfinite(low) || !isfinite(high) || low > high)
            return td_refuse(call,
                             "range: is from %.15g to %.15g in %s; finite, and the first not above "
                             "the second, is right",
                             low, high, td_dtype_name(call->arg[0].tensor.dtype));
    }
    fill_results(call, bins);
    return rule_weight(call, 3);
}

static int rule_edges(struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor, *bins = &call->arg[1].tensor;
    if (bins->dtype != self->dtype)
        return td_refuse(call, "bins: is of type %s; self's, %s, is right",
                         td_dtype_name(bins->dtype), td_dtype_name(self->dtype));
    if (bins->rank != 1 || bins->shape[0] < 2)
        return td_refuse(call, "bins: one dimension of two edges or more is right");
    fill_results(call, bins->shape[0] - 1);
    return rule_weight(call, 2);
}

static int check(const struct td_call *call)
{
    double low, high;
    return td_histogram_range(call, &low, &high)
               ? 0
               : td_refuse(call, "self: has elements that are not finite; beside a range they are "
                                 "right");
}

static double flops(const struct td_call *call)
{
    return 2 * (double)td_numel(&call->arg[0].tensor) * (1 + log2((double)call->out[1].shape[0]));
}

td_kernel td_histogram_ref;

static const struct td_impl impls[] = {
    {.name = "ref", .run = td_histogram_ref, .dtypes = TD_f32 | TD_f64},
    {0},
};

const struct td_op td_op_histogram_bins_tensor = {
    .schema = "histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool "
              "density=False) -> (Tensor hist, Tensor bin_edges)",
    .doc =
        "hist = how many of self's elements, or which sum of weights, lie from each edge in bins "
        "up to the next, the last one's end with it; density: over the whole and the width",
    .rule = rule_edges,
    .dtypes = TD_f32 | TD_f64,
    .ulp = 4,
    .impls = impls,
    .flops = flops,
    .mixes = TD_MAX_RANK,
    .samples = (const char *const[]){"self=[n] bins=[m]", "self=[3,n] bins=[5] weight=[3,n]", NULL},
};

const struct td_op td_op_histogram_bin_ct = {
    .schema = "histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? "
              "weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
    .doc = "hist = how many of self's elements, or which sum of weights, lie in each of bins even "
           "parts of range, or from the smallest to the largest; density: over the whole and the "
           "width",
    .rule = rule_number,
    .dtypes = TD_f32 | TD_f64,
    .ulp = 4,
    .impls = impls,
    .flops = flops,
    .follows = 1,
    .check = check,
    .mixes = TD_MAX_RANK,
    .samples =
        (const char *const[]){"self=[n] bins=5", "self=[3,n] bins=7 range=[-2.0,2.0] weight=[3,n]",
                              "self=[2,n] bins=4 density=True", NULL},
};
