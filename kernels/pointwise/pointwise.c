/* The descriptors of the pointwise operators, made from pointwise.def, and the rules that they
 * share.
 */
#include "kernels/pointwise/pointwise.h"

#include "kernels/backward.h"
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
    const char *o = family->operands + (points[family->point].result == TD_POINT_IS_pick);
    while (call->arg[*o - '0'].kind != TD_KIND_tensor)
        o++;
    return call->arg[*o - '0'].tensor.dtype;
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
    double s = second && second->kind != TD_KIND_tensor ? td_scalar(second) : NAN;
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

/* What the schema calls argument i. */
static const char *name_of(const struct td_call *call, int i, char room[32])
{
    const char *at = strchr(call->op->schema, '(');
    for (; i > 0; i--) {
        at = strchr(at + 1, ',');
        if (!strncmp(at, ", *,", 4))
            at += 3;
    }
    at += strcspn(at, " ") == 1 ? 2 : 1; /* behind ", " or "(" */
    at += strcspn(at, " ") + 1;          /* the type */
    snprintf(room, 32, "%.*s", (int)strcspn(at, ",=)"), at);
    return room;
}

/* The common shape of out and t becomes out's. */
static int broadcast(struct td_call *call, struct td_tensor *out, int i)
{
    const struct td_tensor *t = &call->arg[i].tensor;
    int more = t->rank - out->rank;
    if (more > 0) {
        memmove(out->shape + more, out->shape, sizeof *out->shape * (size_t)out->rank);
        for (int d = 0; d < more; d++)
            out->shape[d] = 1;
        out->rank = t->rank;
    }
    for (int d = 0; d < t->rank; d++) {
        int64_t *size = &out->shape[d + out->rank - t->rank];
        if (*size == 1)
            *size = t->shape[d];
        else if (t->shape[d] != 1 && t->shape[d] != *size)
            return td_refuse(call,
                             "the shapes do not broadcast: dimension %d of argument %d is "
                             "%lld, the others say %lld; equal sizes or 1 are right",
                             d, i, (long long)t->shape[d], (long long)*size);
    }
    return 0;
}

/* The string argument is one of the words behind its name in "approximate none tanh". */
static int rule_words(struct td_call *call, const char *words)
{
    const char *text = text_of(call), *space = strchr(words, ' ');
    if (!*text)
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
    uint64_t room = 0;
    struct td_tensor one = {.data = &room, .dtype = td_point_type(call)};
    char name[32];
    if (td_dtype_kind(one.dtype) == 'f' || v->kind == TD_KIND_tensor)
        return 0;
    td_put_whole(&one, 0, v->i);
    return td_get_whole(&one, 0) == v->i
               ? 0
               : td_refuse(call, "%s: is %lld, which no %s is", name_of(call, i, name),
                           (long long)v->i, td_dtype_name(one.dtype));
}

static int rule_params(struct td_call *call, const struct td_pointwise *family)
{
    enum td_dtype type = td_point_type(call);
    char room[32];
    for (const char *p = family->params; *p; p++)
        if (td_dtype_kind(type) != 'f' && call->arg[*p - '0'].kind == TD_KIND_float)
            return td_refuse(call, "%s: must be an integer when self is of an integer type",
                             name_of(call, *p - '0', room));
    return 0;
}

static int rule_broadcast(struct td_call *call)
{
    const struct td_pointwise *family = call->op->family;
    struct td_tensor *out = &call->out[0];
    int err = rule_params(call, family);
    *out = (struct td_tensor){.dtype = td_point_type(call)};
    if (!err && family->words)
        err = rule_words(call, family->words);
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

/* Integers are held against a parameter's whole part, as in ATen. */
static int rule_gradient(struct td_call *call)
{
    const struct td_pointwise *family = call->op->family;
    char room[32];
    int err = td_rule_gradient(call, name_of(call, 1, room));
    return err || !family->words ? err : rule_words(call, family->words);
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
#define REAL_ROWS                                                                                  \
    TD_SIMD_3(pointwise_f32, TD_f32 | TD_f16 | TD_bf16) TD_SIMD_3(pointwise_f64, TD_f64)
#define WHOLE_ROWS TD_SIMD_3(pointwise_int, TD_INTS | TD_bool)
static const struct td_impl rows_real[] = {REAL_ROWS TD_REF(pointwise), {0}};
static const struct td_impl rows_whole[] = {WHOLE_ROWS TD_REF(pointwise), {0}};
static const struct td_impl rows_all[] = {REAL_ROWS WHOLE_ROWS TD_REF(pointwise), {0}};
/* clang-format on */

#define PROMOTE_none TD_PROMOTE_none
#define PROMOTE_arith TD_PROMOTE_arith
#define PROMOTE_float TD_PROMOTE_float
#define PROMOTE_whole TD_PROMOTE_arith
#define FLOATS_ONLY_float true
#define FLOATS_ONLY_none false
#define FLOATS_ONLY_arith false
#define FLOATS_ONLY_whole false
#define ROWS(promotion, types)                                                                     \
    (FLOATS_ONLY_##promotion || !((types) & ~TD_FLOATS) ? rows_real                                \
     : (types)&TD_FLOATS                                ? rows_all                                 \
                                                        : rows_whole)
#define SCALE_own false
#define SCALE_sums true
enum { /* of each formula: the operand that is BOOL whatever the others are, as a bit */
#define TD_POINT(id, operands, result, ...) PICKS_##id = TD_POINT_IS_##result == TD_POINT_IS_pick,
#include "kernels/pointwise/pointwise.def"
};

#define TD_OVERLOAD(symbol, id, text, formula, shapes, promotion, types, bound, scale, in,         \
                    params_, words_, by, ...)                                                      \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = "out = " formula,                                                                   \
        .rule = rule_##shapes,                                                                     \
        .promote = PROMOTE_##promotion,                                                            \
        .unpromoted = PICKS_##id ? 1u << (in[0] - '0') : 0,                                        \
        .dtypes = types,                                                                           \
        .ulp = bound,                                                                              \
        .sums = SCALE_##scale,                                                                     \
        .impls = ROWS(promotion, types),                                                           \
        .family = &(const struct td_pointwise){TD_POINT_##id, in, params_, words_},                \
        .composite = by,                                                                           \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
        .flops = flops,                                                                            \
    };
#include "kernels/pointwise/pointwise.def"
