/* embedding_bag in ATen's four forms: rows of a table, added up, averaged or compared by bags. The
 * results besides are what ATen's CPU kernels give, down to what they leave empty. */
#include "kernels/bag/bag.h"

#include "kernels/backward.h"
#include "kernels/elementwise.h"

#include <errno.h>

static bool wraps(const struct td_call *call) /* a negative padding_idx counts from the end */
{
    return call->op->family;
}

static int64_t bags_of(const struct td_call *call)
{
    return td_numel(&call->arg[2].tensor) - call->arg[7].i;
}

struct td_bag td_bag_of(const struct td_call *call)
{
    const struct td_value *padding = &call->arg[8]; /* where the overload has it */
    struct td_bag b = {.weight = &call->arg[0].tensor,
                       .indices = &call->arg[1].tensor,
                       .offsets = &call->arg[2].tensor,
                       .factors = td_arg(call, 6),
                       .out = &call->out[0],
                       .of_index = call->out[1],
                       .sizes = call->out[2],
                       .largest = call->out[3],
                       .mode = (enum td_bag_mode)call->arg[4].i,
                       .bags = bags_of(call),
                       .indexed = td_numel(&call->arg[1].tensor),
                       .width = call->arg[0].tensor.shape[1],
                       .padding = -1};
    if (call->n_args > 8 && padding->kind == TD_KIND_int) {
        b.padding = padding->i;
        if (b.padding < 0 && wraps(call))
            b.padding += b.weight->shape[0];
    }
    return b;
}

struct td_bag_span td_bag_at(const struct td_bag *b, int64_t bag)
{
    bool last = bag + 1 == td_numel(b->offsets);
    return (struct td_bag_span){td_get_whole(b->offsets, bag),
                                last ? b->indexed : td_get_whole(b->offsets, bag + 1)};
}

static int rule_numbers(struct td_call *call)
{
    const struct td_tensor *weight = &call->arg[0].tensor;
    int64_t mode = call->arg[4].i;
    if (mode < 0 || mode > 2)
        return td_refuse(call, "mode: is %lld; 0 for sum, 1 for mean or 2 for max is right",
                         (long long)mode);
    if (td_arg(call, 6) && mode)
        return td_refuse(call, "per_sample_weights: are for mode 0, sum, only");
    if (bags_of(call) < 0)
        return td_refuse(call, "offsets: is empty; with include_last_offset one is needed");
    if (wraps(call) && call->arg[8].kind == TD_KIND_int &&
        (call->arg[8].i < -weight->shape[0] || call->arg[8].i >= weight->shape[0]))
        return td_refuse(call, "padding_idx: is %lld; a row of weight, from %lld to %lld, is right",
                         (long long)call->arg[8].i, (long long)-weight->shape[0],
                         (long long)weight->shape[0] - 1);
    return 0;
}

/* Sums of FP32 and halves without a padding are made by other code there, which tells no bags. */
static void fill_out(struct td_call *call)
{
    struct td_bag b;
    call->n_out = 4;
    for (int i = 1; i < 4; i++)
        call->out[i] = (struct td_tensor){
            .dtype = td_dtype_join(call->arg[1].tensor.dtype | call->arg[2].tensor.dtype),
            .rank = 1,
            .shape = {bags_of(call)}};
    call->out[0] = (struct td_tensor){.dtype = call->arg[0].tensor.dtype,
                                      .rank = 2,
                                      .shape = {bags_of(call), call->arg[0].tensor.shape[1]}};
    b = td_bag_of(call);
    bool tells = b.mode || b.weight->dtype == TD_f64 || b.padding >= 0;
    call->out[1].shape[0] = tells ? b.indexed : 0;
    if (b.mode == TD_BAG_max) {
        call->out[3].rank = 2;
        call->out[3].shape[1] = b.width;
    }
}

static int rule(struct td_call *call)
{
    const struct td_tensor *weight = &call->arg[0].tensor;
    if (weight->rank != 2)
        return td_refuse(call, "weight: has %d dimensions; two are right", weight->rank);
    int err = td_rule_whole(call, 1, "indices");
    err = err ? err : td_rule_whole(call, 2, "offsets");
    err = err ? err : td_rule_type(call, 6, "per_sample_weights");
    err = err ? err
              : td_rule_shape(call, 6, "per_sample_weights", "indices'", 1,
                              call->arg[1].tensor.shape);
    err = err ? err : rule_numbers(call);
    if (!err)
        fill_out(call);
    return err;
}

static int check(const struct td_call *call)
{
    struct td_bag b = td_bag_of(call);
    int64_t rows = b.weight->shape[0], n = td_numel(b.offsets), before = 0;
    for (int64_t i = 0; i < b.indexed; i++) {
        int64_t index = td_get_whole(b.indices, i);
        if (index < 0 || index >= rows)
            return td_refuse(call, "indices: element %lld is %lld; from 0 to %lld is right",
                             (long long)i, (long long)index, (long long)rows - 1);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t offset = td_get_whole(b.offsets, i);
        if (i ? offset < before || offset > b.indexed : offset != 0)
            return td_refuse(call,
                             "offsets: element %lld is %lld; 0, and then from the one before, "
                             "%lld, to the %lld indices is right",
                             (long long)i, (long long)offset, (long long)before,
                             (long long)b.indexed);
        before = offset;
    }
    if (call->arg[7].i && before != b.indexed)
        return td_refuse(call,
                         "offsets: the last is %lld; with include_last_offset %lld, as many "
                         "as there are indices, is right",
                         (long long)before, (long long)b.indexed);
    return 0;
}

static double flops(const struct td_call *call)
{
    return 4 * ((double)td_numel(&call->arg[1].tensor) + (double)bags_of(call)) *
           (double)(call->arg[0].tensor.shape[1] + 1);
}

td_kernel td_bag_ref;
TD_KERNELS_3(bag);

static const struct td_impl impls[] = {
    TD_SIMD_3(bag, TD_FLOATS) TD_REF(bag),
    {0},
};

#define TD_BAG(symbol, text, negative, ...)                                                        \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text "-> (Tensor, Tensor, Tensor, Tensor)",                                      \
        .doc =                                                                                     \
            "out[i] = the sum, mean or largest of the rows weight[indices[offsets[i]:offsets[i "   \
            "+ 1]]]; out1: each index's bag, out2: bags' sizes, out3: the rows of the largest",    \
        .rule = rule,                                                                              \
        .dtypes = TD_FLOATS,                                                                       \
        .unpromoted = 6,                                                                           \
        .ulp = 4,                                                                                  \
        .sums = true,                                                                              \
        .impls = impls,                                                                            \
        .flops = flops,                                                                            \
        .follows = 6,                                                                              \
        .check = check,                                                                            \
        .mixes = TD_MAX_RANK,                                                                      \
        .family = negative,                                                                        \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
    };
#define TD_BAG_SAMPLES(more)                                                                       \
    "weight=[9,n] indices=[m]:i64<9 offsets=[3]:i64<1" more,                                       \
        "weight=[n,7] indices=[m]:i32<n offsets=[1]:i32<1 mode=1" more,                            \
        "weight=[n,m] indices=[5]:i64<n offsets=[2]:i64<1 mode=2" more,                            \
        "weight=[4,n] indices=[m]:i64<4 offsets=[2]:i64<1 per_sample_weights=[m]" more
#define TD_BAG_FORM                                                                                \
    "(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, "  \
    "bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False"

TD_BAG(embedding_bag, "embedding_bag" TD_BAG_FORM ") ", NULL, TD_BAG_SAMPLES(""))
TD_BAG(embedding_bag_padding_idx,
       "embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool "
       "scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, bool "
       "include_last_offset, int? padding_idx) ",
       "wraps",
       "weight=[9,n] indices=[m]:i64<9 offsets=[3]:i64<1 scale_grad_by_freq=False mode=1 "
       "sparse=False per_sample_weights=None include_last_offset=False padding_idx=-1")
TD_BAG(_embedding_bag, "_embedding_bag" TD_BAG_FORM ", int padding_idx=-1) ", NULL,
       TD_BAG_SAMPLES(" padding_idx=2"))
TD_BAG(_embedding_bag_forward_only,
       "_embedding_bag_forward_only" TD_BAG_FORM ", int padding_idx=-1) ", NULL, TD_BAG_SAMPLES(""))
