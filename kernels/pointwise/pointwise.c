/* The descriptors of the pointwise operators, made from pointwise.def, and the rules that they
 * share.
 */
#include "kernels/pointwise/pointwise.h"
#include "kernels/pointwise/signless.h"

#include "kernels/backward.h"
#include "kernels/cut.h"
#include "kernels/dims.h"
#include "kernels/elementwise.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    enum td_point_result result;
    int cost;
} points[TD_POINTS] = {
#define TD_POINT(id, operands, result, cost, ...) {TD_POINT_IS_##result, cost},
#include "kernels/pointwise/pointwise.def"
};

enum td_point_result td_point_result(enum td_point point)
{
    return points[point].result;
}

enum td_dtype td_point_type(const struct td_call *call)
{
    const struct td_pointwise *family = call->op->family;
    const char *first = family->operands + (points[family->point].result == TD_POINT_IS_pick);
    enum td_dtype made = TD_bool;
    for (const char *o = first; *o; o++) {
        const struct td_value *v = &call->arg[*o - '0'];
        if (v->kind == TD_KIND_tensor)
            return v->tensor.dtype;
        if (v->kind == TD_KIND_float)
            made = TD_f32;
        else if (v->kind == TD_KIND_int && made == TD_bool)
            made = TD_i64;
    }
    return made;
}

/* The string argument, "" when there is none. */
static const char *text_of(const struct td_call *call)
{
    for (int i = 0; i < call->n_args; i++)
        if (call->arg[i].kind == TD_KIND_str)
            return call->arg[i].str;
    return "";
}

enum td_point td_point_of(const struct td_call *call)
{
    const struct td_pointwise *family = call->op->family;
    const struct td_value *second =
        family->operands[1] ? &call->arg[family->operands[1] - '0'] : NULL;
    bool number = second && second->kind != TD_KIND_tensor && second->kind != TD_KIND_none;
    double s = number ? td_scalar(second) : NAN;
    const struct td_value *first = *family->params ? &call->arg[*family->params - '0'] : NULL;
    double p = first && first->kind != TD_KIND_none ? td_scalar(first) : NAN;
    const char *text = family->words ? text_of(call) : "";
    bool whole = td_dtype_kind(td_point_type(call)) != 'f';
#define TD_VARIANT(of, id, condition)                                                              \
    if (family->point == TD_POINT_##of && (condition))                                             \
        return TD_POINT_##id;
#include "kernels/pointwise/pointwise.def"
    return family->point;
}

/* ---- rules ---- */

/* The common shape of out and t becomes out's. */
static int broadcast(struct td_call *call, struct td_tensor *out, int i)
{
    const struct td_tensor *t = &call->arg[i].tensor;
    int64_t other;
    int d = td_broadcast(out, t, &other);
    if (d < 0)
        return 0;
    return td_refuse(call,
                     "the shapes do not broadcast: dimension %d of argument %d is %lld, the others "
                     "say %lld; equal sizes or 1 are right",
                     d, i, (long long)t->shape[d], (long long)other);
}

/* The string argument is one of the words behind its name in "approximate none tanh". */
static int rule_words(struct td_call *call, const char *words)
{
    const char *text = text_of(call), *space = strchr(words, ' ');
    for (int i = 0; i < call->n_args && !*text; i++)
        if (call->arg[i].kind == TD_KIND_str)
            break;
        else if (i == call->n_args - 1)
            return 0; /* left out */
    for (const char *word = space; word; word = strchr(word + 1, ' ')) {
        size_t n = strcspn(word + 1, " ");
        if (n == strlen(text) && !memcmp(word + 1, text, n))
            return 0;
    }
    const char *last = strrchr(words, ' ');
    return td_refuse(call, "%.*s: is '%.60s'; '%.*s' or '%s' is right", (int)(space - words), words,
                     text, (int)(last - space - 1), space + 1, last + 1);
}

/* A number that whole ones are compared with is of their type. */
static int rule_compared(struct td_call *call, int i)
{
    const struct td_value *v = &call->arg[i];
    enum td_dtype type = td_point_type(call);
    char name[32];
    if (td_dtype_kind(type) == 'f' || v->kind == TD_KIND_tensor || td_holds_int(type, v))
        return 0;
    return td_refuse(call, v->wide ? "%s: is %llu, which no %s is" : "%s: is %lld, which no %s is",
                     td_point_arg_name(call, i, name), (long long)v->i, td_dtype_name(type));
}

/* A number beyond INT64 goes with floats, and as an operand with UINT64. */
static int rule_wide(struct td_call *call)
{
    const char *operands = ((const struct td_pointwise *)call->op->family)->operands;
    enum td_dtype type = td_point_type(call);
    char name[32];
    for (int i = 0; i < call->n_args && td_dtype_kind(type) != 'f'; i++) {
        const struct td_value *v = &call->arg[i];
        if (v->kind == TD_KIND_int && v->wide && !(type == TD_u64 && strchr(operands, '0' + i)))
            return td_refuse(call, "%s: is %llu; beside %s an INT64 is right",
                             td_point_arg_name(call, i, name), (unsigned long long)v->i,
                             td_dtype_name(type));
    }
    return 0;
}

static int rule_params(struct td_call *call, const struct td_pointwise *family)
{
    enum td_dtype type = td_point_type(call);
    char room[32];
    for (const char *p = family->params; *p; p++)
        if (td_dtype_kind(type) != 'f' && call->arg[*p - '0'].kind == TD_KIND_float)
            return td_refuse(call, "%s: must be an integer when self is of an integer type",
                             td_point_arg_name(call, *p - '0', room));
    return 0;
}

/* What says which of two to pick is BOOL. */
static int rule_pick(struct td_call *call, int i)
{
    enum td_dtype type = call->arg[i].tensor.dtype;
    char name[32];
    return type == TD_bool ? 0
                           : td_refuse(call, "%s: is %s; BOOL is right",
                                       td_point_arg_name(call, i, name), td_dtype_name(type));
}

/* Whole tensors may have real parameters: of those that speak of real numbers alone. */
static int rule_plain(struct td_call *call)
{
    const struct td_pointwise *family = call->op->family;
    struct td_tensor *out = &call->out[0];
    int err = 0;
    *out = (struct td_tensor){.dtype = td_point_type(call)};
    err = rule_wide(call);
    if (!err && family->words)
        err = rule_words(call, family->words);
    if (!err && points[family->point].result == TD_POINT_IS_pick)
        err = rule_pick(call, *family->operands - '0');
    for (const char *o = family->operands; !err && *o; o++)
        if (call->arg[*o - '0'].kind == TD_KIND_tensor)
            err = broadcast(call, out, *o - '0');
    if (points[family->point].result == TD_POINT_IS_truth) {
        err = !err && family->operands[1] ? rule_compared(call, family->operands[1] - '0') : err;
        out->dtype = TD_bool;
    }
    call->n_out = 1;
    return err;
}

static int rule_broadcast(struct td_call *call)
{
    int err = rule_params(call, call->op->family);
    return err ? err : rule_plain(call);
}

/* As in ATen: a parameter's whole part is what whole numbers are computed with. */
static int rule_cut(struct td_call *call)
{
    const char *params = ((const struct td_pointwise *)call->op->family)->params;
    bool whole = td_dtype_kind(td_point_type(call)) != 'f';
    char room[32];
    int err = 0;
    for (const char *p = params; !err && whole && *p; p++)
        err = td_rule_cut(call, &call->arg[*p - '0'], td_point_arg_name(call, *p - '0', room));
    return err ? err : rule_plain(call);
}

static int rule_limits(struct td_call *call)
{
    char low[32], high[32];
    if (call->arg[1].kind == TD_KIND_none && call->arg[2].kind == TD_KIND_none)
        return td_refuse(call, "%s: neither it nor %s is given; one of them is right",
                         td_point_arg_name(call, 1, low), td_point_arg_name(call, 2, high));
    return rule_broadcast(call);
}

/* Operand 1 has one element, or one for each of dimension 1; it is given the dimensions behind. */
static int rule_channels(struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor;
    struct td_tensor *weight = &call->arg[1].tensor;
    int64_t n = self->rank > 1 ? self->shape[1] : 1;
    if (weight->rank > 1 || (td_numel(weight) != 1 && td_numel(weight) != n))
        return td_refuse(call,
                         "weight: has rank %d and %lld elements; rank 1 and 1 element, or %lld, "
                         "are right",
                         weight->rank, (long long)td_numel(weight), (long long)n);
    weight->rank = td_numel(weight) != 1 ? self->rank - 1 : 0;
    for (int d = 1; d < weight->rank; d++)
        weight->shape[d] = 1;
    return rule_broadcast(call);
}

static int rule_inference(struct td_call *call)
{
    for (int i = 0; i < call->n_args; i++)
        if (call->arg[i].kind == TD_KIND_bool && call->arg[i].i)
            return td_refuse(call, "training: chance plays no part here; False is right");
    return rule_broadcast(call);
}

static int rule_number(struct td_call *call)
{
    char room[32];
    int i = ((const struct td_pointwise *)call->op->family)->operands[1] - '0';
    if (call->arg[i].tensor.rank)
        return td_refuse(call, "%s: has %d dimensions; none is right",
                         td_point_arg_name(call, i, room), call->arg[i].tensor.rank);
    return rule_broadcast(call);
}

static int rule_order(struct td_call *call)
{
    return call->arg[0].i < 0 ? td_refuse(call, "n: is negative; 0 and up is right")
                              : rule_plain(call);
}

/* Integers are held against a parameter's whole part, as in ATen. */
static int rule_gradient(struct td_call *call)
{
    const struct td_pointwise *family = call->op->family;
    char room[32];
    int err = td_rule_gradient(call, td_point_arg_name(call, 1, room));
    return err || !family->words ? err : rule_words(call, family->words);
}

/* Among n elements, step apart. */
static bool has_zero_in(const char *data, size_t size, int64_t n, int64_t step)
{
    bool found = false;
#define LOOK(bytes, type)                                                                          \
    case bytes:                                                                                    \
        for (int64_t i = 0; i < n && !found; i += TD_STRIDE)                                       \
            for (int64_t k = i; k < n && k < i + TD_STRIDE; k++)                                   \
                found |= ((const type *)data)[k * step] == 0;                                      \
        break;
    switch (size) {
        LOOK(1, uint8_t)
        LOOK(2, uint16_t)
        LOOK(4, uint32_t)
    default:
        LOOK(8, uint64_t)
    }
#undef LOOK
    return found;
}

static bool has_zero(const struct td_tensor *t)
{
    size_t size = td_dtype_size(t->dtype);
    int64_t index[TD_MAX_RANK] = {0}, at = 0;
    int last = t->rank - 1, d = 0;
    if (!t->stride || !t->rank)
        return has_zero_in(t->data, size, td_numel(t), 1);
    while (d >= 0) {
        const char *row = (const char *)t->data + at * (int64_t)size;
        if (has_zero_in(row, size, t->shape[last], t->stride[last]))
            return true;
        for (d = last - 1; d >= 0; d--) {
            at += t->stride[d];
            if (++index[d] < t->shape[d])
                break;
            at -= t->shape[d] * t->stride[d];
            index[d] = 0;
        }
    }
    return false;
}

/* Of whole numbers there is no ratio to 0, as in ATen. */
static int check_ratio(const struct td_call *call)
{
    int i = ((const struct td_pointwise *)call->op->family)->operands[1] - '0';
    const struct td_value *v = &call->arg[i];
    char room[32];
    if (td_dtype_kind(td_point_type(call)) == 'f' || !td_numel(&call->out[0]))
        return 0;
    if (v->kind == TD_KIND_tensor ? !has_zero(&v->tensor) : td_scalar_int(v) != 0)
        return 0;
    return td_refuse(call, "%s: has a 0, by which whole numbers cannot be divided",
                     td_point_arg_name(call, i, room));
}

static double flops(const struct td_call *call)
{
    return points[td_point_of(call)].cost * (double)td_numel(&call->out[0]);
}

/* ---- descriptors ---- */

td_kernel td_pointwise_ref;
TD_KERNELS_3(pointwise_f32);
TD_KERNELS_3(pointwise_f64);
TD_KERNELS_3(pointwise_int);

/* clang-format off */
/* The walk reads what is dense beside the result, a vector or a tile at a time, before it writes. */
#define ANYHOW .strided = true, .in_place = ~0u
#define SHORT_ROWS TD_SIMD_3(pointwise_f32, TD_f32 | TD_f16 | TD_bf16, ANYHOW)
#define REAL_ROWS SHORT_ROWS TD_SIMD_3(pointwise_f64, TD_f64, ANYHOW)
/* Elements of a byte go through AVX2 at all levels: 64K of them, mul on an Intel with AVX-512, take
 * 2.6 us there and 3.7 in vectors of 64 bytes, of which most stores cross a cache line. */
#define WHOLE_ROWS(types)                                                                          \
    TD_SIMD(avx512, pointwise_int, TD_i16 | TD_i32 | TD_i64 | (types), ANYHOW)            \
    TD_SIMD(avx2, pointwise_int, TD_INTS | TD_bool | (types), ANYHOW)                     \
    TD_SIMD(default, pointwise_int, TD_INTS | TD_bool | (types), ANYHOW)
static const struct td_impl rows_real[] = {REAL_ROWS TD_REF(pointwise), {0}};
static const struct td_impl rows_whole[] = {WHOLE_ROWS(0) TD_REF(pointwise), {0}};
static const struct td_impl rows_bits[] = {WHOLE_ROWS(TD_UINTS) TD_REF(pointwise), {0}};
static const struct td_impl rows_numbers[] = {SHORT_ROWS WHOLE_ROWS(0) TD_REF(pointwise), {0}};
static const struct td_impl rows_all[] = {REAL_ROWS WHOLE_ROWS(0) TD_REF(pointwise), {0}};
static const struct td_impl rows_signless[] = {REAL_ROWS WHOLE_ROWS(TD_UINTS) TD_REF(pointwise), {0}};
/* clang-format on */

#define PROMOTE_none TD_PROMOTE_none
#define PROMOTE_arith TD_PROMOTE_arith
#define PROMOTE_float TD_PROMOTE_float
#define PROMOTE_whole TD_PROMOTE_arith
#define PROMOTE_quotient TD_PROMOTE_quotient
#define PROMOTE_first TD_PROMOTE_first
#define FLOATS_ONLY_float true
#define FLOATS_ONLY_none false
#define FLOATS_ONLY_arith false
#define FLOATS_ONLY_whole false
#define FLOATS_ONLY_quotient false
#define FLOATS_ONLY_first false
#define ROWS(id, promotion, types)                                                                 \
    (FLOATS_ONLY_##promotion || !((types) & ~TD_FLOATS) ? rows_real                                \
     : !((types)&TD_FLOATS)  ? TD_POINT_SIGNLESS(id) ? rows_bits : rows_whole                      \
     : !((types)&TD_f64)     ? rows_numbers                                                        \
     : TD_POINT_SIGNLESS(id) ? rows_signless                                                       \
                             : rows_all)
#define SCALE_own false
#define SCALE_sums true
enum { /* of each formula: whether operand 0 is BOOL whatever the others are, operand 1 may be no 0
        */
#define TD_POINT(id, operands, result, ...)                                                        \
    PICKS_##id = TD_POINT_IS_##result == TD_POINT_IS_pick,                                         \
    RATIO_##id = TD_POINT_IS_##result == TD_POINT_IS_ratio,
#include "kernels/pointwise/pointwise.def"
};

#define TD_OVERLOAD(symbol, id, text, formula, shapes, promotion, types, bound, scale, in,         \
                    params_, words_, by, ...)                                                      \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = "out = " formula,                                                                   \
        .rule = rule_##shapes,                                                                     \
        .check = RATIO_##id ? check_ratio : NULL,                                                  \
        .promote = PROMOTE_##promotion,                                                            \
        .unpromoted = PICKS_##id ? 1u << (in[0] - '0') : 0,                                        \
        .dtypes = types,                                                                           \
        .ulp = bound,                                                                              \
        .sums = SCALE_##scale,                                                                     \
        .impls = ROWS(id, promotion, types),                                                       \
        .family = &(const struct td_pointwise){TD_POINT_##id, in, params_, words_},                \
        .composite = by,                                                                           \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
        .flops = flops,                                                                            \
    };
#include "kernels/pointwise/pointwise.def"
