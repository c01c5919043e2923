/* The operators that make tensors from numbers, from factory.def. Those without a tensor to take a
 * backend from are dispatched by their arguments dtype, layout and device (BackendSelect,
 * dispatch/setup.c); what is judged here are sizes, types and values. */
#include "kernels/factory/factory.h"
#include "kernels/sizes.h"

#include <errno.h>
#include <math.h>
#include <unistd.h>

/* ---- rules ---- */

/* The result's type, and the arguments that say nothing of it. */
static int typed(struct td_call *call, enum td_dtype otherwise)
{
    int tail = td_factory(call)->tail, at = call->n_args - tail;
    const struct td_value *dtype = &call->arg[at], *pin = &call->arg[at + 3];
    call->n_out = 1;
    call->out[0].dtype = tail && dtype->kind == TD_KIND_dtype ? dtype->dtype : otherwise;
    if (!(call->out[0].dtype & call->op->dtypes))
        return td_refuse(call, "dtype: %s is not made by this operator; %s",
                         td_dtype_name(call->out[0].dtype),
                         call->op->dtypes == TD_FLOATS ? "FP16, BF16, FP32 or FP64 is right"
                                                       : "any type but BOOL is right");
    if (tail && pin->kind == TD_KIND_bool && pin->i)
        return td_refuse(call, "pin_memory: there is no device here that memory is pinned for; "
                               "false or null is right");
    return tail && call->arg[0].kind == TD_KIND_tensor ? td_rule_placement(call, at + 1) : 0;
}

/* The result's shape, from the argument size. */
static int sized(struct td_call *call, const struct td_value *size)
{
    if (size->ints.n > TD_MAX_RANK)
        return td_refuse(call, "size: has %d dimensions; up to %d are right", size->ints.n,
                         TD_MAX_RANK);
    call->out[0].rank = size->ints.n;
    for (int d = 0; d < size->ints.n; d++) {
        if (size->ints.v[d] < 0)
            return td_refuse(call, "size: %lld is negative; 0 and up is right",
                             (long long)size->ints.v[d]);
        call->out[0].shape[d] = size->ints.v[d];
    }
    return 0;
}

/* Whether a value fits the type. A negative one may wrap round to an unsigned type, as in ATen, and
 * infinities and NaN are numbers of any float type. */
static bool holds(enum td_dtype dtype, const struct td_value *v)
{
    double x = td_scalar(v), size = (double)td_dtype_size(dtype);
    if (dtype == TD_bool)
        return true;
    if (v->kind == TD_KIND_int && v->wide)
        return td_dtype_kind(dtype) == 'f' ? x <= td_most(dtype) : dtype == TD_u64;
    if (td_dtype_kind(dtype) != 'f') {
        if (v->kind != TD_KIND_float && size == 8) /* which no double says exactly */
            return true;
        bool sign = td_dtype_kind(dtype) == 'i';
        double end = ldexp(1, (int)(8 * size) - sign);
        return x < end && (sign ? x >= -end : x > -end);
    }
    return !isfinite(x) || fabs(x) <= td_most(dtype);
}

static int rule_shaped(struct td_call *call)
{
    const struct td_value *value = td_factory_constant(call), *size = call->arg;
    enum td_factory_type from = td_factory(call)->otherwise;
    enum td_dtype otherwise = from == TD_FACTORY_real ? TD_f32 : TD_i64;
    bool like = call->arg[0].kind == TD_KIND_tensor;
    int err = 0;
    call->out[0] = (struct td_tensor){0};
    while (size < call->arg + call->n_args && size->kind != TD_KIND_ints)
        size++;
    if (size < call->arg + call->n_args)
        err = sized(call, size);
    else if (like)
        call->out[0] = call->arg[0].tensor;
    if (from == TD_FACTORY_like)
        otherwise = call->arg[0].tensor.dtype;
    else if (from == TD_FACTORY_number && value->kind != TD_KIND_int)
        otherwise = value->kind == TD_KIND_float ? TD_f32 : TD_bool;
    err = err ? err : typed(call, otherwise);
    if (!err && value && !holds(call->out[0].dtype, value))
        return td_refuse(call, "fill_value: %.15g is beyond what %s can hold", td_scalar(value),
                         td_dtype_name(call->out[0].dtype));
    return err;
}

static int rule_strided(struct td_call *call)
{
    int n = call->arg[0].ints.n, given = call->arg[1].ints.n;
    if (n != given)
        return td_refuse(call, "stride: has %d numbers; as many as size, %d, are right", given, n);
    return rule_shaped(call);
}

/* How many: of whole numbers exactly, else in doubles, as ATen counts. Below 0: none can be told,
 * or the step leads away. */
static double count(const struct td_progression *p, bool real)
{
    if (!real) {
        __int128 step = td_scalar_int(p->step);
        __int128 far = (__int128)td_scalar_int(p->end) - td_scalar_int(p->start);
        return far && (far > 0) != (step > 0) ? -1
                                              : (double)((far + step - (step > 0 ? 1 : -1)) / step);
    }
    double far = td_scalar(p->end) - td_scalar(p->start), step = td_scalar(p->step);
    double n = far && (far > 0) != (step > 0) ? -1 : ceil(far / step);
    return isfinite(n) ? n : -1;
}

static int rule_arange(struct td_call *call)
{
    struct td_progression p = td_progression(call);
    bool real = p.start->kind == TD_KIND_float || p.end->kind == TD_KIND_float ||
                p.step->kind == TD_KIND_float;
    int err = typed(call, real ? TD_f32 : TD_i64);
    if (err)
        return err;
    if (p.start->wide || p.end->wide || p.step->wide)
        return td_refuse(call, "end: start, end and step must be of INT64");
    if (!isfinite(td_scalar(p.start)) || !isfinite(td_scalar(p.end)) || !td_scalar(p.step) ||
        !isfinite(td_scalar(p.step)))
        return td_refuse(call, "step: start, end and step must be finite, and step not 0");
    double n = count(&p, real);
    if (n < 0)
        return td_refuse(
            call, "step: %.15g leads from %.15g away from %.15g; one of the other sign is right",
            td_scalar(p.step), td_scalar(p.start), td_scalar(p.end));
    if (n >= 0x1p62)
        return td_refuse(call, "end: the result would be too large to be counted");
    call->out[0].rank = 1;
    call->out[0].shape[0] = td_size_of_real(n);
    return 0;
}

static int rule_steps(struct td_call *call)
{
    int64_t steps = call->arg[2].i;
    if (steps < 0)
        return td_refuse(call, "steps: %lld is negative; 0 and up is right", (long long)steps);
    call->out[0].rank = 1;
    call->out[0].shape[0] = steps;
    return typed(call, TD_f32);
}

static int rule_square(struct td_call *call)
{
    for (int d = 0; d < 2; d++) {
        int64_t size = call->arg[call->arg[d].kind == TD_KIND_int && call->n_args == 6 ? d : 0].i;
        if (size < 0)
            return td_refuse(call, "%s: %lld is negative; 0 and up is right", d ? "m" : "n",
                             (long long)size);
        call->out[0].shape[d] = size;
    }
    call->out[0].rank = 2;
    return typed(call, TD_f32);
}

static int rule_range(struct td_call *call)
{
    int64_t low = td_range_low(call), last = call->arg[call->arg[1].kind == TD_KIND_int].i;
    int err = rule_shaped(call);
    if (err)
        return err;
    if (last <= low)
        return td_refuse(call, "high: %lld leaves nothing to draw from; above %lld is right",
                         (long long)last, (long long)low);
    last--;
    if (!td_holds_whole(call->out[0].dtype, low) || !td_holds_whole(call->out[0].dtype, last))
        return td_refuse(call, "high: from %lld to %lld is beyond what %s can hold", (long long)low,
                         (long long)last, td_dtype_name(call->out[0].dtype));
    return 0;
}

static int rule_order(struct td_call *call)
{
    int64_t n = call->arg[0].i;
    int err = typed(call, TD_i64);
    if (err)
        return err;
    if (n < 0)
        return td_refuse(call, "n: %lld is negative; 0 and up is right", (long long)n);
    if (n > 1 &&
        (!td_holds_whole(call->out[0].dtype, n - 1) || !td_holds_whole(call->out[0].dtype, n - 2)))
        return td_refuse(call, "n: %lld is more than %s can count", (long long)n,
                         td_dtype_name(call->out[0].dtype));
    call->out[0].rank = 1;
    call->out[0].shape[0] = n;
    return 0;
}

static int rule_triangle(struct td_call *call)
{
    int rank = call->arg[0].tensor.rank;
    if (rank < 2)
        return td_refuse(call, "self: has %d dimensions; 2 and up are right", rank);
    return rule_shaped(call);
}

/* ---- what chance needs ---- */

uint64_t td_factory_seed(const struct td_call *call)
{
    uint64_t seed;
    int given = td_factory(call)->seed;
    if (given >= 0 && call->arg[given].kind == TD_KIND_int)
        return (uint64_t)call->arg[given].i;
    bool random = !getentropy(&seed, sizeof seed); /* a sandbox may forbid it */
    return random ? seed : (uint64_t)td_clock_ns();
}

void td_factory_order(const struct td_call *call)
{
    const struct td_tensor *out = &call->out[0];
    uint64_t seed = td_factory_seed(call);
    int64_t n = td_numel(out);
    for (int64_t i = 0; i < n; i++)
        td_put_whole(out, i, i);
    for (int64_t i = n - 1; i > 0 && (i % TD_STRIDE || !td_stopped()); i--) {
        uint32_t word[4];
        td_philox(seed, (uint64_t)i, word);
        int64_t with = (int64_t)td_one_of(td_philox_word(word, 0), (uint64_t)i + 1);
        int64_t here = td_get_whole(out, i);
        td_put_whole(out, i, td_get_whole(out, with));
        td_put_whole(out, with, here);
    }
}

static double flops(const struct td_call *call)
{
    static const double cost[] = {
        [TD_MAKE_line] = 2,   [TD_MAKE_powers] = 60, [TD_MAKE_uniform] = 20, [TD_MAKE_normal] = 80,
        [TD_MAKE_whole] = 20, [TD_MAKE_order] = 60,  [TD_MAKE_upper] = 0};
    double one = cost[td_factory(call)->make];
    return (one > 0 ? one : 1) * (double)td_numel(&call->out[0]);
}

/* ---- operators ---- */

td_kernel td_factory_ref;
TD_KERNELS_3(factory);

static const struct td_impl impls[] = {TD_SIMD_3(factory, TD_ALL) TD_REF(factory), {0}};

#define TD_FACTORY(symbol, text, formula, judged, how, at, seed_at, tail_, type, types, bound,     \
                   ...)                                                                            \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = "out[i] = " formula,                                                                \
        .rule = rule_##judged,                                                                     \
        .dtypes = types,                                                                           \
        .ulp = bound,                                                                              \
        .impls = impls,                                                                            \
        .mixes = TD_MAKE_##how == TD_MAKE_lower || TD_MAKE_##how == TD_MAKE_upper ? 2 : 0,         \
        .flops = flops,                                                                            \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
        .family =                                                                                  \
            &(const struct td_factory){TD_MAKE_##how, at, seed_at, tail_, TD_FACTORY_##type},      \
    };
#include "kernels/factory/factory.def"
#undef TD_FACTORY
