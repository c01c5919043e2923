/* _cdist_forward and _pdist_forward: how far rows lie apart, as the p-norm of their difference. */
#include "kernels/distance/distance.h"
#include "kernels/sizes.h"

#include "kernels/backward.h"

#include <errno.h>

static bool is_pairs(const struct td_call *call)
{
    return call->n_args == 2;
}

struct td_distance td_distance_of(const struct td_call *call)
{
    const struct td_tensor *a = &call->arg[0].tensor,
                           *b = is_pairs(call) ? a : &call->arg[1].tensor, *out = &call->out[0];
    struct td_distance d = {a,
                            b,
                            out,
                            1,
                            a->shape[a->rank - 2],
                            b->shape[b->rank - 2],
                            a->shape[a->rank - 1],
                            is_pairs(call),
                            call->arg[is_pairs(call) ? 1 : 2].f};
    for (int k = 0; k < out->rank - 2; k++)
        d.batches *= out->shape[k];
    return d;
}

int64_t td_distance_at(const struct td_distance *d, const struct td_tensor *of, int64_t batch)
{
    int64_t at = 0, step = of->shape[of->rank - 1] * of->shape[of->rank - 2];
    for (int k = d->out->rank - 3; k >= 0; k--) {
        int own = k - (d->out->rank - of->rank);
        int64_t size = own < 0 ? 1 : of->shape[own];
        at += size == 1 ? 0 : batch % d->out->shape[k] * step;
        step *= size;
        batch /= d->out->shape[k];
    }
    return at;
}

static int rule_p(struct td_call *call, int i)
{
    return call->arg[i].f >= 0 ? 0
                               : td_refuse(call, "p: is %.15g; 0 and up is right", call->arg[i].f);
}

static int rule_pairs(struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor;
    call->n_out = 1;
    if (self->rank != 2)
        return td_refuse(call, "self: has %d dimensions; two are right, rows and their elements",
                         self->rank);
    int64_t n = self->shape[0], pairs = 0;
    if (!td_size_times(n % 2 ? n : n / 2, n % 2 ? n / 2 : n - 1, &pairs))
        return td_refuse(call,
                         "self: has %lld rows; fewer are right, so that their pairs can be "
                         "counted",
                         (long long)n);
    call->out[0] = (struct td_tensor){.dtype = self->dtype, .rank = 1, .shape = {n ? pairs : 0}};
    return rule_p(call, 1);
}

static int rule_sets(struct td_call *call)
{
    const struct td_tensor *a = &call->arg[0].tensor, *b = &call->arg[1].tensor;
    const struct td_value *mode = &call->arg[3];
    struct td_tensor *out = &call->out[0];
    int err = td_rule_type(call, 1, "x2");
    if (err)
        return err;
    for (int i = 0; i < 2; i++)
        if (call->arg[i].tensor.rank < 2)
            return td_refuse(call, "x%d: has %d dimensions; two or more are right", i + 1,
                             call->arg[i].tensor.rank);
    if (a->shape[a->rank - 1] != b->shape[b->rank - 1])
        return td_refuse(call, "x2: has rows of %lld, x1 of %lld; they must be of one length",
                         (long long)b->shape[b->rank - 1], (long long)a->shape[a->rank - 1]);
    if (mode->kind == TD_KIND_int && (mode->i < 0 || mode->i > 2))
        return td_refuse(call, "compute_mode: is %lld; 0, 1 or 2 is right", (long long)mode->i);
    *out = (struct td_tensor){.dtype = a->dtype, .rank = a->rank > b->rank ? a->rank : b->rank};
    for (int k = 1; k <= out->rank; k++) {
        int64_t x = k <= a->rank ? a->shape[a->rank - k] : 1;
        int64_t y = k <= b->rank ? b->shape[b->rank - k] : 1;
        if (k > 2 && x != y && x != 1 && y != 1)
            return td_refuse(call, "x2: size %lld does not broadcast with x1's %lld", (long long)y,
                             (long long)x);
        out->shape[out->rank - k] = x == 1 ? y : x;
    }
    out->shape[out->rank - 2] = a->shape[a->rank - 2];
    out->shape[out->rank - 1] = b->shape[b->rank - 2];
    call->n_out = 1;
    return rule_p(call, 2);
}

static double flops(const struct td_call *call)
{
    const struct td_tensor *a = &call->arg[0].tensor;
    double p = call->arg[is_pairs(call) ? 1 : 2].f;
    double each = p == 0 || p == 1 || p == 2 || p > 1e300 ? 3 : 60;
    return (each * (double)a->shape[a->rank - 1] + 4) * (double)td_numel(&call->out[0]);
}

td_kernel td_distance_ref;
TD_KERNELS_3(distance_f32);
TD_KERNELS_3(distance_f64);

static const struct td_impl impls[] = {
    TD_SIMD_3(distance_f32, TD_f32) TD_SIMD_3(distance_f64, TD_f64) TD_REF(distance),
    {0},
};

#define TD_DISTANCE(symbol, text, formula, judge, mixed, ...)                                      \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = formula,                                                                            \
        .rule = judge,                                                                             \
        .dtypes = TD_f32 | TD_f64,                                                                 \
        .ulp = 8,                                                                                  \
        .impls = impls,                                                                            \
        .mixes = mixed,                                                                            \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
        .flops = flops,                                                                            \
    };
#define TD_SETS                                                                                    \
    "out[.., i, j] = sum(|x1[.., i, :] - x2[.., j, :]|^p)^(1/p); p = 0 counts those that differ, " \
    "p = inf is the largest; compute_mode changes nothing"
#define TD_PAIRS "cdist of each two rows of self, those before first"
TD_DISTANCE(_cdist_forward,
            "_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor", TD_SETS,
            rule_sets, 0, "x1=[n,7] x2=[m,7] p=2.0 compute_mode=None",
            "x1=[3,1,5,n] x2=[2,9,n] p=1.0 compute_mode=0",
            "x1=[70,n] x2=[3,n] p=inf compute_mode=None", "x1=[2,9] x2=[n,9] p=0.0 compute_mode=2",
            "x1=[5,n] x2=[4,n] p=1.5 compute_mode=1")
TD_DISTANCE(cdist, "cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor",
            TD_SETS, rule_sets, 0, "x1=[n,7] x2=[m,7]", "x1=[3,1,5,n] x2=[2,9,n] p=1.0")
TD_DISTANCE(_pdist_forward, "_pdist_forward(Tensor self, float p=2.) -> Tensor", TD_PAIRS,
            rule_pairs, TD_MAX_RANK, "self=[n,5]", "self=[6,n] p=1.0", "self=[67,3] p=3.0")
TD_DISTANCE(pdist, "pdist(Tensor self, float p=2.) -> Tensor", TD_PAIRS, rule_pairs, TD_MAX_RANK,
            "self=[n,5]", "self=[6,n] p=1.0")
