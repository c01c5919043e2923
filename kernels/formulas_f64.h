/* The FP64 forms of formulas.h that SLEEF, which knows more digits than are asked for, takes two to
 * six times as long for. The coefficients are those of S. Moshier's Cephes. */
#ifndef TD_KERNELS_FORMULAS_F64_H
#define TD_KERNELS_FORMULAS_F64_H

#include "kernels/functions.h"

TD_BY_SLEEF(o_exp, exp)

/* By degree, the highest first. */
TD_INLINE V polynomial_(V x, const double *c, int n)
{
    V p = L_c(c[0]);
#pragma GCC unroll 16
    for (int i = 1; i < n; i++)
        p = L_fma(p, x, L_c(c[i]));
    return p;
}
#define TD_POLYNOMIAL(x, ...)                                                                      \
    polynomial_(x, (const double[]){__VA_ARGS__},                                                  \
                (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)))

/* 4 ulp. Below 0.625 x + x^3 times a ratio, else (1 - e) / (1 + e) with e = exp(-2 |x|). */
static V __attribute__((noinline, unused)) o_tanh(V x)
{
    V a = L_abs(x), z = L_mul(a, a), e = o_exp(L_mul(L_c(-2), a));
    VM near = L_lt(a, L_c(0.625));
    V top = TD_POLYNOMIAL(z, -9.64399179425052238628e-1, -9.92877231001918586564e1,
                          -1.61468768441708447952e3);
    V below = TD_POLYNOMIAL(z, 1, 1.12811678491632931402e2, 2.23548839060100448583e3,
                            4.84406305325125486048e3);
    V q = L_div(L_sel(near, L_mul(L_mul(a, z), top), L_sub(L_c(1), e)),
                L_sel(near, below, L_add(L_c(1), e)));
    return L_copysign(L_sel(near, L_add(a, q), q), x);
}

/* 4 ulp. Up to 1 x times a ratio of x^2, else 1 - exp(-x^2) times one of |x|; from 6 on 1. */
static V __attribute__((noinline, unused)) o_erf(V x)
{
    V a = L_min(L_c(6), L_abs(x)), z = L_mul(a, a), e = o_exp(L_neg(z));
    VM near = L_le(a, L_c(1));
    V top =
        TD_POLYNOMIAL(z, 9.60497373987051638749e0, 9.00260197203842689217e1,
                      2.23200534594684319226e3, 7.00332514112805075473e3, 5.55923013010394962768e4);
    V below =
        TD_POLYNOMIAL(z, 1, 3.35617141647503099647e1, 5.21357949780152679795e2,
                      4.59432382970980127987e3, 2.26290000613890934246e4, 4.92673942608635921086e4);
    V top_far = TD_POLYNOMIAL(
        a, 2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687e0,
        4.86371970985681366614e1, 1.96520832956077098242e2, 5.26445194995477358631e2,
        9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369399327526e2);
    V below_far =
        TD_POLYNOMIAL(a, 1, 1.32281951154744992508e1, 8.67072140885989742329e1,
                      3.54937778887819891062e2, 9.75708501743205489753e2, 1.82390916687909736289e3,
                      2.24633760818710981792e3, 1.65666309194161350182e3, 5.57535340817727675546e2);
    V q = L_div(L_sel(near, L_mul(a, top), L_mul(e, top_far)), L_sel(near, below, below_far));
    return L_copysign(L_sel(near, q, L_sub(L_c(1), q)), x);
}

#endif
