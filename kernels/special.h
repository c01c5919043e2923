/* Functions of statistics and physics in lanes: of gamma, the inverse of erf, Bessel's. Each is a
 * call wherever it is used: they are long, and few formulas have them. */
#ifndef TD_KERNELS_SPECIAL_H
#define TD_KERNELS_SPECIAL_H

#include "kernels/bessel.h"
#include "kernels/formulas.h"
#include "kernels/gamma.h"
#include "kernels/zeta.h"

#include <math.h>

#define TD_SPECIAL static V __attribute__((noinline, unused))

/* By degree, the highest first. */
TD_INLINE V series_(V x, const td_real *c, int n)
{
    V p = L_c(c[0]);
    for (int i = 1; i < n; i++)
        p = L_fma(p, x, L_c(c[i]));
    return p;
}
#define TD_SERIES(x, ...)                                                                          \
    series_(x, (const td_real[]){__VA_ARGS__},                                                     \
            (int)(sizeof((td_real[]){__VA_ARGS__}) / sizeof(td_real)))

/* ---- gamma ---- */

TD_BY_SLEEF(lgamma_sleef_, lgamma)

/* From where on SLEEF's is infinite before the result is too large for the type. */
#define TD_LGAMMA_FAR (TD_REAL_BITS == 32 ? (td_real)4e36 : (td_real)2e305)

/* Below 0, where SLEEF keeps few digits beside its roots, and far from it, the C library's, a lane
 * at a time. */
TD_SPECIAL o_lgamma(V x)
{
    V y = lgamma_sleef_(L_abs(x));
    for (int i = 0, sign; i < L_LANES; i++)
        if (x[i] < 0 || x[i] >= TD_LGAMMA_FAR)
            y[i] = (td_real)lgamma_r((double)x[i], &sign);
    return y;
}

/* Below 0 by what is above: psi(x) = psi(1 - x) - pi / tan(pi x), with digits to lose beside its
 * roots; psi(z) of a large z by its series, of a smaller one by what it is larger by. */
static double __attribute__((noinline, unused)) digamma_below_(double x)
{
    long double z = 1 - (long double)x, r = (long double)x - rintl((long double)x), sum = 0;
    if (r == 0 || isinf(x))
        return NAN;
    for (; z < 20; z++)
        sum += 1 / z;
    long double i = 1 / (z * z), tail = 0;
    static const long double by[] = {1.0L / 12,  -1.0L / 120,     1.0L / 252, -1.0L / 240,
                                     1.0L / 132, -691.0L / 32760, 1.0L / 12};
    for (int k = 6; k >= 0; k--)
        tail = (tail + by[k]) * i;
    const long double pi = 3.14159265358979323846264338327950288L;
    return (double)(logl(z) - 0.5L / z - tail - sum - pi / tanl(pi * r));
}

/* From 1 to 2 a ratio times the distance from the root, which stands in parts (J. Maddock's, of
 * Boost); one step of the recurrence leads there from 0 to 3, more of them up to the series. */
#if TD_REAL_BITS == 32
#define TD_FAR_STEPS 6
TD_INLINE V digamma_near_(V x)
{
    V z = L_sub(x, L_c(1)), g = L_sub(x, L_c(1532632.0f / 1048576));
    g = L_sub(g, L_c(0.37006601859126e-6f));
    V p = TD_SERIES(z, -0.061041765350579073f, -0.43916936919946835f, -0.44981331915268368f,
                    0.25479851023250261f);
    V q = TD_SERIES(z, 0.063851690523355715f, 0.65341249856146947f, 1.5890202430554952f, 1);
    return L_fma(g, L_c(0.99558162689208984f), L_mul(g, L_div(p, q)));
}
#else
#define TD_FAR_STEPS 10
TD_INLINE V digamma_near_(V x)
{
    V z = L_sub(x, L_c(1)), g = L_sub(x, L_c(1569415565.0 / 1073741824));
    g = L_sub(L_sub(g, L_c(381566830.0 / 1073741824 / 1073741824)),
              L_c(0.9016312093258695918615325266959189453125e-19));
    V p = TD_SERIES(z, -0.0020713321167745952, -0.045251321448739056, -0.28919126444774784,
                    -0.65031853770896507, -0.32555031186804491, 0.25479851061131551);
    V q = TD_SERIES(z, -0.55789841321675513e-6, 0.0021284987017821144, 0.054151797245674225,
                    0.43593529692665969, 1.4606242909763515, 2.0767117023730469, 1);
    return L_fma(g, L_c(0.99558162689208984), L_mul(g, L_div(p, q)));
}
#endif

/* log(z) - 1 / 2z - ..., less 1 / x + 1 / (x + 1) + ... = p / q up to a z of TD_FAR_STEPS. */
TD_INLINE V digamma_far_(V x)
{
    V p = L_c(0), q = L_c(1), z = x;
    for (int k = 0; k < TD_FAR_STEPS - 3; k++) {
        VM near = L_lt(z, L_c(TD_FAR_STEPS));
        p = L_sel(near, L_fma(p, z, q), p);
        q = L_sel(near, L_mul(q, z), q);
        z = L_sel(near, L_add(z, L_c(1)), z);
    }
    V i = L_div(L_c(1), L_mul(z, z));
#if TD_REAL_BITS == 32
    V tail = TD_SERIES(i, 1.0f / 252, -1.0f / 120, 1.0f / 12);
#else
    V tail = TD_SERIES(i, 1.0 / 12, -691.0 / 32760, 1.0 / 132, -1.0 / 240, 1.0 / 252, -1.0 / 120,
                       1.0 / 12);
#endif
    V y = L_sub(L_sub(o_log(z), L_div(L_c((td_real)0.5), z)), L_mul(i, tail));
    return L_sub(y, L_div(p, q));
}

TD_SPECIAL o_digamma(V x)
{
    VM first = L_lt(x, L_c(1)), third = L_gt(x, L_c(2));
    V at = L_sel(first, L_add(x, L_c(1)), L_sel(third, L_sub(x, L_c(1)), x));
    V step = L_sel(first, L_div(L_c(-1), x), L_sel(third, L_div(L_c(1), at), L_c(0)));
    V y = L_add(digamma_near_(at), step);
    VM far = L_not(L_le(x, L_c(3)));
    if (L_any(far))
        y = L_sel(far, digamma_far_(x), y);
    for (int i = 0; i < L_LANES; i++)
        if (x[i] < 0)
            y[i] = (td_real)digamma_below_((double)x[i]);
    return y;
}

/* ---- zeta, a lane at a time ---- */

TD_SPECIAL o_zeta(V x, V q)
{
    V y = x;
    for (int i = 0; i < L_LANES; i++)
        y[i] = (td_real)td_zeta((double)x[i], (double)q[i]);
    return y;
}

TD_SPECIAL o_polygamma(V n, V x)
{
    if (n[0] == 0)
        return o_digamma(x);
    V y = x;
    for (int i = 0; i < L_LANES; i++)
        y[i] = (td_real)td_polygamma((double)n[0], (double)x[i]);
    return y;
}

/* ---- what has no form in lanes ---- */

#define TD_BY_LANE(name, function)                                                                 \
    TD_SPECIAL name(V x)                                                                           \
    {                                                                                              \
        for (int i = 0; i < L_LANES; i++)                                                          \
            x[i] = (td_real)function((double)x[i]);                                                \
        return x;                                                                                  \
    }
#define TD_BY_LANE_2(name, function)                                                               \
    TD_SPECIAL name(V x, V y)                                                                      \
    {                                                                                              \
        for (int i = 0; i < L_LANES; i++)                                                          \
            x[i] = (td_real)function((double)x[i], (double)y[i]);                                  \
        return x;                                                                                  \
    }
TD_BY_LANE_2(o_gamma_lower, td_gamma_lower)
TD_BY_LANE_2(o_gamma_upper, td_gamma_upper)
TD_BY_LANE(o_bessel_j0, td_bessel_j0)
TD_BY_LANE(o_bessel_j1, td_bessel_j1)
TD_BY_LANE(o_bessel_y0, td_bessel_y0)
TD_BY_LANE(o_bessel_y1, td_bessel_y1)
TD_BY_LANE(o_bessel_k0, td_bessel_k0)
TD_BY_LANE(o_bessel_k1, td_bessel_k1)
TD_BY_LANE(o_bessel_k0_scaled, td_bessel_k0_scaled)
TD_BY_LANE(o_bessel_k1_scaled, td_bessel_k1_scaled)

/* ---- the inverse of erf ---- */

/* By w = -log(1 - x^2) (M. Giles): 4 units of FP32. */
TD_INLINE V erfinv_rough_(V x)
{
    V w = L_neg(o_log(L_mul(L_sub(L_c(1), x), L_add(L_c(1), x))));
    V near = L_sub(w, L_c((td_real)2.5)), far = L_sub(L_sqrt(w), L_c(3));
    V p = TD_SERIES(near, (td_real)2.81022636e-08, (td_real)3.43273939e-07, (td_real)-3.5233877e-06,
                    (td_real)-4.39150654e-06, (td_real)0.00021858087, (td_real)-0.00125372503,
                    (td_real)-0.00417768164, (td_real)0.246640727, (td_real)1.50140941);
    V q = TD_SERIES(far, (td_real)-0.000200214257, (td_real)0.000100950558, (td_real)0.00134934322,
                    (td_real)-0.00367342844, (td_real)0.00573950773, (td_real)-0.0076224613,
                    (td_real)0.00943887047, (td_real)1.00167406, (td_real)2.83297682);
    return L_mul(L_sel(L_lt(w, L_c(5)), p, q), x);
}

#if TD_REAL_BITS == 64
/* Halley's step towards erf(x) = a, or erfc(x) = 1 - a where a is near 1. */
TD_INLINE V erfinv_step_(V x, V a)
{
    V slope = L_mul(L_c(1.1283791670955126), o_exp(L_neg(L_mul(x, x))));
    V off = L_sel(L_lt(a, L_c(0.5)), L_sub(o_erf(x), a), L_sub(L_sub(L_c(1), a), o_erfc(x)));
    V t = L_div(off, slope);
    return L_sub(x, L_div(t, L_fma(x, t, L_c(1))));
}
#endif

TD_SPECIAL o_erfinv(V x)
{
    V a = L_abs(x);
#if TD_REAL_BITS == 64
    V rest = L_neg(o_log(L_sub(L_c(1), a))), s = L_sqrt(rest);
    V y = erfinv_rough_(a);
    s = L_sqrt(L_sub(rest, o_log(L_mul(s, L_c(1.7724538509055160)))));
    y = L_sel(L_gt(rest, L_c(13)), s, y); /* beyond what the rough one is for */
    y = erfinv_step_(erfinv_step_(y, a), a);
    y = L_sel(L_eq(a, L_c(0)), a, y);
#else
    V y = erfinv_rough_(a);
#endif
    y = L_sel(L_eq(a, L_c(1)), L_c((td_real)INFINITY), y);
    return L_copysign(L_sel(L_gt(a, L_c(1)), L_c((td_real)NAN), y), x);
}

/* ---- Bessel's ---- */

/* Chebyshev's series, the last coefficient first (C. Clenshaw). FP32 needs none of the first skip.
 */
TD_INLINE V chebyshev_(V x, const double *c, int n, int skip)
{
    int i = TD_REAL_BITS == 32 ? skip : 0;
    V a = L_c((td_real)c[i]), b = L_c(0), old = b;
    while (++i < n) {
        old = b;
        b = a;
        a = L_add(L_sub(L_mul(x, b), old), L_c((td_real)c[i]));
    }
    return L_mul(L_c((td_real)0.5), L_sub(a, old));
}

/* A modified Bessel function of a >= 0 times exp(-a): up to 8 factor times the sum of near in a / 2
 * - 2, beyond 8 the sum of far in 32 / a - 2, divided by the root of a. */
TD_INLINE V bessel_(V a, V factor, const double *near, int n_near, int skip_near, const double *far,
                    int n_far, int skip_far)
{
    V held = L_max(L_c(1), a);
    V x = L_sub(L_mul(L_c((td_real)0.5), L_min(L_c(8), a)), L_c(2));
    V y = L_mul(factor, chebyshev_(x, near, n_near, skip_near));
    V z = chebyshev_(L_sub(L_div(L_c(32), held), L_c(2)), far, n_far, skip_far);
    return L_sel(L_le(a, L_c(8)), y, L_div(z, L_sqrt(held)));
}

/* I0 times exp(-|x|): by S. Moshier's Cephes. */
TD_SPECIAL o_i0e(V x)
{
    static const double near[] = {
        -4.4153416464793395e-18, 3.3307945188222384e-17,  -2.431279846547955e-16,
        1.715391285555133e-15,   -1.1685332877993451e-14, 7.676185498604936e-14,
        -4.856446783111929e-13,  2.95505266312964e-12,    -1.726826291441556e-11,
        9.675809035373237e-11,   -5.189795601635263e-10,  2.6598237246823866e-09,
        -1.300025009986248e-08,  6.046995022541919e-08,   -2.670793853940612e-07,
        1.1173875391201037e-06,  -4.4167383584587505e-06, 1.6448448070728896e-05,
        -5.754195010082104e-05,  0.00018850288509584165,  -0.0005763755745385824,
        0.0016394756169413357,   -0.004324309995050576,   0.010546460394594998,
        -0.02373741480589947,    0.04930528423967071,     -0.09490109704804764,
        0.17162090152220877,     -0.3046826723431984,     0.6767952744094761};
    static const double far[] = {
        -7.233180487874754e-18,  -4.830504485944182e-18,  4.46562142029676e-17,
        3.461222867697461e-17,   -2.8276239805165836e-16, -3.425485619677219e-16,
        1.7725601330565263e-15,  3.8116806693526224e-15,  -9.554846698828307e-15,
        -4.150569347287222e-14,  1.54008621752141e-14,    3.8527783827421426e-13,
        7.180124451383666e-13,   -1.7941785315068062e-12, -1.3215811840447713e-11,
        -3.1499165279632416e-11, 1.1889147107846439e-11,  4.94060238822497e-10,
        3.3962320257083865e-09,  2.266668990498178e-08,   2.0489185894690638e-07,
        2.8913705208347567e-06,  6.889758346916825e-05,   0.0033691164782556943,
        0.8044904110141088};
    V y = bessel_(L_abs(x), L_c(1), near, (int)(sizeof near / sizeof *near), 10, far,
                  (int)(sizeof far / sizeof *far), 15);
    return L_sel(L_uno(x, x), x, y);
}

TD_SPECIAL o_i0(V x)
{
    V half = o_exp(L_mul(L_c((td_real)0.5), L_abs(x)));
    V y = L_mul(L_mul(o_i0e(x), half), half);
    return L_sel(L_eq(L_abs(x), L_c((td_real)INFINITY)), L_c((td_real)INFINITY), y);
}

/* I1 times exp(-|x|): near is a series of its quotient by |x|, times (|x| + 4)^1.5. */
TD_SPECIAL o_i1e(V x)
{
    static const double near[] = {
        -3.513006743041456e-18,  1.5793384084298936e-17,  -7.181724768106303e-17,
        3.29095188369337e-16,    -1.5100678455576855e-15, 6.874589583463885e-15,
        -3.06677756486323e-14,   1.3185869642006022e-13,  -5.336104938526596e-13,
        1.952748691134365e-12,   -5.904238046530005e-12,  1.016904687077528e-11,
        3.7419195268696205e-11,  -5.412514316796323e-10,  3.867368497453769e-09,
        -2.170642715322716e-08,  1.0425257866032521e-07,  -4.3820147866709584e-07,
        1.6049521125787806e-06,  -4.9579106107115845e-06, 1.1631753618159e-05,
        -1.1237132123564694e-05, -7.734924416673896e-05,  0.0006389945118533842,
        -0.003114304350405361,   0.012033243856000016,    -0.039594992221504,
        0.11396962937823193,     -0.2902458837810422,     0.6566509193747436,
        -1.3184683945041278,     3.1304725782283653};
    static const double far[] = {
        7.517296310842105e-18,   4.414348323071708e-18,   -4.6503053684893586e-17,
        -3.209525921993424e-17,  2.96262899764595e-16,    3.3082023109209285e-16,
        -1.8803547755107825e-15, -3.8144030724370075e-15, 1.0420276984128802e-14,
        4.272440016711951e-14,   -2.1015418427726643e-14, -4.0835511110921974e-13,
        -7.198551776245908e-13,  2.0356285441470896e-12,  1.4125807436613782e-11,
        3.2526035830154884e-11,  -1.8974958123505413e-11, -5.589743462196584e-10,
        -3.835380385964237e-09,  -2.6314688468895196e-08, -2.512236237870209e-07,
        -3.882564808877691e-06,  -0.00011058893876262371, -0.009761097491361469,
        0.7785762350182801};
    V a = L_abs(x), more = L_add(a, L_c(4));
    V y = bessel_(a, L_div(a, L_mul(more, L_sqrt(more))), near, (int)(sizeof near / sizeof *near),
                  13, far, (int)(sizeof far / sizeof *far), 16);
    return L_sel(L_uno(x, x), x, L_copysign(y, x));
}

TD_SPECIAL o_i1(V x)
{
    V half = o_exp(L_mul(L_c((td_real)0.5), L_abs(x)));
    V y = L_mul(L_mul(o_i1e(x), half), half);
    return L_sel(L_eq(L_abs(x), L_c((td_real)INFINITY)), x, y);
}

/* ---- erfc(x) exp(x^2) ---- */

/* (x + 1/2) times it, of x from 0 on, is a series in (x - 4) / (x + 4) (M. Shepherd, J.
 * Laframboise). Below 0 it is 2 exp(x^2) less it at -x; the square is taken in two parts of which
 * the first is exact, since exp makes an error of the square by the square larger. */
TD_SPECIAL o_erfcx(V x)
{
    static const double by[] = {
        -4.0967851549421665e-18, -1.5852449478165443e-17, 1.11004650333316e-16,
        3.7522992549400417e-16,  -3.334337559385204e-15,  -7.358287513505312e-15,
        1.0727254143277276e-13,  4.583979182055647e-14,   -3.4505541602404076e-12,
        7.044358821044065e-12,   9.549177586228344e-11,   -5.858944675942479e-10,
        -1.0528934756904747e-09, 2.7882854697851783e-08,  -1.2130699721224767e-07,
        -3.579182311725173e-07,  8.591930800150468e-06,   -6.84848251505027e-05,
        0.0003728247186268092,   -0.001568463647277132,   0.00529783168173643,
        -0.01437696779013833,    0.030046064020611125,    -0.0406325616180925,
        -0.0036303983101509505,  1.1774832005374487};
    V a = L_abs(x);
    V y = chebyshev_(L_sub(L_c(2), L_div(L_c(16), L_add(a, L_c(4)))), by,
                     (int)(sizeof by / sizeof *by), 11);
    y = L_div(y, L_add(a, L_c((td_real)0.5)));
    VM below = L_lt(x, L_c(0));
    if (!L_any(below))
        return y;
    V held = L_min(L_c(30), a); /* whose exponential is infinite already */
    V most = L_mul(L_round(L_mul(held, L_c(256))), L_c((td_real)(1.0 / 256)));
    V rest = L_mul(L_sub(held, most), L_add(held, most));
    V e = L_mul(o_exp(L_mul(most, most)), o_exp(rest));
    return L_sel(below, L_sub(L_add(e, e), y), y);
}

#endif
