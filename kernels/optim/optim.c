/* sgd, adam and adamw: one step of an optimizer, by the formulas of PyTorch's _fused_sgd_,
 * _fused_adam_ and _fused_adamw_. Each gives the parameter and its states anew; results are called
 * as the arguments whose place they take in place (sgd_, adam_, adamw_), where all are stored
 * tensors. rows: grad is sparse, a row of it for each number there; those of one row add up, and
 * rows of the parameter and of its states that are not named stay as they are, bit for bit. */
#include "kernels/optim/optim.h"

#include "kernels/backward.h"
#include "kernels/elementwise.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static enum td_optim_kind kind_of(const struct td_call *call)
{
    return *(const enum td_optim_kind *)call->op->family;
}

/* Where arguments stand: sgd's, and the others'. */
enum { SELF, GRAD, STATES };
enum { SGD_ROWS = STATES + 1, SGD_LR, MOMENTUM, DAMPENING, SGD_DECAY, NESTEROV, SGD_MAXIMIZE };
enum { ROWS = STATES + 3, STEP, LR, BETA1, BETA2, DECAY, EPS, MAXIMIZE };

static int rows_at(const struct td_call *call)
{
    return kind_of(call) == TD_OPTIM_sgd ? (int)SGD_ROWS : (int)ROWS;
}

static void numbers_of_sgd(const struct td_call *call, struct td_optim *o)
{
    o->lr = call->arg[SGD_LR].f;
    o->momentum = call->arg[MOMENTUM].f;
    o->taken = 1 - call->arg[DAMPENING].f;
    o->decay = call->arg[SGD_DECAY].f;
    o->nesterov = call->arg[NESTEROV].i;
    o->sign = call->arg[SGD_MAXIMIZE].i ? -1 : 1;
}

static void numbers_of_adam(const struct td_call *call, struct td_optim *o)
{
    double step = (double)call->arg[STEP].i; /* 0: lr is corrected already */
    o->lr = call->arg[LR].f;
    o->beta1 = call->arg[BETA1].f;
    o->beta2 = call->arg[BETA2].f;
    o->decay = call->arg[DECAY].f;
    o->eps = call->arg[EPS].f;
    o->sign = call->arg[MAXIMIZE].i ? -1 : 1;
    o->step_size = step > 0 ? o->lr / (1 - pow(o->beta1, step)) : o->lr;
    o->root = step > 0 ? sqrt(1 - pow(o->beta2, step)) : 1;
}

struct td_optim td_optim_of(const struct td_call *call)
{
    struct td_optim o = {.kind = kind_of(call),
                         .grad = td_arg(call, GRAD),
                         .rows = td_arg(call, rows_at(call)),
                         .from[TD_OPTIM_self] = td_arg(call, SELF)};
    int states = o.kind == TD_OPTIM_sgd ? 1 : 3;
    for (int i = 0; i < states; i++)
        o.from[1 + i] = td_arg(call, STATES + i);
    for (int i = 0; i <= states; i++)
        o.to[i] = &call->out[i];
    if (o.kind == TD_OPTIM_sgd)
        numbers_of_sgd(call, &o);
    else
        numbers_of_adam(call, &o);
    if (o.kind == TD_OPTIM_sgd ? !o.from[TD_OPTIM_first] && o.momentum == 0
                               : !o.from[TD_OPTIM_most])
        o.to[o.kind == TD_OPTIM_sgd ? TD_OPTIM_first : TD_OPTIM_most] = NULL;
    o.n = o.rows ? o.from[0]->shape[0] : 1;
    o.width = o.n ? td_numel(o.from[0]) / o.n : 0;
    o.k = o.rows ? o.rows->shape[0] : 1;
    return o;
}

int64_t td_optim_row(const struct td_optim *o, int64_t i)
{
    return td_get_whole(o->rows, i);
}

size_t td_optim_scratch(const struct td_optim *o)
{
    return o->rows ? sizeof(int64_t) * (size_t)(o->n + o->k) : 0;
}

struct td_optim_order td_optim_order(const struct td_optim *o, void *scratch)
{
    struct td_optim_order order = {scratch, (int64_t *)scratch + o->n};
    memset(order.first, -1, (size_t)o->n * sizeof *order.first);
    for (int64_t i = o->k - 1; i >= 0; i--) {
        int64_t row = td_optim_row(o, i);
        order.next[i] = order.first[row];
        order.first[row] = i;
    }
    return order;
}

/* ---- the rule ---- */

static int rule_rows(struct td_call *call)
{
    const struct td_tensor *self = td_arg(call, SELF), *rows = td_arg(call, rows_at(call));
    int64_t shape[TD_MAX_RANK];
    if (!rows)
        return td_rule_shape(call, GRAD, "grad", "self's", self->rank, self->shape);
    int err = td_rule_whole(call, rows_at(call), "rows");
    if (err)
        return err;
    if (!self->rank)
        return td_refuse(call, "self: has no rows, being of no dimension; one or more are right");
    memcpy(shape, self->shape, sizeof shape);
    shape[0] = rows->shape[0];
    return td_rule_shape(call, GRAD, "grad", "as many rows of self's as rows has", self->rank,
                         shape);
}

/* A rate, which PyTorch's optimizers take from 0 on. */
static int rule_rate(struct td_call *call, int i, const char *name)
{
    double x = call->arg[i].f;
    return x >= 0 ? 0 : td_refuse(call, "%s: is %.15g; 0 and up is right", name, x);
}

static int rule_number(struct td_call *call, int i, const char *name)
{
    double x = call->arg[i].f;
    return x >= 0 && x < 1
               ? 0
               : td_refuse(call, "%s: is %.15g; from 0 up to, but not, 1 is right", name, x);
}

static int rule_adam(struct td_call *call)
{
    int err = rule_number(call, BETA1, "beta1");
    err = err ? err : rule_number(call, BETA2, "beta2");
    err = err ? err : rule_rate(call, LR, "lr");
    err = err ? err : rule_rate(call, DECAY, "weight_decay");
    err = err ? err : rule_rate(call, EPS, "eps");
    if (!err && call->arg[STEP].i < 0)
        return td_refuse(call,
                         "step: is %lld; this step's number, 1 of the first one, is right, or 0 "
                         "where lr is corrected for it already",
                         (long long)call->arg[STEP].i);
    return err;
}

static int rule_sgd(struct td_call *call)
{
    int err = rule_rate(call, SGD_LR, "lr");
    err = err ? err : rule_rate(call, MOMENTUM, "momentum");
    return err ? err : rule_rate(call, SGD_DECAY, "weight_decay");
}

static int rule(struct td_call *call)
{
    static const char *const of_adam[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
    static const char *const of_sgd[] = {"momentum_buffer"};
    bool sgd = kind_of(call) == TD_OPTIM_sgd;
    const struct td_tensor *self = td_arg(call, SELF);
    const char *const *names = sgd ? of_sgd : of_adam;
    int states = sgd ? 1 : 3, err = td_rule_type(call, GRAD, "grad");
    for (int i = 0; i < states && !err; i++) {
        err = td_rule_type(call, STATES + i, names[i]);
        err = err ? err
                  : td_rule_shape(call, STATES + i, names[i], "self's", self->rank, self->shape);
    }
    err = err ? err : rule_rows(call);
    err = err ? err : sgd ? rule_sgd(call) : rule_adam(call);
    if (err)
        return err;
    for (int i = 0; i <= states; i++) {
        call->out[i] = *self;
        call->out[i].weight = NULL;
    }
    call->n_out = 1 + states;
    if (!td_optim_of(call).to[states])
        call->out[states] = (struct td_tensor){.dtype = self->dtype, .rank = 1};
    return 0;
}

static int check(const struct td_call *call)
{
    const struct td_tensor *rows = td_arg(call, rows_at(call));
    int64_t all = rows ? td_arg(call, SELF)->shape[0] : 0;
    for (int64_t i = 0; rows && i < rows->shape[0]; i++) {
        int64_t row = td_get_whole(rows, i);
        if (row < 0 || row >= all)
            return all ? td_refuse(call, "rows: element %lld is %lld; from 0 to %lld is right",
                                   (long long)i, (long long)row, (long long)all - 1)
                       : td_refuse(call, "rows: element %lld is %lld, but self has no rows",
                                   (long long)i, (long long)row);
    }
    return 0;
}

static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_optim o = td_optim_of(call);
    prepared->scratch = td_optim_scratch(&o);
    return NULL;
}

static double flops(const struct td_call *call)
{
    return 20 * (double)td_numel(td_arg(call, GRAD)) + (double)td_numel(&call->out[0]);
}

td_kernel td_optim_ref;
TD_KERNELS_3(optim_f32);
TD_KERNELS_3(optim_f64);

static const struct td_impl impls[] = {
    TD_SIMD_3(optim_f32, TD_f32 | TD_bf16 | TD_f16, .in_place = 1, .prepare = prepare)
        TD_SIMD_3(optim_f64, TD_f64, .in_place = 1, .prepare = prepare)
            TD_REF(optim, .prepare = prepare),
    {0},
};

#define TD_STEP(which, units, arguments, results, formula, rows, ...)                              \
    const struct td_op td_op_##which = {                                                           \
        .schema = #which "(Tensor self, Tensor grad, " arguments ", bool maximize=False) -> "      \
                         "(Tensor self, " results ")",                                             \
        .doc = formula "; with rows, grad[i] is of self[rows[i]], and others stay as they are",    \
        .rule = rule,                                                                              \
        .dtypes = TD_FLOATS,                                                                       \
        .ulp = (units),                                                                            \
        .sums = true,                                                                              \
        .impls = impls,                                                                            \
        .flops = flops,                                                                            \
        .follows = 1 << (rows),                                                                    \
        .check = check,                                                                            \
        .mixes = TD_MAX_RANK,                                                                      \
        .family = &(const enum td_optim_kind){TD_OPTIM_##which},                                   \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
    };

TD_STEP(sgd, 8,
        "Tensor? momentum_buffer=None, Tensor? rows=None, *, float lr=0.001, float momentum=0.0, "
        "float dampening=0.0, float weight_decay=0.0, bool nesterov=False",
        "Tensor momentum_buffer",
        "PyTorch's SGD: g = grad + weight_decay * self; where there is momentum, b = momentum * b "
        "+ (1 - dampening) * g, or g where there was no b, and g = b, or g + momentum * b for "
        "nesterov; self - lr * g, and b; lr must not be negative",
        SGD_ROWS, "self=[n] grad=[n] lr=0.5 small", "self=[n,m] grad=[n,m] momentum=0.5 small",
        "self=[n,3] grad=[n,3] momentum_buffer=[n,3] lr=0.25 momentum=0.9 dampening=0.5 "
        "weight_decay=0.125 nesterov=True maximize=True small",
        "self=[n,m] grad=[5,m] momentum_buffer=[n,m] rows=[5]:i64<n momentum=0.5 small",
        "self=[7,2,n] grad=[m,2,n] rows=[m]:i32<7 lr=0.5 weight_decay=0.5 small")

/* Samples have beta2 0: of what a sum of squares never is, a second moment below 0, the square root
 * of a difference is left, for which there is no bound. Golden answers have others. */
#define TD_ADAM(which, formula)                                                                    \
    TD_STEP(which, 32,                                                                             \
            "Tensor exp_avg, Tensor exp_avg_sq, Tensor? max_exp_avg_sq=None, Tensor? rows=None, "  \
            "*, int step, float lr=0.001, float beta1=0.9, float beta2=0.999, float "              \
            "weight_decay=0.0, float eps=1e-08",                                                   \
            "Tensor exp_avg, Tensor exp_avg_sq, Tensor max_exp_avg_sq",                            \
            formula "m = beta1 * exp_avg + (1 - beta1) * g, v = beta2 * exp_avg_sq + (1 - beta2) " \
                    "* g * g, x = v, or max(max_exp_avg_sq, v) where that is given; self - lr / "  \
                    "(1 - beta1^step) * m / (sqrt(x) / sqrt(1 - beta2^step) + eps), m, v and x; "  \
                    "step 0 leaves out what corrects lr; lr must not be negative",                 \
            ROWS, "self=[n] grad=[n] exp_avg=[n] exp_avg_sq=[n] step=1 lr=0.5 beta2=0.0 small",    \
            "self=[n,m] grad=[n,m] exp_avg=[n,m] exp_avg_sq=[n,m] max_exp_avg_sq=[n,m] step=3 "    \
            "lr=0.25 beta1=0.5 beta2=0.0 weight_decay=0.5 eps=1.0 maximize=True small",            \
            "self=[n,m] grad=[5,m] exp_avg=[n,m] exp_avg_sq=[n,m] rows=[5]:i64<n step=0 lr=0.5 "   \
            "beta2=0.0 eps=1.0 small",                                                             \
            "self=[7,2,n] grad=[m,2,n] exp_avg=[7,2,n] exp_avg_sq=[7,2,n] "                        \
            "max_exp_avg_sq=[7,2,n] rows=[m]:i32<7 step=100 weight_decay=0.25 beta2=0.0 eps=8.0 "  \
            "small")

TD_ADAM(adam, "PyTorch's Adam: g = grad + weight_decay * self, ")
TD_ADAM(adamw, "PyTorch's AdamW: first self = self - lr * weight_decay * self; g = grad, ")
