/* seq_pool and crf_decode: what sequences of different lengths are added up to, and the best path
 * of tags through each. They are Paddle's: SeqPool and CRFDecoding of its JIT, the latter with the
 * way back. */
#include "kernels/sequence/sequence.h"

#include "kernels/backward.h"
#include "kernels/elementwise.h"
#include "kernels/sizes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool decodes(const struct td_call *call)
{
    return call->op->family;
}

static int lengths_at(const struct td_call *call)
{
    return decodes(call) ? 2 : 1;
}

static enum td_pooled pooled(const char *mode)
{
    static const char *const modes[] = {"sum", "mean", "sqrt"};
    int i = 0;
    while (i < TD_POOLED_none && strcmp(mode, modes[i]) != 0)
        i++;
    return strcmp(mode, "avg") ? (enum td_pooled)i : TD_POOLED_mean;
}

struct td_sequences td_sequences_of(const struct td_call *call, void *scratch)
{
    const struct td_tensor *x = td_arg(call, 0), *lengths = td_arg(call, lengths_at(call));
    struct td_sequences s = {.x = x,
                             .weights = decodes(call) ? td_arg(call, 1) : NULL,
                             .lengths = lengths,
                             .out = &call->out[0],
                             .scores = &call->out[1],
                             .n = lengths ? lengths->shape[0] : 1,
                             .steps = x->shape[0],
                             .width = x->rank > 1 ? x->shape[1] : 1};
    for (int d = 2; d < x->rank; d++)
        s.width *= x->shape[d];
    if (!decodes(call))
        s.how = pooled(call->arg[2].str);
    s.stride = (s.width + 7) / 8 * 8;
    if (!scratch)
        return s;
    s.begin = scratch;
    s.best = (double *)(s.begin + s.n + 1);
    s.table = s.best + s.steps * s.width;
    s.from = (int32_t *)(s.table + (s.width + 2) * s.stride);
    s.begin[0] = 0;
    for (int64_t i = 0; i < s.n; i++)
        s.begin[i + 1] = lengths ? s.begin[i] + td_get_whole(lengths, i) : s.steps;
    return s;
}

/* ---- rules ---- */

static int rule_pool(struct td_call *call)
{
    const struct td_tensor *x = td_arg(call, 0), *lengths = td_arg(call, 1);
    if (!x->rank)
        return td_refuse(call, "self: has no dimensions; steps, and then what is added up, are "
                               "right");
    int err = td_rule_whole(call, 1, "lengths");
    if (!err && pooled(call->arg[2].str) == TD_POOLED_none)
        return td_refuse(call, "mode: is '%.40s'; sum, mean (or avg) or sqrt is right",
                         call->arg[2].str);
    td_rule_unary(call);
    call->out[0].shape[0] = err || !lengths ? 1 : lengths->shape[0];
    return err;
}

static int rule_decode(struct td_call *call)
{
    const struct td_tensor *x = td_arg(call, 0), *lengths = td_arg(call, 2);
    if (x->rank != 2 || x->shape[1] < 1)
        return td_refuse(call,
                         "emissions: has %d dimensions, and rows of %lld; steps and one or more "
                         "tags are right",
                         x->rank, x->rank ? (long long)x->shape[x->rank - 1] : 1);
    int64_t table[] = {0, x->shape[1]};
    int err =
        td_size_plus(x->shape[1], 2, &table[0]) ? td_rule_type(call, 1, "transitions") : -EINVAL;
    err = err ? err
              : td_rule_shape(call, 1, "transitions",
                              "a row to start, one to stop, and one from each of emissions' tags",
                              2, table);
    err = err ? err : td_rule_whole(call, 2, "lengths");
    if (err)
        return err;
    call->out[0] = (struct td_tensor){.dtype = TD_i64, .rank = 1, .shape = {x->shape[0]}};
    call->out[1] = (struct td_tensor){
        .dtype = x->dtype, .rank = 1, .shape = {lengths ? lengths->shape[0] : 1}};
    call->n_out = 2;
    return 0;
}

static int check(const struct td_call *call)
{
    const struct td_tensor *lengths = td_arg(call, lengths_at(call));
    int64_t steps = td_arg(call, 0)->shape[0], sum = 0;
    for (int64_t i = 0; lengths && i < lengths->shape[0]; i++) {
        int64_t length = td_get_whole(lengths, i);
        if (length < 0 || length > steps - sum)
            return td_refuse(call,
                             "lengths: element %lld is %lld; from 0 to the %lld steps that are "
                             "left of %lld is right",
                             (long long)i, (long long)length, (long long)(steps - sum),
                             (long long)steps);
        sum += length;
    }
    return !lengths || sum == steps
               ? 0
               : td_refuse(call, "lengths: add up to %lld; all %lld steps are right",
                           (long long)sum, (long long)steps);
}

static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_sequences s = td_sequences_of(call, NULL);
    size_t each = (size_t)s.steps * (size_t)s.width;
    prepared->scratch = sizeof(int64_t) * (size_t)(s.n + 1);
    if (s.weights)
        prepared->scratch += sizeof(double) * (each + (size_t)(s.width + 2) * (size_t)s.stride) +
                             sizeof(int32_t) * each;
    return NULL;
}

static double flops_pool(const struct td_call *call)
{
    return (double)td_numel(td_arg(call, 0)) + (double)td_numel(&call->out[0]);
}

static double flops_decode(const struct td_call *call)
{
    return 3 * (double)td_numel(td_arg(call, 0)) * (double)td_arg(call, 0)->shape[1];
}

td_kernel td_sequence_ref;
TD_KERNELS_3(sequence);

static const struct td_impl impls[] = {
    TD_SIMD_3(sequence, TD_FLOATS, .prepare = prepare) TD_REF(sequence, .prepare = prepare),
    {0},
};

const struct td_op td_op_seq_pool = {
    .schema = "seq_pool(Tensor self, Tensor? lengths=None, *, str mode='sum') -> Tensor",
    .doc = "Paddle's SeqPool: out[i] = the sum of the next lengths[i] rows of self, divided by "
           "lengths[i] for mean (avg), by its square root for sqrt; of none it is 0; without "
           "lengths all rows are one sequence",
    .rule = rule_pool,
    .dtypes = TD_FLOATS,
    .ulp = 4,
    .sums = true,
    .impls = impls,
    .flops = flops_pool,
    .follows = 1 << 1,
    .check = check,
    .mixes = TD_MAX_RANK,
    .samples = (const char *const[]){"self=[n,m]", "self=[n] mode=mean", "self=[n,2,m] mode=sqrt",
                                     "self=[0,m] lengths=[n]:i32<1 mode=mean",
                                     "self=[5,600] mode=avg", NULL},
};

const struct td_op td_op_crf_decode = {
    .schema = "crf_decode(Tensor emissions, Tensor transitions, Tensor? lengths=None) -> (Tensor "
              "path, Tensor scores)",
    .doc = "Viterbi, as Paddle's CRFDecoding with the way back: a[0] = transitions[0] + "
           "emissions[0], a[k][i] = max over j of (a[k - 1][j] + transitions[2 + j][i]) + "
           "emissions[k][i], and the best of a[last] + transitions[1] is a sequence's score, whose "
           "tags are its path; of equal ones the first is taken; sequences are the next lengths[i] "
           "steps each, or all",
    .rule = rule_decode,
    .dtypes = TD_FLOATS,
    .ulp = 1,
    .impls = impls,
    .flops = flops_decode,
    .follows = 1 << 2,
    .check = check,
    .mixes = TD_MAX_RANK,
    .family = "decodes",
    .samples = (const char *const[]){"emissions=[n,5] transitions=[7,5]",
                                     "emissions=[m,1] transitions=[3,1]",
                                     "emissions=[0,3] transitions=[5,3] lengths=[n]:i32<1",
                                     "emissions=[n,17] transitions=[19,17]",
                                     "emissions=[4,100] transitions=[102,100]", NULL},
};
