/* The descriptors of the index family, made from index.def, and what their rows ask of a call. */
#include "kernels/index/index.h"

#include "kernels/elementwise.h"

#include <math.h>
#include <string.h>

static const struct td_value *last_bool(const struct td_call *call)
{
    const struct td_value *last = &call->arg[call->n_args - 1];
    return last->kind == TD_KIND_bool ? last : NULL;
}

static const char *reduce_of(const struct td_call *call)
{
    for (int i = 0; i < call->n_args; i++)
        if (call->arg[i].kind == TD_KIND_str)
            return call->arg[i].str;
    return NULL;
}

enum td_index_way td_index_way(const struct td_call *call)
{
    static const struct {
        const char *name;
        enum td_index_way way;
    } words[] = {{"add", TD_INDEX_add},  {"multiply", TD_INDEX_mul}, {"sum", TD_INDEX_add},
                 {"prod", TD_INDEX_mul}, {"amin", TD_INDEX_min},     {"amax", TD_INDEX_max},
                 {"mean", TD_INDEX_mean}};
    const struct td_index *family = call->op->family;
    const char *reduce = reduce_of(call);
    if (family->way != TD_INDEX_said)
        return family->way;
    if (!reduce)
        return last_bool(call)->i ? TD_INDEX_add : TD_INDEX_write; /* accumulate */
    size_t i = 0;
    while (strcmp(words[i].name, reduce)) /* the rule has found it */
        i++;
    return words[i].way;
}

bool td_index_keeps_self(const struct td_call *call)
{
    return !reduce_of(call) || !last_bool(call) || last_bool(call)->i; /* include_self */
}

void td_index_neutral(enum td_index_way way, enum td_dtype dtype, uint64_t *room)
{
    struct td_tensor one = {.data = room, .dtype = dtype};
    bool least = way == TD_INDEX_max;
    *room = 0;
    if (way != TD_INDEX_max && way != TD_INDEX_min)
        td_put_whole(&one, 0, way == TD_INDEX_mul);
    else if (td_dtype_kind(dtype) == 'f')
        td_put_real(&one, 0, least ? -(double)INFINITY : (double)INFINITY);
    else if (td_dtype_kind(dtype) != 'i')
        td_put_whole(&one, 0, least ? 0 : -1);
    else
        td_put_whole(&one, 0, (int64_t)(((uint64_t)1 << (8 * td_dtype_size(dtype) - 1)) - !least));
}

struct td_tensor td_index_source(const struct td_call *call, uint64_t *room)
{
    static const struct td_value one = {.kind = TD_KIND_int, .i = 1};
    const struct td_value *v = td_index_arg(call, 3);
    struct td_tensor t = {.dtype = call->out[0].dtype, .data = room};
    if (v->kind == TD_KIND_tensor && v->tensor.dtype == t.dtype)
        return v->tensor;
    *room = 0;
    if (v->kind == TD_KIND_tensor) { /* one number, in another type */
        if (td_dtype_kind(t.dtype) == 'f' || td_dtype_kind(v->tensor.dtype) == 'f')
            td_put_real(&t, 0, td_get_real(&v->tensor, 0));
        else
            td_put_whole(&t, 0, td_get_whole(&v->tensor, 0));
        return t;
    }
    v = v->kind == TD_KIND_none ? &one : v;
    td_put_scalar(&t, 0, v);
    return t;
}

struct td_index_rows td_index_rows(const struct td_call *call)
{
    const struct td_index *family = call->op->family;
    struct td_index_rows rows = {.skip = -1};
    if (family->form == TD_INDEX_BY_rows && family->way == TD_INDEX_add) {
        rows.skip = call->arg[3].i;
        rows.by_frequency = call->arg[4].i;
    }
    return rows;
}

const struct td_value *td_index_alpha(const struct td_call *call)
{
    static const struct td_value one = {.kind = TD_KIND_int, .i = 1};
    const struct td_index *family = call->op->family;
    return family->form == TD_INDEX_BY_slices && family->way == TD_INDEX_add ? &call->arg[4] : &one;
}

/* Masks as indices; and how often each element, or row, is meant where that is asked for. */
static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    size_t room = td_index_room(call);
    if (td_index_way(call) == TD_INDEX_mean)
        room += (size_t)td_numel(&call->out[0]) * sizeof(int64_t);
    if (td_index_rows(call).by_frequency)
        room += (size_t)call->out[0].shape[0] * sizeof(int64_t);
    prepared->scratch = room;
    return NULL;
}

static const char *prepare_rows(const struct td_call *call, struct td_prepared *prepared)
{
    bool ordered = td_index_way(call) >= TD_INDEX_min;
    return ordered && call->out[0].dtype & TD_UINTS
               ? "wide unsigned numbers are added, multiplied and moved, not compared or divided"
               : prepare(call, prepared);
}

/* Where little is beside, there may be more positions than elements anywhere. */
static double flops(const struct td_call *call)
{
    struct td_index_plan plan;
    double positions = 8;
    td_index_plan(call, &plan, NULL);
    for (int d = 0; d < plan.rank; d++)
        positions *= (double)plan.size[d];
    return positions;
}

td_kernel td_index_ref;
TD_KERNELS_3(index);

/* clang-format off */
static const struct td_impl rows[] = {
    TD_SIMD_3(index, TD_ALL, .prepare = prepare_rows) TD_REF(index, .prepare = prepare), {0}};
/* Of writers into a copy of self, which need not be one. */
static const struct td_impl rows_into[] = {
    TD_SIMD_3(index, TD_ALL, .prepare = prepare_rows, .in_place = 1)
    TD_REF(index, .prepare = prepare), {0}};
/* clang-format on */

#define SCALE_own false
#define SCALE_sums true
#define TD_INDEX(symbol, text, formula, shape, how, where, negative, judge, types, bits, bound,    \
                 scale, ...)                                                                       \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = formula,                                                                            \
        .rule = td_index_rule_##judge,                                                             \
        .promote = (bits) ? TD_PROMOTE_none : TD_PROMOTE_first,                                    \
        .unpromoted = (types) == (TD_i32 | TD_i64) ? 0 : (bits),                                   \
        .dtypes = types,                                                                           \
        .ulp = bound,                                                                              \
        .sums = SCALE_##scale,                                                                     \
        .impls = TD_INDEX_##how != TD_INDEX_read && where[0] == '0' ? rows_into : rows,            \
        .follows = bits,                                                                           \
        .check = (bits) ? td_index_check : NULL,                                                   \
        .mixes = (bits) ? TD_MAX_RANK : 0,                                                         \
        .flops = flops,                                                                            \
        .family = &(const struct td_index){TD_INDEX_BY_##shape, TD_INDEX_##how, where, negative},  \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
    };
#include "kernels/index/index.def"
