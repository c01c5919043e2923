/* searchsorted and bucketize: where values would come in sequences that are in order. */
#include "kernels/search/search.h"

#include "kernels/elementwise.h"

#include <errno.h>
#include <math.h>
#include <string.h>

struct places { /* td_op.family: among the arguments; -1 for none */
    int sequence, values, narrow, right, side, sorter;
};

static const struct places *places(const struct td_call *call)
{
    return call->op->family;
}

static const struct td_tensor *sequence_of(const struct td_call *call)
{
    return &call->arg[places(call)->sequence].tensor;
}

/* A number as the sequence's type has it; beside whole ones the next whole one that is found in the
 * same place. */
static void take_number(struct td_search *s, const struct td_value *v)
{
    uint64_t room = 0;
    struct td_tensor one = {.dtype = s->sequence->dtype, .data = &room};
    struct td_value next = {.kind = TD_KIND_float, .f = td_scalar(v)};
    if (td_dtype_kind(one.dtype) == 'f') {
        td_put_real(&one, 0, next.f);
        s->real = td_get_real(&one, 0);
        return;
    }
    next.f = s->right ? floor(next.f) : ceil(next.f);
    s->whole = td_scalar_int(v->kind == TD_KIND_float ? &next : v);
    if (v->wide && one.dtype != TD_u64) { /* above all that it is compared with */
        s->whole = INT64_MAX;
        s->right = true;
    }
}

struct td_search td_search_of(const struct td_call *call)
{
    const struct places *p = places(call);
    const struct td_value *values = &call->arg[p->values];
    const struct td_value *side = p->side < 0 ? NULL : &call->arg[p->side];
    struct td_search s = {.sequence = sequence_of(call),
                          .sorter = p->sorter < 0 ? NULL : td_arg(call, p->sorter),
                          .values = td_arg(call, p->values),
                          .out = &call->out[0],
                          .each = INT64_MAX,
                          .right = call->arg[p->right].i};
    if (side && side->kind == TD_KIND_str)
        s.right = !strcmp(side->str, "right");
    s.size = s.sequence->shape[s.sequence->rank - 1];
    if (s.sequence->rank > 1)
        s.each = s.out->shape[s.out->rank - 1];
    if (!s.values)
        take_number(&s, values);
    return s;
}

static int rule_words(struct td_call *call)
{
    const struct places *p = places(call);
    const struct td_value *side = p->side < 0 ? NULL : &call->arg[p->side];
    if (!side || side->kind != TD_KIND_str)
        return 0;
    if (strcmp(side->str, "left") && strcmp(side->str, "right"))
        return td_refuse(call, "side: is '%.40s'; left or right is right", side->str);
    if (call->arg[p->right].i && !strcmp(side->str, "left"))
        return td_refuse(call, "side: is left, but right is true; only one can be");
    return 0;
}

static int rule_sorter(struct td_call *call)
{
    const struct places *p = places(call);
    const struct td_tensor *t = sequence_of(call), *sorter = NULL;
    if (p->sorter < 0 || !(sorter = td_arg(call, p->sorter)))
        return 0;
    bool same = sorter->rank == t->rank && sorter->dtype == TD_i64;
    for (int d = 0; same && d < t->rank; d++)
        same = sorter->shape[d] == t->shape[d];
    return same ? 0 : td_refuse(call, "sorter: must be INT64 and of the shape of sorted_sequence");
}

static int rule(struct td_call *call)
{
    const struct places *p = places(call);
    const struct td_tensor *t = sequence_of(call);
    const struct td_value *values = &call->arg[p->values];
    const char *name = p->sequence ? "boundaries" : "sorted_sequence";
    struct td_tensor *out = &call->out[0];
    *out = (struct td_tensor){0};
    if (values->kind == TD_KIND_tensor)
        *out = values->tensor;
    out->weight = NULL;
    out->dtype = call->arg[p->narrow].i ? TD_i32 : TD_i64;
    call->n_out = 1;
    bool right = t->rank == 1 || (t->rank && t->rank == out->rank && !p->sequence);
    for (int d = 0; right && t->rank > 1 && d < t->rank - 1; d++)
        right = t->shape[d] == out->shape[d];
    if (!right)
        return td_refuse(call, "%s: must have one dimension%s", name,
                         p->sequence ? "" : ", or self's but for the size of the last");
    if (out->dtype == TD_i32 && t->shape[t->rank - 1] > INT32_MAX)
        return td_refuse(call, "out_int32: is true, but places may be beyond INT32");
    int err = rule_words(call);
    return err ? err : rule_sorter(call);
}

static int check(const struct td_call *call)
{
    const struct td_tensor *sorter =
        places(call)->sorter < 0 ? NULL : td_arg(call, places(call)->sorter);
    int64_t n = sorter ? td_numel(sorter) : 0, size = n ? sorter->shape[sorter->rank - 1] : 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t index = ((const int64_t *)sorter->data)[i];
        if (index < 0 || index >= size)
            return td_refuse(call, "sorter: element %lld is %lld; from 0 to %lld is right",
                             (long long)i, (long long)index, (long long)size - 1);
    }
    return 0;
}

static double flops(const struct td_call *call)
{
    const struct td_tensor *t = sequence_of(call);
    return (double)td_numel(&call->out[0]) * 4 * (2 + log2(1 + (double)t->shape[t->rank - 1]));
}

td_kernel td_search_ref, td_search_default;

static const struct td_impl impls[] = {
    TD_SIMD(default, search, TD_INTS | TD_FLOATS) TD_REF(search),
    {0},
};

#define TD_SEARCH(symbol, text, formula, promotion, bits, place, ...)                              \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = formula,                                                                            \
        .rule = rule,                                                                              \
        .promote = TD_PROMOTE_##promotion,                                                         \
        .unpromoted = bits,                                                                        \
        .dtypes = TD_INTS | TD_FLOATS,                                                             \
        .impls = impls,                                                                            \
        .flops = flops,                                                                            \
        .follows = bits,                                                                           \
        .check = (bits) ? check : NULL,                                                            \
        .mixes = TD_MAX_RANK,                                                                      \
        .family = &(const struct places)place,                                                     \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
    };
#define PLACES(...)                                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define TD_HOW ", *, bool out_int32=False, bool right=False"
#define TD_SORTED TD_HOW ", str? side=None, Tensor? sorter=None) -> Tensor"
#define TD_WHERE                                                                                   \
    "out = how many elements of its sequence, the last dimension, come before each value: those "  \
    "that are smaller, or as large, too, where right is true or side 'right'"
TD_SEARCH(searchsorted_Tensor, "searchsorted.Tensor(Tensor sorted_sequence, Tensor self" TD_SORTED,
          TD_WHERE, arith, 1 << 5, PLACES(0, 1, 2, 3, 4, 5), "sorted_sequence=[n] self=[m,3]",
          "sorted_sequence=[3,n] self=[3,m] right=True",
          "sorted_sequence=[n] self=[m] side=right sorter=[n]:i64<n",
          "sorted_sequence=[m] self=[n] out_int32=True")
TD_SEARCH(searchsorted_Scalar, "searchsorted.Scalar(Tensor sorted_sequence, Scalar self" TD_SORTED,
          TD_WHERE, none, 1 << 5, PLACES(0, 1, 2, 3, 4, 5), "sorted_sequence=[n] self=1.5",
          "sorted_sequence=[n] self=3 side=right")
TD_SEARCH(bucketize_Tensor, "bucketize.Tensor(Tensor self, Tensor boundaries" TD_HOW ") -> Tensor",
          TD_WHERE, arith, 0, PLACES(1, 0, 2, 3, -1, -1), "self=[m,n] boundaries=[9]",
          "self=[n] boundaries=[m] right=True out_int32=True")
TD_SEARCH(bucketize_Scalar, "bucketize.Scalar(Scalar self, Tensor boundaries" TD_HOW ") -> Tensor",
          TD_WHERE, none, 0, PLACES(1, 0, 2, 3, -1, -1), "self=2 boundaries=[n]")
