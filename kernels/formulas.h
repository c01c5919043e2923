/* The functions that formulas are made of, in the primitives of lanes.h: o_exp and its like. Those
 * with a form of their own have their bound beside them, in units in the last place (of FP32 the
 * largest error over all 2^32 floats, tests/kernels/sweep.c); what has no form here is SLEEF's,
 * within 1 unit. What is built on them is written once for both. */
#ifndef TD_KERNELS_FORMULAS_H
#define TD_KERNELS_FORMULAS_H

#include "kernels/functions.h"

#include <math.h>

#if TD_REAL_BITS == 64
#include "kernels/formulas_f64.h"

#define o_exp_below o_exp
TD_BY_SLEEF(o_log, log)

#define o_sin sin_sleef_
#define o_cos cos_sleef_
#else
#include "kernels/formulas_f32.h"
#endif

/* ---- of either type ---- */

TD_INLINE V o_maximum(V a, V b)
{
    return L_sel(L_uno(a, a), a, L_max(a, b));
}

TD_INLINE V o_minimum(V a, V b)
{
    return L_sel(L_uno(a, a), a, L_min(a, b));
}

/* The one that is no NaN, where only one is. */
TD_INLINE V o_fmax(V a, V b)
{
    return L_sel(L_uno(a, a), b, L_max(b, a));
}

TD_INLINE V o_fmin(V a, V b)
{
    return L_sel(L_uno(a, a), b, L_min(b, a));
}

TD_INLINE V o_sign(V x)
{
    return L_sel(L_gt(x, L_c(0)), L_c(1), L_sel(L_lt(x, L_c(0)), L_c(-1), L_c(0)));
}

/* The maximum's second operand comes back for NaN, and for -0, which is no smaller than 0. */
TD_INLINE V o_relu(V x)
{
    return L_max(L_c(0), x);
}

/* From here on exp(-x) is not infinite, and a quotient by it no denormal. */
#define TD_NEAR_ARGUMENT ((td_real)(TD_REAL_BITS == 32 ? -80 : -700))

/* 1 / (1 + exp(-x)). Far below, that is exp(x), which keeps its digits down to the denormals. */
TD_INLINE V o_sigmoid(V x)
{
    V y = L_div(L_c(1), L_add(L_c(1), o_exp_below(L_neg(x))));
    VM far = L_lt(x, L_c(TD_NEAR_ARGUMENT));
    return L_any(far) ? L_sel(far, o_exp_below(x), y) : y;
}

/* x / (1 + exp(-x)). Far below, exp(x) is the square of exp(x / 2): where it is a denormal with few
 * digits, x times it still has most. */
TD_INLINE V o_silu(V x)
{
    V y = L_div(x, L_add(L_c(1), o_exp_below(L_neg(x))));
    VM far = L_lt(x, L_c(TD_NEAR_ARGUMENT));
    if (!L_any(far))
        return y;
    V half = o_exp_below(L_mul(L_c((td_real)0.5), x));
    return L_sel(far, L_mul(half, L_mul(half, x)), y);
}

/* log(u) * x / (u - 1) with u = 1 + x rounded: what the rounding took is given back (W. Kahan). Far
 * out it is log(x). */
TD_INLINE V o_log1p(V x)
{
    V u = L_add(L_c(1), x), d = L_sub(u, L_c(1)), y = o_log(u);
    VM far = L_not(L_lt(u, L_c((td_real)1e18)));
    return L_sel(far, y, L_sel(L_eq(d, L_c(0)), x, L_div(L_mul(y, x), d)));
}

/* SLEEF's give up before the results do: beyond, these are exponentials and logarithms alone. */
#define TD_HUGE_ARGUMENT ((td_real)(TD_REAL_BITS == 32 ? 80 : 700))
#define TD_HUGE_RESULT ((td_real)(TD_REAL_BITS == 32 ? 1e15 : 1e150))

TD_INLINE V o_exp_half(V x) /* exp(x) / 2 */
{
    V e = o_exp(L_mul(L_c((td_real)0.5), x));
    return L_mul(L_mul(L_c((td_real)0.5), e), e);
}

TD_INLINE V o_sinh(V x)
{
    V y = sinh_sleef_(x);
    VM far = L_gt(L_abs(x), L_c(TD_HUGE_ARGUMENT));
    return L_any(far) ? L_sel(far, L_copysign(o_exp_half(L_abs(x)), x), y) : y;
}

TD_INLINE V o_cosh(V x)
{
    V y = cosh_sleef_(x);
    VM far = L_gt(L_abs(x), L_c(TD_HUGE_ARGUMENT));
    return L_any(far) ? L_sel(far, o_exp_half(L_abs(x)), y) : y;
}

TD_INLINE V o_asinh(V x)
{
    V y = asinh_sleef_(x), l = L_add(o_log(L_abs(x)), L_c((td_real)0.69314718055994531));
    return L_sel(L_gt(L_abs(x), L_c(TD_HUGE_RESULT)), L_copysign(l, x), y);
}

TD_INLINE V o_acosh(V x)
{
    V y = acosh_sleef_(x), l = L_add(o_log(x), L_c((td_real)0.69314718055994531));
    return L_sel(L_gt(x, L_c(TD_HUGE_RESULT)), l, y);
}

TD_INLINE V o_gelu(V x)
{
    V half = L_mul(L_c((td_real)0.5), x);
    return L_mul(half, L_add(L_c(1), o_erf(L_mul(x, L_c((td_real)0.70710678118654752)))));
}

/* x / 2 * (1 + tanh(u)) is x * sigmoid(2 u), which takes one exponential. */
TD_INLINE V o_gelu_tanh(V x)
{
    V cubic = L_add(L_c(1), L_mul(L_c((td_real)0.044715), L_mul(x, x)));
    return L_mul(x, o_sigmoid(L_mul(L_c((td_real)1.5957691216057308), L_mul(x, cubic))));
}

/* The larger magnitude times sqrt(1 + ratio^2): the squares alone would overflow. */
TD_INLINE V o_hypot(V x, V y)
{
    V a = L_abs(x), b = L_abs(y), big = L_max(a, b), small = L_min(a, b);
    V ratio = L_div(small, big), h = L_mul(big, L_sqrt(L_fma(ratio, ratio, L_c(1))));
    VM infinite = L_either(L_eq(a, L_c((td_real)INFINITY)), L_eq(b, L_c((td_real)INFINITY)));
    h = L_sel(L_eq(big, L_c(0)), L_c(0), h);
    return L_sel(infinite, L_c((td_real)INFINITY), L_sel(L_uno(x, y), L_add(x, y), h));
}

/* ---- limits, quotients ---- */

TD_INLINE V o_clamp(V x, V low, V high) /* NaN stays; so it does as a limit */
{
    V y = L_min(high, L_max(low, x));
    return L_sel(L_uno(low, high), L_add(low, high), y);
}

/* Where the quotient is below 2^20 it can be off by one only, and what an FMA leaves is exact. */
TD_INLINE V o_fmod(V a, V b)
{
#ifdef __FMA__
    V x = L_abs(a), y = L_abs(b), q = L_trunc(L_div(x, y)), rest = L_fnma(q, y, x);
    rest = L_sel(L_lt(rest, L_c(0)), L_add(rest, y), rest);
    rest = L_sel(L_ge(rest, y), L_sub(rest, y), rest);
    VM easy = L_both(L_lt(q, L_c((td_real)0x1p20)), L_lt(y, L_c((td_real)INFINITY)));
    VM hard = L_not(easy);
    rest = L_copysign(rest, a);
    return L_any(hard) ? L_sel(hard, fmod_by_lane_(a, b), rest) : rest;
#else
    return fmod_by_lane_(a, b);
#endif
}

TD_INLINE VM o_other_sign(V rest, V b) /* the rest is not 0, and not of b's sign */
{
    VM up = L_both(L_lt(rest, L_c(0)), L_not(L_lt(b, L_c(0))));
    return L_either(up, L_both(L_gt(rest, L_c(0)), L_lt(b, L_c(0))));
}

TD_INLINE V o_remainder(V a, V b)
{
    V rest = o_fmod(a, b);
    return L_sel(o_other_sign(rest, b), L_add(rest, b), rest);
}

/* The quotient without its rest is whole but for rounding. */
TD_INLINE V o_floor_divide(V a, V b)
{
    V rest = o_fmod(a, b), plain = L_div(a, b), q = L_div(L_sub(a, rest), b);
    q = L_round(L_sel(o_other_sign(rest, b), L_sub(q, L_c(1)), q));
    q = L_sel(L_eq(q, L_c(0)), L_copysign(L_c(0), plain), q);
    return L_sel(L_eq(b, L_c(0)), plain, q);
}

TD_INLINE V o_logaddexp(V a, V b)
{
    V y = L_add(o_maximum(a, b), o_log1p(o_exp(L_neg(L_abs(L_sub(a, b))))));
    VM same = L_both(L_eq(a, b), L_eq(L_abs(a), L_c((td_real)INFINITY)));
    return L_sel(same, a, y);
}

TD_INLINE V o_logaddexp2(V a, V b)
{
    V less = o_log1p(o_exp2(L_neg(L_abs(L_sub(a, b)))));
    V y = L_fma(less, L_c((td_real)1.4426950408889634), o_maximum(a, b));
    VM same = L_both(L_eq(a, b), L_eq(L_abs(a), L_c((td_real)INFINITY)));
    return L_sel(same, a, y);
}

TD_INLINE VM o_isclose(V a, V b, V rtol, V atol, V equal_nan)
{
    V far = L_abs(L_sub(a, b));
    VM near =
        L_both(L_lt(far, L_c((td_real)INFINITY)), L_le(far, L_add(atol, L_abs(L_mul(rtol, b)))));
    VM nan = L_both(L_both(L_uno(a, a), L_uno(b, b)), L_ne(equal_nan, L_c(0)));
    return L_either(L_either(near, nan), L_eq(a, b));
}

/* From the nearer end. */
TD_INLINE V o_lerp(V a, V b, V weight)
{
    V way = L_sub(b, a), from_b = L_fnma(way, L_sub(L_c(1), weight), b);
    return L_sel(L_lt(L_abs(weight), L_c((td_real)0.5)), L_fma(weight, way, a), from_b);
}

/* log(x / (1 - x)); near 1/2, where that is about log(1), by what the quotient is above 1. */
TD_INLINE V o_logit(V x)
{
    V rest = L_sub(L_c(1), x), above = L_sub(L_add(x, x), L_c(1));
    return L_sel(L_lt(L_abs(above), L_c((td_real)0.5)), o_log1p(L_div(above, rest)),
                 o_log(L_div(x, rest)));
}

/* sin(pi x) by x's distance from the nearest whole number, which is exact. */
TD_INLINE V o_sinc(V x)
{
    V n = L_round(x), half = L_mul(L_c((td_real)0.5), n);
    V s = o_sin(L_mul(L_c((td_real)3.1415926535897932), L_sub(x, n)));
    s = L_sel(L_ne(half, L_floor(half)), L_neg(s), s);
    V y = L_div(s, L_mul(L_c((td_real)3.1415926535897932), x));
    return L_sel(L_eq(x, L_c(0)), L_c(1), y);
}

/* ---- activations ---- */

TD_INLINE V o_softshrink(V x, V by)
{
    V inside = L_sel(L_uno(x, x), x, L_c(0));
    return L_sel(L_gt(x, by), L_sub(x, by), L_sel(L_lt(x, L_neg(by)), L_add(x, by), inside));
}

TD_INLINE V o_hardsigmoid(V x)
{
    return L_mul(o_clamp(L_add(x, L_c(3)), L_c(0), L_c(6)), L_c((td_real)(1.0 / 6)));
}

TD_INLINE V o_hardswish(V x)
{
    return L_mul(x, o_hardsigmoid(x));
}

/* x n / (n + 2), n = e (e + 2), e = exp(x) made of two halves as in silu; x itself far out. */
TD_INLINE V o_mish(V x)
{
    V half = o_exp(L_mul(L_c((td_real)0.5), L_min(L_c(40), x))), e = L_mul(half, half);
    V more = L_add(e, L_c(2)), n = L_mul(e, more);
    V y = L_div(L_mul(L_mul(L_mul(x, half), half), more), L_add(n, L_c(2)));
    return L_sel(L_gt(x, L_c(40)), x, y);
}

TD_INLINE V o_log_sigmoid(V x)
{
    return L_sub(L_min(L_c(0), x), o_log1p(o_exp(L_neg(L_abs(x)))));
}

TD_INLINE V o_elu(V x, V alpha, V scale, V input_scale)
{
    V below = L_mul(L_mul(o_expm1(L_mul(x, input_scale)), alpha), scale);
    return L_sel(L_gt(x, L_c(0)), L_mul(x, scale), below);
}

/* ---- gradients: the slope first, then times the gradient, so that a gradient with few digits left
 * is rounded only once; where the slope alone would overflow it is the other way round ---- */

TD_INLINE V o_sigmoid_slope(V grad, V y)
{
    V rest = L_sub(L_c(1), y);
    return L_sel(L_lt(L_abs(y), L_c((td_real)1e18)), L_mul(grad, L_mul(rest, y)),
                 L_mul(L_mul(grad, rest), y));
}

TD_INLINE V o_tanh_slope(V grad, V y)
{
    V less = L_sub(L_c(1), y), more = L_add(L_c(1), y);
    return L_sel(L_lt(L_abs(y), L_c((td_real)1e18)), L_mul(grad, L_mul(less, more)),
                 L_mul(L_mul(grad, less), more));
}

/* With e = exp(-|x|): (1 + e + x e) / (1 + e)^2 where x is positive, e (1 + e + x) / (1 + e)^2
 * elsewhere. */
TD_INLINE V o_silu_slope(V grad, V x)
{
    V e = o_exp(L_neg(L_abs(x))), one = L_add(L_c(1), e);
    V top = L_sel(L_lt(x, L_c(0)), L_mul(e, L_add(one, x)), L_add(one, L_mul(x, e)));
    return L_mul(grad, L_div(top, L_mul(one, one)));
}

TD_INLINE V o_gelu_slope(V grad, V x)
{
    V density = L_mul(L_c((td_real)0.39894228040143268),
                      o_exp(L_mul(L_c((td_real)-0.5), L_mul(x, x)))); /* 1 / sqrt(2 pi) */
    V below =
        L_mul(L_c((td_real)0.5), L_add(L_c(1), o_erf(L_mul(x, L_c((td_real)0.70710678118654752)))));
    return L_mul(grad, L_add(below, L_mul(x, density)));
}

/* The tanh form is x s(2 u), s the logistic function, so its slope is s + x s (1 - s) 2 u'. With
 * e = exp(-|2 u|) both s and s (1 - s) = e / (1 + e)^2 come from one exponential; e is 0 long
 * before u' would overflow, which is therefore held at |x| = 64. */
TD_INLINE V o_gelu_tanh_slope(V grad, V x)
{
    V held = L_min(L_c(64), L_abs(x)), square = L_mul(held, held);
    V cubic = L_add(L_c(1), L_mul(L_c((td_real)0.044715), square));
    V e = o_exp(L_mul(L_c((td_real)-1.5957691216057308), L_mul(held, cubic)));
    V slope = L_mul(L_c((td_real)1.5957691216057308),
                    L_add(L_c(1), L_mul(L_c((td_real)0.134145), square)));
    V one = L_add(L_c(1), e), s = L_div(L_sel(L_lt(x, L_c(0)), e, L_c(1)), one);
    V bend = L_mul(L_mul(x, L_div(e, L_mul(one, one))), slope);
    return L_mul(grad, L_add(s, bend));
}

#endif
