/* nonzero, masked_select and masked_scatter: descriptors, rules, and the check that a source has as
 * many elements as the mask asks for. */
#include "kernels/mask/mask.h"
#include "kernels/dims.h"

#include <errno.h>
#include <string.h>

void td_mask_steps(const struct td_tensor *t, const struct td_tensor *like,
                   int64_t step[TD_MAX_RANK])
{
    int64_t all = 1;
    for (int d = like->rank - 1, k = t->rank - 1; d >= 0; d--, k--) {
        step[d] = k >= 0 && t->shape[k] != 1 ? all : 0;
        all *= k >= 0 ? t->shape[k] : 1;
    }
}

bool td_mask_is_set(const struct td_tensor *t, int64_t i)
{
    switch (td_dtype_size(t->dtype)) {
    case 1:
        return ((const uint8_t *)t->data)[i];
    case 2: {
        uint16_t bits = ((const uint16_t *)t->data)[i];
        return td_dtype_kind(t->dtype) == 'f' ? bits & 0x7fff : bits;
    }
    case 4: {
        uint32_t bits = ((const uint32_t *)t->data)[i];
        return td_dtype_kind(t->dtype) == 'f' ? bits & 0x7fffffff : bits;
    }
    default: {
        uint64_t bits = ((const uint64_t *)t->data)[i];
        return td_dtype_kind(t->dtype) == 'f' ? bits << 1 : bits;
    }
    }
}

struct td_tensor td_mask_common(const struct td_call *call)
{
    struct td_tensor all = call->arg[0].tensor;
    int64_t other;
    td_broadcast(&all, &call->arg[1].tensor, &other);
    return all;
}

static int judged_mask(struct td_call *call, struct td_tensor *all)
{
    const struct td_tensor *mask = &call->arg[1].tensor;
    *all = call->arg[0].tensor;
    if (mask->dtype != TD_bool)
        return td_refuse(call, "mask: is %s; BOOL is right", td_dtype_name(mask->dtype));
    int64_t other;
    int d = td_broadcast(all, mask, &other);
    if (d >= 0)
        return td_refuse(call, "mask: size %lld does not broadcast with self's %lld",
                         (long long)mask->shape[d], (long long)other);
    return td_fits(all) ? 0 : td_refuse(call, "mask: with self it is too large");
}

static int rule_nonzero(struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor;
    call->n_out = 1;
    call->counted = 1;
    call->counted_dim = 0;
    call->out[0] =
        (struct td_tensor){.dtype = TD_i64, .rank = 2, .shape = {td_numel(self), self->rank}};
    return 0;
}

static int rule_select(struct td_call *call)
{
    struct td_tensor all;
    int err = judged_mask(call, &all);
    call->n_out = 1;
    call->counted = 1;
    call->counted_dim = 0;
    call->out[0] =
        (struct td_tensor){.dtype = all.dtype, .rank = 1, .shape = {err ? 0 : td_numel(&all)}};
    return err;
}

static int rule_scatter(struct td_call *call)
{
    const struct td_tensor *source = &call->arg[2].tensor;
    int err = judged_mask(call, &call->out[0]);
    call->n_out = 1;
    if (!err && source->dtype != call->out[0].dtype)
        err = td_refuse(call, "source: is %s, but self is %s; the same is right",
                        td_dtype_name(source->dtype), td_dtype_name(call->out[0].dtype));
    return err;
}

static int check_scatter(const struct td_call *call)
{
    const struct td_tensor *mask = &call->arg[1].tensor;
    int64_t n = td_numel(mask), set = 0, have = td_numel(&call->arg[2].tensor);
    for (int64_t i = 0; i < n; i++)
        set += ((const uint8_t *)mask->data)[i];
    set *= n ? td_numel(&call->out[0]) / n : 0;
    return set <= have ? 0
                       : td_refuse(call,
                                   "source: has %lld elements, but the mask sets %lld; at least as "
                                   "many are right",
                                   (long long)have, (long long)set);
}

static double flops(const struct td_call *call)
{
    double n = (double)td_numel(&call->out[0]);
    return 8 * n + (call->n_args == 1 ? 8 * (double)td_numel(&call->arg[0].tensor) : 0);
}

td_kernel td_nonzero_ref, td_masked_select_ref, td_masked_scatter_ref;
td_kernel td_nonzero_default, td_masked_select_default, td_masked_scatter_default;

#define TD_MASKED(what)                                                                            \
    static const struct td_impl what##_impls[] = {                                                 \
        TD_SIMD(default, what, TD_ALL) TD_REF(what),                                               \
        {0},                                                                                       \
    }

TD_MASKED(nonzero);
TD_MASKED(masked_select);
TD_MASKED(masked_scatter);

#define TD_PLACES(name)                                                                            \
    const struct td_op td_op_##name = {                                                            \
        .schema = #name "(Tensor self) -> Tensor",                                                 \
        .doc = "out[i] = where the i-th element of self is that is not 0",                         \
        .rule = rule_nonzero,                                                                      \
        .dtypes = TD_ALL,                                                                          \
        .impls = nonzero_impls,                                                                    \
        .flops = flops,                                                                            \
        .follows = 1,                                                                              \
        .samples =                                                                                 \
            (const char *const[]){"self=[n,m]:bool", "self=[n]", "self=[2,n,3]", "self=[]", NULL}, \
    };
TD_PLACES(nonzero)
TD_PLACES(argwhere)
const struct td_op td_op_masked_select = {
    .schema = "masked_select(Tensor self, Tensor mask) -> Tensor",
    .doc = "out = the elements of self where mask is true, one behind the other",
    .rule = rule_select,
    .dtypes = TD_ALL,
    .impls = masked_select_impls,
    .flops = flops,
    .unpromoted = 2,
    .follows = 2,
    .samples = (const char *const[]){"self=[n,m] mask=[n,m]:bool", "self=[n,m] mask=[m]:bool",
                                     "self=[m] mask=[n,1]:bool", NULL},
};
const struct td_op td_op_masked_scatter = {
    .schema = "masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
    .doc = "out = self, but where mask is true the next element of source",
    .rule = rule_scatter,
    .dtypes = TD_ALL,
    .impls = masked_scatter_impls,
    .flops = flops,
    .unpromoted = 2,
    .follows = 2,
    .check = check_scatter,
    .mixes = TD_MAX_RANK,
    .samples = (const char *const[]){"self=[n,m] mask=[n,m]:bool source=[n,m]",
                                     "self=[n,m] mask=[m]:bool source=[n,m]", NULL},
};
