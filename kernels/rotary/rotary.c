/* rotary_embedding, as ONNX's RotaryEmbedding has it: pairs of elements of each head are turned by
 * the angles of its step. */
#include "kernels/rotary/rotary.h"

#include "kernels/backward.h"
#include "kernels/elementwise.h"

#include <errno.h>

enum { X, COSINE, SINE, POSITIONS, PAIRED, HEADS, DEPTH };

struct td_rotary td_rotary_of(const struct td_call *call)
{
    const struct td_tensor *x = td_arg(call, X);
    bool flat = x->rank == 3; /* [batch, steps, heads * depth] */
    struct td_rotary r = {.x = x,
                          .cosine = td_arg(call, COSINE),
                          .sine = td_arg(call, SINE),
                          .positions = td_arg(call, POSITIONS),
                          .out = &call->out[0],
                          .batch = x->shape[0],
                          .heads = flat ? call->arg[HEADS].i : x->shape[1],
                          .steps = x->shape[flat ? 1 : 2],
                          .paired = call->arg[PAIRED].i,
                          .steps_first = flat};
    r.depth = flat ? x->shape[2] / r.heads : x->shape[3];
    r.half = (call->arg[DEPTH].i ? call->arg[DEPTH].i : r.depth) / 2;
    return r;
}

int64_t td_rotary_angle(const struct td_rotary *r, int64_t row)
{
    int64_t step = r->steps_first ? row / r->heads % r->steps : row % r->steps;
    int64_t batch = row / (r->heads * r->steps), at = batch * r->steps + step;
    return r->positions ? td_get_whole(r->positions, at) : at;
}

static int rule_sizes(struct td_call *call)
{
    const struct td_tensor *x = td_arg(call, X);
    int64_t heads = call->arg[HEADS].i, depth = call->arg[DEPTH].i;
    if (x->rank != 3 && x->rank != 4)
        return td_refuse(call,
                         "X: has %d dimensions; batch, heads, steps and elements, or batch, "
                         "steps and all heads' elements are right",
                         x->rank);
    if (x->rank == 3 && (heads < 1 || x->shape[2] % heads))
        return td_refuse(call,
                         "num_heads: is %lld; a divisor of the %lld elements of a step is "
                         "right",
                         (long long)heads, (long long)x->shape[2]);
    int64_t own = x->rank == 3 ? x->shape[2] / heads : x->shape[3];
    if (depth < 0 || depth > own || (depth ? depth : own) % 2)
        return td_refuse(call,
                         "rotary_embedding_dim: is %lld; an even number up to the %lld of a "
                         "head, or 0 for all of these where they are even, is right",
                         (long long)depth, (long long)own);
    return 0;
}

static int rule(struct td_call *call)
{
    static const char *const names[] = {"cos_cache", "sin_cache"};
    const struct td_tensor *positions = td_arg(call, POSITIONS), *cosine = td_arg(call, COSINE);
    int err = rule_sizes(call);
    if (err)
        return err;
    struct td_rotary r = td_rotary_of(call);
    int64_t each[] = {r.batch, r.steps, r.half}, table[] = {cosine->shape[0], r.half};
    if (positions && positions->dtype != TD_i64)
        return td_refuse(call, "position_ids: is %s; INT64 is right",
                         td_dtype_name(positions->dtype));
    if (positions && !cosine->rank)
        return td_refuse(call, "cos_cache: has no dimensions; two are right");
    err = td_rule_shape(call, POSITIONS, "position_ids", "X's batch and steps", 2, each);
    for (int i = 0; i < 2 && !err; i++) {
        err = td_rule_type(call, COSINE + i, names[i]);
        if (!err && positions)
            err = td_rule_shape(call, COSINE + i, names[i], "positions and half of what is turned",
                                2, table);
        else if (!err)
            err = td_rule_shape(call, COSINE + i, names[i],
                                "X's batch and steps, and half of what is turned", 3, each);
    }
    td_rule_unary(call);
    return err;
}

static int check(const struct td_call *call)
{
    const struct td_tensor *positions = td_arg(call, POSITIONS);
    int64_t all = td_arg(call, COSINE)->shape[0];
    for (int64_t i = 0; positions && i < td_numel(positions); i++) {
        int64_t at = ((const int64_t *)positions->data)[i];
        if (at < 0 || at >= all)
            return td_refuse(call, "position_ids: element %lld is %lld; from 0 to %lld is right",
                             (long long)i, (long long)at, (long long)all - 1);
    }
    return 0;
}

static double flops(const struct td_call *call)
{
    return 6 * (double)td_numel(&call->out[0]);
}

td_kernel td_rotary_ref;
TD_KERNELS_3(rotary);

static const struct td_impl impls[] = {
    TD_SIMD_3(rotary, TD_FLOATS, .in_place = 1) TD_REF(rotary),
    {0},
};

const struct td_op td_op_rotary_embedding = {
    .schema = "rotary_embedding(Tensor X, Tensor cos_cache, Tensor sin_cache, Tensor? "
              "position_ids=None, bool interleaved=False, int num_heads=0, int "
              "rotary_embedding_dim=0) -> Tensor",
    .doc = "ONNX's RotaryEmbedding: out = X, but of each head at each step pairs (a, b) become "
           "(a * cos - b * sin, a * sin + b * cos); pairs lie half of rotary_embedding_dim apart, "
           "or side by side where interleaved",
    .rule = rule,
    .dtypes = TD_FLOATS,
    .ulp = 2,
    .sums = true,
    .impls = impls,
    .flops = flops,
    .follows = 1 << POSITIONS,
    .check = check,
    .mixes = TD_MAX_RANK,
    .samples = (const char *const[]){"X=[2,3,n,8] cos_cache=[2,n,4] sin_cache=[2,n,4]",
                                     "X=[2,n,24] cos_cache=[m,4] sin_cache=[m,4] "
                                     "position_ids=[2,n]:i64<m interleaved=True num_heads=3",
                                     "X=[1,2,n,40] cos_cache=[1,n,17] sin_cache=[1,n,17] "
                                     "rotary_embedding_dim=34",
                                     "X=[1,2,3,600] cos_cache=[1,3,300] sin_cache=[1,3,300]", NULL},
};
