/* The descriptors of the reductions, made from reduce.def, and the rule that they share. */
#include "kernels/reduce/reduce.h"

#include "kernels/elementwise.h"

#include <errno.h>
#include <math.h>

/* The words of reduce.def. */
enum { fine, refuse };
enum { narrow, wide };

static const struct {
    enum td_fold fold;
    enum td_reduce_result result;
    bool refuses_nothing;
} reductions[TD_REDUCE_none] = {
#define TD_REDUCE(id, fold, result, nothing, finish)                                               \
    {TD_FOLD_##fold, TD_REDUCE_IS_##result, nothing},
#include "kernels/reduce/reduce.def"
};

static const struct {
    int cost;
    bool wide;
} folds[TD_FOLDS] = {
#define TD_STEP(id, width, joins, cost, ...) {cost, width},
#include "kernels/reduce/reduce.def"
    [TD_FOLD_moments] = {6, false},
    [TD_FOLD_exponents] = {20, false},
    [TD_FOLD_argmax] = {4, false},
    [TD_FOLD_argmin] = {4, false},
};

/* ---- what a call says ---- */

static const struct td_value *named(const struct td_call *call, int which)
{
    static const struct td_value none = {.kind = TD_KIND_none};
    const struct td_reduced *family = call->op->family;
    return family->args[which] == '-' ? &none : &call->arg[family->args[which] - '0'];
}

unsigned td_reduce_dims(const struct td_call *call)
{
    const struct td_reduced *family = call->op->family;
    const struct td_value *dim = named(call, 0);
    bool truth = reductions[family->id[0]].result == TD_REDUCE_IS_truth;
    unsigned dims = 0;
    if (dim->kind == TD_KIND_int)
        return 1u << dim->i;
    for (int i = 0; dim->kind == TD_KIND_ints && i < dim->ints.n; i++)
        dims |= 1u << dim->ints.v[i];
    if (dim->kind == TD_KIND_ints && truth) /* any and all alone reduce nothing along [] */
        return dims;
    return dims ? dims : (1u << TD_MAX_RANK) - 1;
}

double td_reduce_param(const struct td_call *call)
{
    const struct td_reduced *family = call->op->family;
    const struct td_value *v = named(call, 2);
    if (v->kind != TD_KIND_none)
        return td_scalar(v);
    return family->args[2] == '-' ? 0 : family->args[3] - '0';
}

enum td_reduce td_reduce_of(const struct td_call *call, int k)
{
    const struct td_reduced *family = call->op->family;
    double p = td_reduce_param(call);
#define TD_BY(of, as, condition)                                                                   \
    if (family->id[k] == TD_REDUCE_##of && (condition))                                            \
        return TD_REDUCE_##as;
#include "kernels/reduce/reduce.def"
    return family->id[k];
}

enum td_fold td_reduce_fold(enum td_reduce id)
{
    return reductions[id].fold;
}

enum td_reduce_result td_reduce_result(enum td_reduce id)
{
    return reductions[id].result;
}

/* ---- the rule ---- */

static enum td_dtype result_type(const struct td_call *call, enum td_reduce_result result)
{
    enum td_dtype type = call->arg[0].tensor.dtype;
    switch (result) {
    case TD_REDUCE_IS_total:
        for (int i = 1; i < call->n_args; i++)
            if (call->arg[i].kind == TD_KIND_dtype)
                return type;
        return td_dtype_kind(type) == 'f' ? type : TD_i64;
    case TD_REDUCE_IS_truth:
        return type == TD_u8 ? type : TD_bool;
    case TD_REDUCE_IS_count:
    case TD_REDUCE_IS_place:
        return TD_i64;
    default:
        return type;
    }
}

static int rule(struct td_call *call)
{
    const struct td_reduced *family = call->op->family;
    const struct td_tensor *x = &call->arg[0].tensor;
    const struct td_value *dim = named(call, 0);
    int err = dim->kind == TD_KIND_int ? td_rule_dim(call, family->args[0] - '0', "dim", x->rank)
              : dim->kind == TD_KIND_ints
                  ? td_rule_dims(call, family->args[0] - '0', "dim", x->rank)
                  : 0;
    unsigned dims = err ? 0 : td_reduce_dims(call);
    bool keepdim = named(call, 1)->kind == TD_KIND_bool && named(call, 1)->i;
    for (int d = 0; !err && d < x->rank; d++)
        if (dims >> d & 1 && !x->shape[d] && reductions[td_reduce_of(call, 0)].refuses_nothing)
            err = td_refuse(call,
                            "self: dimension %d, which is reduced, has no elements, and of none "
                            "there is no %s; a size of at least 1 is right",
                            d, call->op->doc + sizeof "out =");
    call->n_out = family->id[1] == TD_REDUCE_none ? 1 : 2;
    for (int k = 0; !err && k < call->n_out; k++) {
        call->out[k] =
            (struct td_tensor){.dtype = result_type(call, reductions[family->id[k]].result)};
        td_reduced_shape(&call->out[k], x, dims, keepdim);
    }
    return err;
}

static double flops(const struct td_call *call)
{
    double cost = 0;
    for (int k = 0; k < call->n_out; k++)
        cost += folds[td_reduce_fold(td_reduce_of(call, k))].cost;
    return cost * (double)td_numel(&call->arg[0].tensor);
}

/* ---- descriptors ---- */

td_kernel td_reduce_ref;
TD_KERNELS_3(reduce_f32);
TD_KERNELS_3(reduce_f64);
TD_KERNELS_3(reduce_int);

static bool is_narrow(const struct td_call *call)
{
    return !folds[td_reduce_fold(td_reduce_of(call, 0))].wide;
}

static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_tensor self = call->arg[0].tensor;
    prepared->dense = !td_has_rows(&self);
    if (prepared->dense)
        self.stride = NULL;
    prepared->scratch = td_reduce_scratch(call, &self);
    return NULL;
}

/* Of a reduction whose fold a parameter says. */
static const char *prepare_narrow(const struct td_call *call, struct td_prepared *prepared)
{
    return is_narrow(call) ? prepare(call, prepared) : "its totals are wide";
}

static const char *prepare_wide(const struct td_call *call, struct td_prepared *prepared)
{
    return call->arg[0].tensor.dtype == TD_f64 || !is_narrow(call) ? prepare(call, prepared)
                                                                   : "its totals are narrow";
}

/* clang-format off */
#define SHORT_ROWS(ask) TD_SIMD_3(reduce_f32, TD_f32 | TD_f16 | TD_bf16, .prepare = ask, .strided = true)
#define LONG_ROWS(types, ask) TD_SIMD_3(reduce_f64, types, .prepare = ask, .strided = true)
#define WHOLE_ROWS TD_SIMD_3(reduce_int, TD_INTS | TD_bool, .prepare = prepare, .strided = true)
static const struct td_impl rows_narrow[] = {
    SHORT_ROWS(prepare) LONG_ROWS(TD_f64, prepare) TD_REF(reduce), {0}};
static const struct td_impl rows_narrow_all[] = {
    SHORT_ROWS(prepare) LONG_ROWS(TD_f64, prepare) WHOLE_ROWS TD_REF(reduce), {0}};
static const struct td_impl rows_whole[] = {
    WHOLE_ROWS TD_REF(reduce), {0}};
static const struct td_impl rows_wide_all[] = {
    LONG_ROWS(TD_FLOATS, prepare) WHOLE_ROWS TD_REF(reduce), {0}};
static const struct td_impl rows_norm[] = { /* by its parameter */
    SHORT_ROWS(prepare_narrow) LONG_ROWS(TD_FLOATS, prepare_wide) TD_REF(reduce), {0}};
/* clang-format on */
enum { /* of each reduction, whether its fold is wide */
#define TD_STEP(id, width, ...) WIDE_##id = width,
#include "kernels/reduce/reduce.def"
       WIDE_moments = 0,
       WIDE_exponents = 0,
       WIDE_argmax = 0,
       WIDE_argmin = 0,
};
enum {
#define TD_REDUCE(id, fold, ...) IS_WIDE_##id = WIDE_##fold,
#include "kernels/reduce/reduce.def"
};
#define ROWS(id, promotion, types)                                                                 \
    (TD_REDUCE_##id == TD_REDUCE_norm                           ? rows_norm                        \
     : !((types)&TD_FLOATS)                                     ? rows_whole                       \
     : IS_WIDE_##id                                             ? rows_wide_all                    \
     : promotion == TD_PROMOTE_float || !((types) & ~TD_FLOATS) ? rows_narrow                      \
                                                                : rows_narrow_all)
#define SCALE_own false
#define SCALE_sums true
#define FIRST(a, ...) a
#define ID_1(a) TD_REDUCE_##a, TD_REDUCE_none
#define ID_2(a, b) TD_REDUCE_##a, TD_REDUCE_##b
#define ID_OF(a, b, how, ...) how
#define IDS(...) ID_OF(__VA_ARGS__, ID_2, ID_1)(__VA_ARGS__)
#define ROWS_OF(id, ...) ROWS(id, __VA_ARGS__)

#define TD_REDUCED(symbol, ids, text, formula, promotion, types, bound, scale, arguments, ...)     \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = "out = " formula,                                                                   \
        .rule = rule,                                                                              \
        .promote = TD_PROMOTE_##promotion,                                                         \
        .casts = true,                                                                             \
        .dtypes = types,                                                                           \
        .ulp = bound,                                                                              \
        .sums = SCALE_##scale,                                                                     \
        .impls = ROWS_OF(FIRST ids, TD_PROMOTE_##promotion, types),                                \
        .family = &(const struct td_reduced){{IDS ids}, arguments},                                \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
        .flops = flops,                                                                            \
    };
#include "kernels/reduce/reduce.def"
