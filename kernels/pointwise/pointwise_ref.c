/* The pointwise operators' judge: one element at a time in double, or in INT64 where the operands
 * are whole numbers, by formulas that share nothing with the lanes'
 * but for functions that have no others: incomplete gamma functions and Bessel's, which tests in
 * Python judge. Integers wrap, as two's
 * complement hardware does. A number takes part in FP32 unless the tensors are FP64; compared, it
 * is first rounded to the tensors' type, as in ATen. */
#include "kernels/bessel.h"
#include "kernels/gamma.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/zeta.h"

#include "kernels/elementwise.h"
#include "kernels/none.h"
#include "kernels/pointwise/whole.h"

#include <math.h>

enum { NONE };

#define W_pick(a, b, c) ((a) != 0 ? (b) : (c))
#define W_add(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define W_sub(a, b) ((int64_t)((uint64_t)(a) - (uint64_t)(b)))
#define W_mul(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))

/* A limit beyond what the type holds is its last number. */
static int64_t held(int64_t x, enum td_dtype type)
{
    int bits = 8 * (int)td_dtype_size(type) - (td_dtype_kind(type) == 'i');
    int64_t high = bits > 62 ? INT64_MAX : ((int64_t)1 << bits) - 1;
    int64_t low = td_dtype_kind(type) == 'i' ? -high - 1 : 0;
    return x < low ? low : x > high ? high : x;
}

/* INT64_MAX limits nothing: UINT64 goes on behind it. */
static int64_t clamped(int64_t a, int64_t p, int64_t q, enum td_dtype type)
{
    if (type == TD_u64) {
        uint64_t least = p < 0 ? 0 : (uint64_t)p, most = q < 0 ? 0 : (uint64_t)q;
        uint64_t x = (uint64_t)a < least ? least : (uint64_t)a;
        return (int64_t)(x > most && q != INT64_MAX ? most : x);
    }
    int64_t low = a < held(p, type) ? held(p, type) : a;
    return low > held(q, type) ? held(q, type) : low;
}
#define W_clamp(a, p, q) clamped(a, p, q, type)
#define W_close(a, b)                                                                              \
    (fabsl((long double)(a) - (long double)(b)) <= real[1] + fabs(real[0] * (double)(b)))
#define W_upto(x, p, a, b) ((x) <= (p) ? (a) : (b))
#define AT_LEAST(a, p) ((a) < (p) ? (p) : (a))
#define AT_MOST(a, q) ((a) > (q) ? (q) : (a))

/* Beyond the type's bits nothing is left, or the sign alone. */
static bool beyond(int64_t b, enum td_dtype type)
{
    return b < 0 || b >= 8 * (int64_t)td_dtype_size(type);
}
#define W_shl(a, b) (beyond(b, type) ? 0 : (int64_t)((uint64_t)(a) << (b)))
#define W_shr(a, b) ((a) >> (beyond(b, type) ? 63 : (b)))

static double J_clamp(double a, double p, double q)
{
    double low = a < p ? p : a;
    return p != p || q != q ? NAN : low > q ? q : low;
}

/* A step that the result hangs on, rounded as the rows compute it: half types in FP32. */
static double J_step(double x, enum td_dtype type)
{
    return type == TD_f64 ? x : (double)(float)x;
}

static double J_remainder(double a, double b)
{
    double rest = fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* As Python divides: the quotient without its rest is whole but for rounding. */
static double J_floor_divide(double a, double b)
{
    double rest = fmod(a, b), quotient = (a - rest) / b;
    if (b == 0)
        return a / b;
    if (rest != 0 && (rest < 0) != (b < 0))
        quotient -= 1;
    return quotient == 0 ? copysign(0, a / b) : rint(quotient);
}

static double J_logaddexp(double a, double b)
{
    return a == b && isinf(a) ? a : fmax(a, b) + log1p(exp(-fabs(a - b)));
}

static double J_logaddexp2(double a, double b)
{
    return a == b && isinf(a) ? a : fmax(a, b) + log1p(exp2(-fabs(a - b))) * M_LOG2E;
}

static double J_logit(double a) /* near 1/2 by what is above it */
{
    double above = 2 * a - 1;
    return fabs(above) < 0.5 ? log1p(above / (1 - a)) : log(a / (1 - a));
}

static double J_sinc(double a) /* whole turns taken away before pi comes in */
{
    double whole = rint(a), turned = sin(M_PI * (a - whole));
    return a == 0 ? 1 : (fmod(whole, 2) != 0 ? -turned : turned) / (M_PI * a);
}

static double J_nextafter(double a, double b, enum td_dtype type)
{
    return type == TD_f64 ? nextafter(a, b) : (double)nextafterf((float)a, (float)b);
}

static double J_sigmoid(double a)
{
    return a < 0 ? exp(a) / (1 + exp(a)) : 1 / (1 + exp(-a));
}

static double J_silu(double a)
{
    return a < -40 ? a * exp(a / 2) * exp(a / 2) : a * J_sigmoid(a);
}

static double J_mish(double a) /* far below 0 exp(a) is a denormal with few digits */
{
    return a < -40 ? a * exp(a / 2) * exp(a / 2) : a * tanh(log1p(exp(a)));
}

static double J_gelu_tanh_slope(double a, double b)
{
    double scale = M_SQRT2 * M_2_SQRTPI / 2, square = b * b;
    double u = scale * b * (1 + 0.044715 * square), wide = cosh(u);
    double slope = scale * (1 + 3 * 0.044715 * square);
    return a * ((1 + tanh(u)) / 2 + b / 2 * slope / (wide * wide));
}

static double J_lgamma(double a)
{
    int sign;
    return lgamma_r(a, &sign);
}

/* Beside its root, by what a is above it, in powers of that. */
static double digamma_near(double a)
{
    static const long double by[] = {0.967672245447621170427L,  -0.442763168983592106093L,
                                     0.258499760955651010624L,  -0.163942705442406527504L,
                                     0.107824050691262365757L,  -0.0721995612564547109262L,
                                     0.0488042881641431072251L, -0.0331611264748473592923L};
    long double d = ((long double)a - 1.4616321449683622) - 9.549995429965697715e-17L, y = 0;
    for (int k = 7; k >= 0; k--)
        y = (y + by[k]) * d;
    return (double)y;
}

/* psi(a) + 1/a + 1/(a + 1) + ... is psi of a larger number, which has a series. */
static double J_digamma(double a)
{
    if (fabs(a - 1.4616321449683622) < 0.005)
        return digamma_near(a);
    long double z = a < 0 ? 1 - (long double)a : a, r = (long double)a - rintl(a), sum = 0;
    if (a == 0)
        return copysign(INFINITY, -a);
    if (a < 0 && (r == 0 || isinf(a)))
        return NAN;
    for (; z < 20; z++)
        sum += 1 / z;
    static const long double by[] = {1.0L / 12,  -1.0L / 120,     1.0L / 252, -1.0L / 240,
                                     1.0L / 132, -691.0L / 32760, 1.0L / 12};
    long double i = 1 / (z * z), tail = 0, pi = 3.14159265358979323846264338327950288L;
    for (int k = 6; k >= 0; k--)
        tail = (tail + by[k]) * i;
    long double y = logl(z) - 0.5L / z - tail - sum;
    return (double)(a < 0 ? y - pi / tanl(pi * r) : y);
}

/* Newton's steps towards erf(y) = |a|; towards log(erfc(y)) = log(1 - |a|) where that is near 1. */
static double J_erfinv(double a)
{
    long double x = fabsl((long double)a), y = x, slope = 2 / sqrtl(acosl(-1.0L));
    if (!(x < 1))
        return x == 1 ? copysign(INFINITY, a) : NAN;
    if (x > 0.5L)
        y = sqrtl(-logl(1 - x));
    for (int i = 0; i < 60; i++)
        y -= x > 0.5L ? (logl(1 - x) - logl(erfcl(y))) * erfcl(y) / (slope * expl(-y * y))
                      : (erfl(y) - x) / (slope * expl(-y * y));
    return copysign((double)y, a);
}

/* The power series of (a / 2)^2, whose terms are all positive, times exp(-|a|); from 40 on the
 * series of 1 / 8a, which is good to 30 digits there. */
static double J_i0e(double a)
{
    long double x = fabsl((long double)a), term = 1, sum = 1;
    if (isinf(a))
        return 0;
    if (x < 40) {
        for (int k = 1; k < 200; k++)
            sum += term *= x * x / 4 / ((long double)k * k);
        return (double)(sum * expl(-x));
    }
    for (int k = 1; k < 30; k++)
        sum += term *= (long double)((2 * k - 1) * (2 * k - 1)) / (8 * x * k);
    return (double)(sum / sqrtl(2 * acosl(-1.0L) * x));
}

/* As J_i0e: the power series has a factor k + 1 more below, the other one 4 less above. */
static double J_i1e(double a)
{
    long double x = fabsl((long double)a), term = 1, sum = 1;
    if (isinf(a))
        return copysign(0, a);
    if (x < 40) {
        for (int k = 1; k < 200; k++)
            sum += term *= x * x / 4 / ((long double)k * (k + 1));
        return (double)((long double)a / 2 * sum * expl(-x));
    }
    for (int k = 1; k < 30; k++)
        sum += term *= (long double)((2 * k - 1) * (2 * k - 1) - 4) / (8 * x * k);
    return copysign((double)(sum / sqrtl(2 * acosl(-1.0L) * x)), a);
}

/* From 5 on by its continued fraction; below 0 by the square in two exact parts. */
static double J_erfcx(double a)
{
    long double x = fabsl((long double)a), most = (long double)(float)x, y = 0;
    long double square = expl(most * most) * expl((x - most) * (x + most));
    if (a < -30)
        return INFINITY;
    if (x < 5)
        return (double)(square * erfcl((long double)a));
    for (int k = 40; k > 0; k--)
        y = k / 2.0L / (x + y);
    y = 1 / ((x + y) * sqrtl(acosl(-1.0L)));
    return (double)(a < 0 ? 2 * square - y : y);
}

double td_point_judge(enum td_point point, const double *x, const double *param, enum td_dtype type)
{
    double a = x[0], b = x[1], c = x[2], p = param[0], q = param[1], r = param[2];
    (void)b, (void)c, (void)p, (void)q, (void)r, (void)type;
    switch (point) {
#define TD_POINT(id, operands, result, cost, judge, whole, lanes)                                  \
    case TD_POINT_##id:                                                                            \
        assert(TD_MEANT(judge));                                                                   \
        return judge;
#include "kernels/pointwise/pointwise.def"
    default:
        return NAN;
    }
}

static int64_t whole(enum td_point point, const int64_t *x, const int64_t *param,
                     const double *real, enum td_dtype type)
{
    int64_t a = x[0], b = x[1], c = x[2], p = param[0], q = param[1], r = param[2];
    (void)b, (void)c, (void)p, (void)q, (void)r;
    switch (point) {
#define W_not(a) (type == TD_bool ? !(a) : ~(a))
#define TD_POINT(id, operands, result, cost, judge, formula, lanes)                                \
    case TD_POINT_##id:                                                                            \
        assert(TD_MEANT(formula));                                                                 \
        return formula;
#include "kernels/pointwise/pointwise.def"
    default:
        return 0;
    }
}

/* The same of UINT64, whose numbers go beyond INT64's. */
#pragma GCC diagnostic ignored "-Wtype-limits"
#undef W_add
#undef W_sub
#undef W_mul
#undef W_shl
#undef W_shr
#define W_add(a, b) ((a) + (b))
#define W_sub(a, b) ((a) - (b))
#define W_mul(a, b) ((a) * (b))
#define W_shl(a, b) (beyond((int64_t)(b), type) ? 0 : (a) << (b))
#define W_shr(a, b) (beyond((int64_t)(b), type) ? 0 : (a) >> (b))
#define W_quotient(a, b) ((b) ? (a) / (b) : 0)
#define W_floor_divide(a, b) W_quotient(a, b)
#define W_fmod(a, b) ((b) ? (a) % (b) : 0)
#define W_remainder(a, b) W_fmod(a, b)
#define W_pow(a, b) (td_pow_u64(a, b))
#undef W_clamp
#define W_clamp(a, p, q) clamped((int64_t)(a), (int64_t)(p), (int64_t)(q), type)

static uint64_t td_pow_u64(uint64_t a, uint64_t b)
{
    uint64_t result = 1;
    for (; b; b >>= 1, a *= a)
        if (b & 1)
            result *= a;
    return result;
}

static int64_t whole_u64(enum td_point point, const int64_t *x, const int64_t *param,
                         const double *real, enum td_dtype type)
{
    uint64_t a = (uint64_t)x[0], b = (uint64_t)x[1], c = (uint64_t)x[2], p = (uint64_t)param[0],
             q = (uint64_t)param[1], r = (uint64_t)param[2];
    (void)b, (void)c, (void)p, (void)q, (void)r;
    switch (point) {
#define TD_POINT(id, operands, result, cost, judge, formula, lanes)                                \
    case TD_POINT_##id:                                                                            \
        assert(TD_MEANT(formula));                                                                 \
        return (int64_t)(formula);
#include "kernels/pointwise/pointwise.def"
    default:
        return 0;
    }
}

static int64_t wrapped(const struct td_value *v, enum td_dtype type)
{
    uint64_t room;
    struct td_tensor one = {.data = &room, .dtype = type};
    td_put_whole(&one, 0, type == TD_bool ? td_scalar(v) != 0 : td_scalar_int(v));
    return td_get_whole(&one, 0);
}

static int64_t place(const struct td_tensor *t, const struct td_tensor *out, const int64_t *index)
{
    int64_t at = 0;
    for (int d = 0; d < t->rank; d++)
        at = at * t->shape[d] + (t->shape[d] == 1 ? 0 : index[d + out->rank - t->rank]);
    return at;
}

td_kernel td_pointwise_ref;
void td_pointwise_ref(const struct td_call *call)
{
    const struct td_pointwise *family = call->op->family;
    const struct td_tensor *out = &call->out[0];
    enum td_point point = td_point_of(call);
    enum td_dtype type = td_point_type(call);
    bool picks = td_point_result(point) == TD_POINT_IS_pick;
    bool reals = td_dtype_kind(type) == 'f';
    double x[TD_POINT_OPERANDS] = {0}, param[TD_POINT_PARAMS] = {0};
    int64_t w[TD_POINT_OPERANDS] = {0}, whole_param[TD_POINT_PARAMS] = {0};
    for (int k = 0; family->params[k]; k++) {
        td_point_param(call, k, &param[k], &whole_param[k]);
        if (reals && type != TD_f64)
            param[k] = (double)(float)param[k];
    }
    int64_t n = td_numel(out), index[TD_MAX_RANK] = {0};
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; family->operands[k]; k++) {
            const struct td_value *v = &call->arg[family->operands[k] - '0'];
            const struct td_tensor *t = &v->tensor;
            if (v->kind != TD_KIND_tensor) {
                struct td_value given = td_point_number(call, k);
                x[k] = td_scalar(&given);
                x[k] = type == TD_f64 ? x[k] : (double)(float)x[k];
                w[k] = wrapped(&given, type);
            } else if (reals && !(picks && k == 0)) {
                x[k] = td_get_real(t, place(t, out, index));
            } else {
                w[k] = td_get_whole(t, place(t, out, index));
                x[k] = (double)w[k];
            }
        }
        if (reals)
            td_put_real(out, i, td_point_judge(point, x, param, type));
        else
            td_put_whole(out, i,
                         (type == TD_u64 ? whole_u64 : whole)(point, w, whole_param, param, type));
        for (int d = out->rank - 1; d >= 0 && ++index[d] == out->shape[d]; d--)
            index[d] = 0;
    }
}
