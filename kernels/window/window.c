/* The descriptors of the pools, made from window.def, and the rule that judges their windows. */
#include "kernels/window/window.h"
#include "kernels/sizes.h"

#include <errno.h>

#define LARGEST INT32_MAX /* of a window's sizes and steps, as in ATen */

/* ---- geometry ---- */

static const struct td_window *family_of(const struct td_call *call)
{
    return call->op->family;
}

/* What is pooled, and its result or the gradient of that. */
static const struct td_tensor *pooled(const struct td_call *call)
{
    return &call->arg[family_of(call)->backward].tensor;
}

static const struct td_tensor *result(const struct td_call *call)
{
    return family_of(call)->backward ? &call->arg[0].tensor : &call->out[0];
}

/* The entry for dimension d of a list; of an empty one otherwise. */
static int64_t entry(const struct td_value *list, int d, int64_t otherwise)
{
    return list->ints.n ? list->ints.v[d < list->ints.n ? d : 0] : otherwise;
}

/* Dimension d of the windows, without its sizes in and out. */
static struct td_axis axis_of(const struct td_call *call, int d)
{
    const struct td_window *f = family_of(call);
    const struct td_value *arg = &call->arg[f->backward + 1];
    if (f->adaptive)
        return (struct td_axis){.dilation = 1, .adaptive = true};
    int64_t kernel = entry(&arg[0], d, 0);
    return (struct td_axis){.kernel = kernel,
                            .stride = entry(&arg[1], d, kernel),
                            .padding = entry(&arg[2], d, 0),
                            .dilation = f->kind == TD_WINDOW_max ? entry(&arg[3], d, 1) : 1};
}

struct td_pool td_pool_of(const struct td_call *call)
{
    const struct td_window *f = family_of(call);
    const struct td_tensor *in = pooled(call), *out = result(call);
    struct td_pool pool = {.planes = 1, .include_pad = true};
    for (int d = 0; d < 3; d++) {
        struct td_axis *a = &pool.axis[d];
        int own = d - (3 - f->dims), at = in->rank - 3 + d;
        *a = (struct td_axis){.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
        if (own < 0)
            continue;
        *a = axis_of(call, own);
        a->in = in->shape[at];
        a->out = out->shape[at];
        if (a->adaptive && a->out && a->in % a->out == 0) { /* all windows are alike */
            a->adaptive = false;
            a->kernel = a->stride = a->in / a->out;
            a->dilation = 1;
        }
    }
    for (int d = 0; d < in->rank - f->dims; d++)
        pool.planes *= in->shape[d];
    if (f->kind == TD_WINDOW_mean && !f->adaptive) {
        const struct td_value *arg = &call->arg[f->backward + 5];
        pool.include_pad = arg[0].i;
        if (f->dims > 1 && arg[1].kind == TD_KIND_int)
            pool.divisor = arg[1].i;
    }
    return pool;
}

/* ---- rules ---- */

static int rule_rank(struct td_call *call)
{
    const struct td_window *f = family_of(call);
    const struct td_tensor *in = pooled(call);
    if (in->rank != f->dims + 1 && in->rank != f->dims + 2)
        return td_refuse(call,
                         "self: has %d dimensions; %d, channels and %d more, or %d with a "
                         "batch are right",
                         in->rank, f->dims + 1, f->dims, f->dims + 2);
    for (int d = in->rank - f->dims - !f->adaptive; d < in->rank; d++)
        if (!in->shape[d])
            return td_refuse(call, "self: dimension %d is 0; only the batch may be", d);
    return 0;
}

/* A list of the schema's own length, or of one entry for all; each from least to LARGEST. */
static int rule_list(struct td_call *call, int i, const char *name, int64_t least, bool empty)
{
    const struct td_value *list = &call->arg[i];
    int dims = family_of(call)->dims;
    if (!(list->ints.n == dims || list->ints.n == 1 || (empty && !list->ints.n)))
        return td_refuse(call, "%s: has %d entries; %d or 1 is right", name, list->ints.n, dims);
    for (int d = 0; d < list->ints.n; d++)
        if (list->ints.v[d] < least || list->ints.v[d] > LARGEST)
            return td_refuse(call, "%s: is %lld; from %lld to %d is right", name,
                             (long long)list->ints.v[d], (long long)least, LARGEST);
    return 0;
}

/* How many windows there are along a dimension. In ceil mode the last one may hang over, but begins
 * inside or in the padding before. */
static int64_t count_windows(const struct td_axis *a, bool ceil_mode)
{
    int64_t n = td_size_windows(a->in, 2 * a->padding + (ceil_mode ? a->stride - 1 : 0),
                                a->dilation * (a->kernel - 1) + 1, a->stride);
    bool beyond = n && (__int128)(n - 1) * a->stride >= (__int128)a->in + a->padding;
    return n - (ceil_mode && beyond);
}

static int rule_axis(struct td_call *call, int d, bool ceil_mode, int64_t *out)
{
    struct td_axis a = axis_of(call, d);
    const struct td_tensor *in = pooled(call);
    a.in = in->shape[in->rank - family_of(call)->dims + d];
    int64_t reach = a.dilation * (a.kernel - 1) + 1, padded;
    if (a.padding > reach / 2)
        return td_refuse(call,
                         "padding: is %lld; up to half of what a window spans, %lld, is right",
                         (long long)a.padding, (long long)(reach / 2));
    td_size_plus(a.in, 2 * a.padding, &padded);
    *out = count_windows(&a, ceil_mode);
    if (*out < 1)
        return td_refuse(call,
                         "kernel_size: a window spans %lld, but with its padding dimension %d "
                         "has %lld only",
                         (long long)reach, d, (long long)padded);
    return 0;
}

/* A mean is a sum divided by the elements of a window, with the padding where that counts. */
static int rule_count(struct td_call *call, const struct td_value *kernel,
                      const struct td_value *counts)
{
    int64_t all = 1;
    bool fits = true;
    for (int d = 0; d < family_of(call)->dims; d++)
        fits = td_size_times(all, entry(kernel, d, 0), &all) && fits;
    if (fits || !counts[0].i || (family_of(call)->dims > 1 && counts[1].kind == TD_KIND_int))
        return 0;
    return td_refuse(call, "kernel_size: a window has more elements than can be counted, 2^63 - 1");
}

/* The sizes of the result's last dimensions. */
static int rule_windows(struct td_call *call, int64_t *out)
{
    const struct td_window *f = family_of(call);
    bool max = f->kind == TD_WINDOW_max;
    int at = f->backward + 1, err = rule_list(call, at, "kernel_size", 1, false);
    err = err ? err : rule_list(call, at + 1, "stride", 1, true);
    err = err ? err : rule_list(call, at + 2, "padding", 0, false);
    if (max)
        err = err ? err : rule_list(call, at + 3, "dilation", 1, false);
    else if (f->dims > 1 && call->arg[at + 5].kind == TD_KIND_int && !call->arg[at + 5].i)
        err = td_refuse(call, "divisor_override: is 0; any other number is right");
    for (int d = 0; !err && d < f->dims; d++)
        err = rule_axis(call, d, call->arg[at + 3 + max].i, &out[d]);
    return err || max ? err : rule_count(call, &call->arg[at], &call->arg[at + 4]);
}

static int rule_sizes(struct td_call *call, int64_t *out)
{
    const struct td_value *size = &call->arg[1];
    int dims = family_of(call)->dims;
    if (size->ints.n != dims)
        return td_refuse(call, "output_size: has %d entries; %d is right", size->ints.n, dims);
    for (int d = 0; d < dims; d++) {
        if (size->ints.v[d] < 0)
            return td_refuse(call, "output_size: is %lld; 0 and up is right",
                             (long long)size->ints.v[d]);
        out[d] = size->ints.v[d];
    }
    return 0;
}

static int rule(struct td_call *call)
{
    const struct td_window *f = family_of(call);
    const struct td_tensor *in = pooled(call);
    int64_t sizes[3];
    int err = rule_rank(call);
    if (!err)
        err = f->adaptive ? rule_sizes(call, sizes) : rule_windows(call, sizes);
    if (err)
        return err;
    call->out[0] = *in;
    call->out[0].weight = NULL;
    for (int d = 0; d < f->dims; d++)
        call->out[0].shape[in->rank - f->dims + d] = sizes[d];
    call->n_out = 1;
    if (f->indices) {
        call->out[1] = call->out[0];
        call->out[1].dtype = TD_i64;
        call->n_out = 2;
    }
    return 0;
}

/* The gradient has the shape of what was pooled, and is told of results of the right one. */
static int rule_back(struct td_call *call)
{
    const struct td_window *f = family_of(call);
    const struct td_tensor *grad = &call->arg[0].tensor, *in = &call->arg[1].tensor;
    int64_t sizes[3];
    int err = rule_rank(call);
    if (err)
        return err;
    if (grad->rank != in->rank || grad->dtype != in->dtype)
        return td_refuse(call, "grad_output: has %d dimensions of %s; %d of %s, as self, are right",
                         grad->rank, td_dtype_name(grad->dtype), in->rank,
                         td_dtype_name(in->dtype));
    for (int d = 0; d < f->dims && f->adaptive; d++) {
        sizes[d] = grad->shape[in->rank - f->dims + d];
        if (!sizes[d])
            return td_refuse(call, "grad_output: dimension %d is 0; only the batch may be",
                             in->rank - f->dims + d);
    }
    err = f->adaptive ? 0 : rule_windows(call, sizes);
    for (int d = 0; !err && d < in->rank; d++) {
        int own = d - (in->rank - f->dims);
        int64_t right = own < 0 ? in->shape[d] : sizes[own];
        if (grad->shape[d] != right)
            err = td_refuse(call,
                            "grad_output: dimension %d is %lld; %lld, as in the result, is right",
                            d, (long long)grad->shape[d], (long long)right);
    }
    call->out[0] = *in;
    call->out[0].weight = NULL;
    call->n_out = 1;
    return err;
}

static double flops(const struct td_call *call)
{
    struct td_pool pool = td_pool_of(call);
    double cost = (double)pool.planes;
    for (int d = 0; d < 3; d++) {
        const struct td_axis *a = &pool.axis[d];
        double most = a->adaptive ? (double)a->in / (double)a->out + 2 : (double)a->kernel;
        cost *= (double)a->out * (most < (double)a->in ? most : (double)a->in);
    }
    return cost + 4 * (double)td_numel(&call->out[0]);
}

/* ---- descriptors ---- */

/* Where a maximum stands is counted in 32 bits. */
static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    (void)prepared;
    struct td_pool pool = td_pool_of(call);
    return pool.axis[0].in * pool.axis[1].in < INT32_MAX / pool.axis[2].in
               ? NULL
               : "its input has more positions than 32 bits count";
}

td_kernel td_window_ref;
TD_KERNELS_3(window);
static const struct td_impl impls[] = {
    TD_SIMD_3(window, TD_INTS | TD_FLOATS, .prepare = prepare) TD_REF(window),
    {0},
};

td_kernel td_window_back_ref;
TD_KERNELS_3(window_back);
static const struct td_impl impls_back[] = {
    TD_SIMD_3(window_back, TD_FLOATS) TD_REF(window_back),
    {0},
};

#define WINDOWS_given false
#define WINDOWS_adaptive true
#define TD_POOL(symbol, which, n, windows, results, text, formula, types, bound, ...)              \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = formula,                                                                            \
        .rule = rule,                                                                              \
        .dtypes = types,                                                                           \
        .ulp = bound,                                                                              \
        .sums = TD_WINDOW_##which == TD_WINDOW_mean,                                               \
        .impls = impls,                                                                            \
        .family = &(const struct td_window){.kind = TD_WINDOW_##which,                             \
                                            .dims = n,                                             \
                                            .adaptive = WINDOWS_##windows,                         \
                                            .indices = results == 2},                              \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
        .flops = flops,                                                                            \
    };
#define TD_POOL_BACK(symbol, windows, text, formula, ...)                                          \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = formula,                                                                            \
        .rule = rule_back,                                                                         \
        .dtypes = TD_FLOATS,                                                                       \
        .ulp = 8,                                                                                  \
        .sums = true,                                                                              \
        .impls = impls_back,                                                                       \
        .family = &(const struct td_window){.kind = TD_WINDOW_mean,                                \
                                            .dims = 2,                                             \
                                            .adaptive = WINDOWS_##windows,                         \
                                            .backward = true},                                     \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
        .flops = flops,                                                                            \
    };
#include "kernels/window/window.def"
