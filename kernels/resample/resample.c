/* The descriptors of operators that resample, made from resample.def, and the weights: of linear
 * and cubic interpolation (R. Keys, "Cubic convolution interpolation for digital image processing",
 * 1981), or of the same curves stretched over all elements that a result stands for (antialias). */
#include "kernels/resample/resample.h"
#include "kernels/sizes.h"
#include "kernels/upsample.h"

#include <errno.h>
#include <math.h>

/* ---- weights ---- */

/* The cubic of parameter a at distance x. */
static double cubic(double x, double a)
{
    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

static int64_t clamped(int64_t x, int64_t last)
{
    return x < 0 ? 0 : x > last ? last : x;
}

/* Between which elements result o lies, rounded step by step as in ATen. */
static double place_of(const struct td_resampled *a, int64_t o)
{
    float scale = (float)a->scale, middle = scale * ((float)o + 0.5f) - 0.5f;
    double x = a->wide ? a->scale * ((double)o + 0.5) - 0.5 : (double)middle;
    if (a->align_corners)
        x = a->wide ? a->scale * (double)o : (double)(scale * (float)o);
    return x < 0 && !a->cubic ? 0 : x;
}

/* Element first + k that result o is made of where all of them have their share; its weight before
 * all are divided by their sum. */
static double share(const struct td_resampled *a, int64_t o, int k, int64_t *at)
{
    double reach = (a->cubic ? 2 : 1) * (a->scale > 1 ? a->scale : 1);
    double middle = a->scale * ((double)o + 0.5), inverse = a->scale > 1 ? 1 / a->scale : 1;
    double low = middle - reach + 0.5;
    int64_t first = low < 0 ? 0 : td_size_of_real(low);
    int64_t end = td_size_of_real(middle + reach + 0.5);
    double x = ((double)(first + k) - middle + 0.5) * inverse;
    *at = clamped(first + k, a->in - 1);
    if (first + k >= end || first + k >= a->in)
        return 0;
    return a->cubic ? cubic(x, -0.5) : fabs(x) < 1 ? 1 - fabs(x) : 0;
}

double td_resample_sum(const struct td_resampled *a, int64_t o)
{
    int64_t at;
    double sum = 0;
    for (int k = 0; k < a->taps && a->antialias; k++)
        sum += share(a, o, k, &at);
    return sum != 0 ? sum : 1;
}

double td_resample_tap(const struct td_resampled *a, int64_t o, int k, int64_t *at)
{
    if (a->antialias)
        return share(a, o, k, at);
    double x = place_of(a, o);
    if (a->in == a->out && !a->cubic) /* whatever the factors say, as in ATen */
        x = (double)o;
    int64_t before = td_size_of_real(floor(x));
    before = before > a->in - 1 ? a->in - 1 : before;
    double t = x - (double)before;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    k -= a->cubic;
    *at = clamped(before + k, a->in - 1);
    if (a->taps == 1)
        return 1;
    return a->cubic ? cubic(fabs(t - k), -0.75) : k ? t : 1 - t;
}

size_t td_resample_size(const struct td_resampled axis[3])
{
    size_t size = 0;
    for (int d = 0; d < 3; d++)
        size += (size_t)axis[d].taps * (size_t)axis[d].out * (sizeof(int64_t) + sizeof(double));
    return (size + 63) / 64 * 64;
}

int64_t td_resample_step(const struct td_resampled axis[3])
{
    return (axis[2].out + 15) / 16 * 16;
}

void td_resample_fill(const struct td_resampled axis[3], struct td_resample_table table[3],
                      void *room)
{
    for (int d = 0; d < 3; d++) {
        const struct td_resampled *a = &axis[d];
        int64_t n = a->taps * a->out;
        table[d] = (struct td_resample_table){room, (double *)((int64_t *)room + n)};
        room = table[d].weight + n;
        for (int64_t o = 0; o < a->out; o++) {
            double sum = td_resample_sum(a, o);
            for (int64_t k = 0; k < a->taps; k++)
                table[d].weight[k * a->out + o] =
                    td_resample_tap(a, o, (int)k, &table[d].at[k * a->out + o]) / sum;
        }
    }
}

/* ---- rules ---- */

/* Where the factors stand, as td_rule_upsample has it. */
static int factors_of(const struct td_call *call)
{
    const struct td_resample *family = call->op->family;
    return family->vec ? 3 : -3;
}

static int rule(struct td_call *call)
{
    const struct td_resample *family = call->op->family;
    int err = td_rule_upsample(call, family->dims, factors_of(call));
    for (int d = 0; !err && d < family->dims && family->antialias; d++) {
        int64_t in = call->arg[0].tensor.shape[d + 2], out = call->out[0].shape[d + 2];
        double f = td_upsample_factor(call, family->dims, factors_of(call), d);
        if (f > 0 && 1 / f > 4 * ((double)in / (double)out + 1))
            err = td_refuse(call, "scales: %.15g does not make %lld of %lld elements, nor nearly",
                            f, (long long)out, (long long)in);
    }
    return err;
}

static double scale_of(const struct td_resampled *a, double factor)
{
    double scale = factor > 0 ? 1 / factor : (double)a->in / (double)a->out;
    if (a->align_corners)
        scale = a->out > 1 ? (double)(a->in - 1) / (double)(a->out - 1) : 0;
    return a->wide ? scale : (double)(float)scale;
}

void td_resample_axes(const struct td_call *call, struct td_resampled axis[3])
{
    const struct td_resample *family = call->op->family;
    const struct td_tensor *in = &call->arg[0].tensor, *out = &call->out[0];
    for (int d = 0; d < 3; d++) {
        struct td_resampled *a = &axis[d];
        int own = d - (3 - family->dims), at = in->rank - 3 + d;
        *a = (struct td_resampled){.in = 1, .out = 1, .taps = 1, .scale = 1};
        if (own < 0)
            continue;
        *a = (struct td_resampled){.in = in->shape[at],
                                   .out = out->shape[at],
                                   .taps = family->cubic ? 4 : 2,
                                   .cubic = family->cubic,
                                   .antialias = family->antialias,
                                   .align_corners = call->arg[2].i,
                                   .wide = in->dtype == TD_f64};
        a->scale = scale_of(a, td_upsample_factor(call, family->dims, factors_of(call), own));
        if (a->antialias && a->in == a->out) { /* nothing is done, whatever the factors say */
            a->taps = 1;
            a->cubic = a->antialias = a->align_corners = false;
        }
        if (a->antialias) { /* as many as the curve, stretched, spans; never more than there are */
            double reach = (a->cubic ? 2 : 1) * (a->scale > 1 ? a->scale : 1);
            double most = ceil(reach) * 2 + 1;
            a->taps = (int)td_index_of_real(fmin(most, (double)a->in), INT32_MAX);
        }
    }
}

/* ---- descriptors ---- */

static double flops(const struct td_call *call)
{
    struct td_resampled a[3];
    td_resample_axes(call, a);
    double lines = (double)a[0].taps * a[1].taps, n = (double)td_numel(&call->out[0]);
    return n * lines * (1 + 2.0 * a[2].taps) + 16.0 * (double)td_numel(&call->arg[0].tensor);
}

#define MOST_TAPS ((size_t)1 << 20) /* of the last dimension's table, whatever self's size */

/* Elements of a dimension are counted in 32 bits. Beside the tables there are: the last one as rows
 * want it, and self as numbers that they compute with. */
static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    const struct td_tensor *in = &call->arg[0].tensor;
    struct td_resampled a[3];
    td_resample_axes(call, a);
    bool copied = in->dtype & (TD_u8 | TD_f16 | TD_bf16);
    size_t number = in->dtype == TD_u8 ? 8 : 4;
    size_t last = (2 * (size_t)a[2].taps + 1) * (size_t)td_resample_step(a);
    if (a[2].in >= INT32_MAX)
        return "its last dimension is longer than 32 bits count";
    if (last > 2 * (size_t)td_numel(in) + MOST_TAPS) /* a long row to a few elements */
        return "its table of taps is much larger than what it reads";
    if (td_numel(&call->out[0]))
        prepared->scratch =
            td_resample_size(a) + last * 8 + (copied ? (size_t)td_numel(in) * number : 0);
    return NULL;
}

td_kernel td_resample_ref;
TD_KERNELS_3(resample);
static const struct td_impl impls[] = {
    TD_SIMD_3(resample, TD_FLOATS | TD_u8, .prepare = prepare) TD_REF(resample),
    {0},
};

#define TD_RESAMPLE(symbol, n, curve, smooth, factors, text, formula, types, ...)                  \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = formula,                                                                            \
        .rule = rule,                                                                              \
        .dtypes = types,                                                                           \
        .ulp = 16,                                                                                 \
        .sums = true,                                                                              \
        .impls = impls,                                                                            \
        .family =                                                                                  \
            &(const struct td_resample){                                                           \
                .dims = n, .cubic = curve, .antialias = smooth, .vec = factors},                   \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
        .flops = flops,                                                                            \
    };
#include "kernels/resample/resample.def"
