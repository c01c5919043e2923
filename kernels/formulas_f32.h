/* The FP32 forms of formulas.h. */
#ifndef TD_KERNELS_FORMULAS_F32_H
#define TD_KERNELS_FORMULAS_F32_H

#include "kernels/functions.h"

#include <math.h>

/* exp(x) where x is at most 89, or NaN: 1.1 ulp, denormal results too. x = n log 2 + r,
 * |r| <= log 2 / 2; a polynomial of degree 6 in r; times 2^n. From -104 down it is 0 whatever x
 * is. */
TD_INLINE V o_exp_below(V x)
{
    V held = L_max(L_c(L_FAR_EXPONENT * 0.6934f), x);
    V magic = L_c(0x1.8p23f); /* added, it leaves no fraction */
    V n = L_sub(L_fma(held, L_c(1.44269504f), magic), magic);
    V r =
        L_fnma(n, L_c(0.693145751953125f), held); /* log 2 in two parts, the first exact times n */
    r = L_fnma(n, L_c(1.42860677e-6f), r);
    V p = L_c(1.381459837e-03f);
    p = L_fma(p, r, L_c(8.368716898e-03f));
    p = L_fma(p, r, L_c(4.166838805e-02f));
    p = L_fma(p, r, L_c(1.666652063e-01f));
    p = L_fma(p, r, L_c(4.999999345e-01f));
    p = L_fma(p, r, L_c(1));
    return L_ldexp_from(L_fma(p, r, L_c(1)), n, x, L_c(-104.0f));
}

/* Beyond 89 it is infinite whatever x is. */
TD_INLINE V o_exp(V x)
{
    return o_exp_below(L_min(L_c(89.0f), x)); /* NaN stays */
}

/* A rational function of degrees 13 and 6, held where tanh is 1; odd, so 0 keeps its sign, and tiny
 * x are themselves. */
TD_INLINE V o_tanh(V x)
{
    V h = L_max(L_c(-7.90531110763549805f), L_min(L_c(7.90531110763549805f), x)), q = L_mul(h, h);
    V p = L_fma(q, L_c(-2.76076847742355e-16f), L_c(2.00018790482477e-13f));
    p = L_fma(p, q, L_c(-8.60467152213735e-11f));
    p = L_fma(p, q, L_c(5.12229709037114e-08f));
    p = L_fma(p, q, L_c(1.48572235717979e-05f));
    p = L_fma(p, q, L_c(6.37261928875436e-04f));
    p = L_fma(p, q, L_c(4.89352455891786e-03f));
    V d = L_fma(q, L_c(1.19825839466702e-06f), L_c(1.18534705686654e-04f));
    d = L_fma(d, q, L_c(2.26843463243900e-03f));
    d = L_fma(d, q, L_c(4.89352518554385e-03f));
    return L_sel(L_lt(L_abs(x), L_c(4e-4f)), x, L_div(L_mul(p, h), d));
}

/* A rational function of degrees 11 and 8, held where erf is 1, which it would exceed by 3 ulp. */
TD_INLINE V o_erf(V x)
{
    V h = L_max(L_c(-4.0f), L_min(L_c(4.0f), x)), q = L_mul(h, h);
    V p = L_fma(q, L_c(-2.72614225801306e-10f), L_c(2.77068142495902e-08f));
    p = L_fma(p, q, L_c(-2.10102402082508e-06f));
    p = L_fma(p, q, L_c(-5.69250639462346e-05f));
    p = L_fma(p, q, L_c(-7.34990630326855e-04f));
    p = L_fma(p, q, L_c(-2.95459980854025e-03f));
    p = L_fma(p, q, L_c(-1.60960333262415e-02f));
    V d = L_fma(q, L_c(-1.45660718464996e-05f), L_c(-2.13374055278905e-04f));
    d = L_fma(d, q, L_c(-1.68282697438203e-03f));
    d = L_fma(d, q, L_c(-7.37332916720468e-03f));
    d = L_fma(d, q, L_c(-1.42647390514189e-02f));
    V small = L_fma(x, L_c(0.128379167f), x); /* 2 / sqrt(pi) x */
    V y = L_max(L_c(-1), L_min(L_c(1), L_div(L_mul(p, h), d)));
    return L_sel(L_lt(L_abs(x), L_c(2e-4f)), small, y);
}

/* 1 ulp. x = 2^n (1 + f), -1/4 <= f < 1/2; log(1 + f) = f - f^2 / 2 + f^3 P(f). */
TD_INLINE V o_log(V x)
{
    V n, m = L_frexp(x, &n), f = L_sub(m, L_c(1)), q = L_mul(f, f);
    V p = L_c(3.767288690e-02f);
    p = L_fma(p, f, L_c(-9.116187212e-02f));
    p = L_fma(p, f, L_c(1.170066081e-01f));
    p = L_fma(p, f, L_c(-1.272777913e-01f));
    p = L_fma(p, f, L_c(1.427623880e-01f));
    p = L_fma(p, f, L_c(-1.665529658e-01f));
    p = L_fma(p, f, L_c(1.999960486e-01f));
    p = L_fma(p, f, L_c(-2.500016527e-01f));
    p = L_fma(p, f, L_c(3.333333986e-01f));
    V y = L_mul(L_mul(p, f), q);
    y = L_fma(n, L_c(1.42860677e-6f), y);
    y = L_fma(L_c(-0.5f), q, y);
    y = L_add(y, f);
    y = L_fma(n, L_c(0.693145751953125f), y);
    y = L_sel(L_lt(x, L_c(INFINITY)), y, x); /* and NaN */
    y = L_sel(L_eq(x, L_c(0)), L_c(-INFINITY), y);
    return L_sel(L_lt(x, L_c(0)), L_c(NAN), y);
}

/* Within 1.1 ulp up to 100,000 radians, SLEEF's beyond. x = n pi / 2 + r + low, |r| <= pi / 4 and a
 * little; pi / 2 stands in three parts, and the first difference is exact. */
#ifdef __FMA__
TD_INLINE V o_sin_cos(V x, int quarter) /* sin(x + quarter * pi / 2) */
{
    V magic = L_c(0x1.8p23f + (float)quarter); /* m counts whole quarters in its lowest bits */
    V m = L_fma(x, L_c(0.636619772f), magic), n = L_sub(m, magic);
    V r0 = L_fnma(n, L_c(0x1.921fb6p0f), x), b = L_mul(n, L_c(0x1.777a5cp-25f));
    V r = L_add(r0, b), back = L_sub(r, r0); /* r + low = r0 + b without loss (D. Knuth) */
    V low = L_add(L_sub(r0, L_sub(r, back)), L_sub(b, back));
    low = L_add(low, L_fma(n, L_c(0x1.777a5cp-25f), L_neg(b)));
    low = L_fma(n, L_c(0x1.ee59dap-50f), low);
    V q = L_mul(r, r);
    V s = L_fma(L_fma(L_c(2.718274487e-06f), q, L_c(-1.983933100e-04f)), q, L_c(8.333329374e-03f));
    s = L_fma(s, q, L_c(-1.666666664e-01f));
    s = L_add(r, L_fma(L_mul(s, q), r, low));
    V c = L_fma(L_fma(L_c(2.443809085e-05f), q, L_c(-1.388736448e-03f)), q, L_c(4.166664681e-02f));
    V head = L_fnma(L_c(0.5f), q, L_c(1)), rest = L_fnma(L_c(0.5f), q, L_sub(L_c(1), head));
    c = L_add(head, L_fnma(r, low, L_fma(L_mul(c, q), q, rest)));
    return L_flip(L_sel(L_bit(m, 0), c, s), m, 1); /* m modulo 4: 0 s, 1 c, 2 -s, 3 -c */
}

TD_INLINE V o_sin(V x)
{
    V y = L_sel(L_lt(L_abs(x), L_c(2e-4f)), x, o_sin_cos(x, 0));
    VM far = L_not(L_lt(L_abs(x), L_c(1e5f)));
    return L_any(far) ? L_sel(far, sin_sleef_(x), y) : y;
}

TD_INLINE V o_cos(V x)
{
    V y = o_sin_cos(x, 1);
    VM far = L_not(L_lt(L_abs(x), L_c(1e5f)));
    return L_any(far) ? L_sel(far, cos_sleef_(x), y) : y;
}
#else
#define o_sin sin_sleef_
#define o_cos cos_sleef_
#endif

#endif
