/* Operators that make tensors from numbers alone: zeros, ones, full, arange, rand. Having no tensor
 * to take a backend from, they are dispatched by their arguments dtype, layout and device
 * (BackendSelect, dispatch/backends.c); what is judged here are sizes, types and values. */
#include "kernels/factory/factory.h"

#include <errno.h>
#include <math.h>
#include <time.h>
#include <unistd.h>

td_kernel td_zeros_ref, td_ones_ref, td_full_ref, td_arange_ref, td_rand_ref;
TD_KERNELS_3(zeros);
TD_KERNELS_3(ones);
TD_KERNELS_3(full);
TD_KERNELS_3(arange);
TD_KERNELS_3(rand);

/* ---- rules ---- */

/* The result's type, and the one argument that says nothing of it. */
static int typed(struct td_call *call, enum td_dtype otherwise)
{
    const struct td_value *dtype = &call->arg[call->n_args - 4],
                          *pin = &call->arg[call->n_args - 1];
    call->n_out = 1;
    call->out[0].dtype = dtype->kind == TD_KIND_dtype ? dtype->dtype : otherwise;
    if (!(call->out[0].dtype & call->op->dtypes))
        return td_refuse(call, "dtype: %s is not made by this operator; %s",
                         td_dtype_name(call->out[0].dtype),
                         call->op->dtypes == TD_FLOATS ? "FP16, BF16, FP32 or FP64 is right"
                                                       : "any type but BOOL is right");
    if (pin->kind == TD_KIND_bool && pin->i)
        return td_refuse(call, "pin_memory: there is no device here that memory is pinned for; "
                               "false or null is right");
    return 0;
}

/* The result's shape, from argument 0. */
static int sized(struct td_call *call)
{
    const struct td_value *size = &call->arg[0];
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

static int rule_constant(struct td_call *call)
{
    int err = sized(call);
    return err ? err : typed(call, TD_f32);
}

/* Whether a value fits the type. A negative one may wrap round to an unsigned type, as in ATen, and
 * infinities and NaN are numbers of any float type. */
static bool holds(enum td_dtype dtype, const struct td_value *v)
{
    double x = td_scalar(v), size = (double)td_dtype_size(dtype);
    if (dtype == TD_bool)
        return true;
    if (td_dtype_kind(dtype) != 'f') {
        double end = ldexp(1, (int)(8 * size) - (dtype != TD_u8));
        return dtype == TD_u8 ? x > -end && x < end : x >= -end && x < end;
    }
    return !isfinite(x) || fabs(x) <= td_most(dtype);
}

static int rule_full(struct td_call *call)
{
    const struct td_value *value = &call->arg[1];
    int err = sized(call);
    if (err || (err = typed(call, value->kind == TD_KIND_float ? TD_f32
                                  : value->kind == TD_KIND_int ? TD_i64
                                                               : TD_bool)))
        return err;
    if (!holds(call->out[0].dtype, value))
        return td_refuse(call, "fill_value: %g is beyond what %s can hold", td_scalar(value),
                         td_dtype_name(call->out[0].dtype));
    return 0;
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
    if (!isfinite(td_scalar(p.start)) || !isfinite(td_scalar(p.end)) || !td_scalar(p.step) ||
        !isfinite(td_scalar(p.step)))
        return td_refuse(call, "step: start, end and step must be finite, and step not 0");
    double n = count(&p, real);
    if (n < 0)
        return td_refuse(call,
                         "step: %g leads from %g away from %g; one of the other sign is right",
                         td_scalar(p.step), td_scalar(p.start), td_scalar(p.end));
    if (n >= 0x1p62)
        return td_refuse(call, "end: the result would be too large to be counted");
    call->out[0].rank = 1;
    call->out[0].shape[0] = (int64_t)n;
    return 0;
}

uint64_t td_factory_seed(const struct td_call *call)
{
    uint64_t seed;
    if (call->arg[1].kind == TD_KIND_int)
        return (uint64_t)call->arg[1].i;
    if (!getentropy(&seed, sizeof seed))
        return seed;
    struct timespec t; /* where a sandbox forbids it */
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec << 32 ^ (uint64_t)t.tv_nsec;
}

/* ---- operators ---- */

#define TD_MADE                                                                                    \
    ", *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "                \
    "pin_memory=None) -> Tensor"
#define TD_FACTORY(what, types)                                                                    \
    static const struct td_impl what##_impls[] = {                                                 \
        TD_SIMD_3(what, types) TD_REF(what),                                                       \
        {0},                                                                                       \
    }

TD_FACTORY(zeros, TD_ALL);
TD_FACTORY(ones, TD_ALL);
TD_FACTORY(full, TD_ALL);
TD_FACTORY(arange, TD_f32 | TD_f64 | TD_i32 | TD_i64);
TD_FACTORY(rand, TD_f32 | TD_f64);

const struct td_op td_op_zeros = {
    .schema = "zeros(int[] size" TD_MADE,
    .doc = "out[i] = 0",
    .rule = rule_constant,
    .dtypes = TD_ALL,
    .impls = zeros_impls,
    .samples = (const char *const[]){"size=[n]", "size=[2,n]", NULL},
};
const struct td_op td_op_ones = {
    .schema = "ones(int[] size" TD_MADE,
    .doc = "out[i] = 1",
    .rule = rule_constant,
    .dtypes = TD_ALL,
    .impls = ones_impls,
    .samples = (const char *const[]){"size=[n]", "size=[2,n]", NULL},
};
const struct td_op td_op_full = {
    .schema = "full(int[] size, Scalar fill_value" TD_MADE,
    .doc = "out[i] = fill_value",
    .rule = rule_full,
    .dtypes = TD_ALL,
    .impls = full_impls,
    .samples = (const char *const[]){"size=[n] fill_value=-2.75", "size=[2,n] fill_value=7", NULL},
};
const struct td_op td_op_arange = {
    .schema = "arange(Scalar end" TD_MADE,
    .doc = "out[i] = i, below end",
    .rule = rule_arange,
    .dtypes = TD_ALL & ~TD_bool,
    .ulp = 1,
    .impls = arange_impls,
    .samples = (const char *const[]){"end=n", "end=9.5", NULL},
};
const struct td_op td_op_arange_start = {
    .schema = "arange.start(Scalar start, Scalar end" TD_MADE,
    .doc = "out[i] = start + i, below end",
    .rule = rule_arange,
    .dtypes = TD_ALL & ~TD_bool,
    .ulp = 1,
    .impls = arange_impls,
    .samples = (const char *const[]){"start=-3 end=n", "start=0.25 end=9.5", NULL},
};
const struct td_op td_op_arange_start_step = {
    .schema = "arange.start_step(Scalar start, Scalar end, Scalar step=1" TD_MADE,
    .doc = "out[i] = start + i * step, before end",
    .rule = rule_arange,
    .dtypes = TD_ALL & ~TD_bool,
    .ulp = 1,
    .impls = arange_impls,
    .samples = (const char *const[]){"start=0 end=n step=3", "start=9.5 end=-7 step=-1.25", NULL},
};
const struct td_op td_op_rand_generator = {
    .schema = "rand.generator(int[] size, *, Generator? generator" /* keyword-only from here */
              ", ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
              "pin_memory=None) -> Tensor",
    .doc = "out[i] = uniform in [0, 1), by Philox4x32-10 from the seed generator",
    .rule = rule_constant,
    .dtypes = TD_FLOATS,
    .impls = rand_impls,
    .samples = (const char *const[]){"size=[n] generator=7", "size=[2,n] generator=-1", NULL},
};
