/* Hurwitz's zeta function, and with it what polygamma is of higher orders, one number at a time. */
#ifndef TD_KERNELS_ZETA_H
#define TD_KERNELS_ZETA_H

#include <math.h>

/* NAME(x, q) is the sum of (q + k)^-x over all k >= 0, of q > 0 and x > 1, in numbers of that type:
 * the first terms one by one, while they count, the rest by Euler and Maclaurin, whose terms fall
 * by 25 each where q + k is beyond x. */
#define TD_ZETA_ABOVE(name, type, power, least)                                                    \
    static inline type name(type x, type q)                                                        \
    {                                                                                              \
        static const type by[] = {12,                                                              \
                                  -720,                                                            \
                                  30240,                                                           \
                                  -1209600,                                                        \
                                  47900160,                                                        \
                                  -1307674368000.0L / 691,                                         \
                                  74724249600,                                                     \
                                  -10670622842880000.0L / 3617,                                    \
                                  5109094217170944000.0L / 43867,                                  \
                                  -802857662698291200000.0L / 174611};                             \
        type sum = 0, term = power(q, -x);                                                         \
        for (; q < 12 + x && term > sum * least; term = power(q, -x)) {                            \
            sum += term;                                                                           \
            q += 1;                                                                                \
        }                                                                                          \
        if (!(term > sum * least) || isinf(q)) /* NaN, too */                                      \
            return sum + term;                                                                     \
        sum += term * q / (x - 1) + term / 2;                                                      \
        term *= x / q;                                                                             \
        for (int k = 0; k < 10; k++) {                                                             \
            sum += term / by[k];                                                                   \
            term *= (x + 2 * k + 1) / q * ((x + 2 * k + 2) / q);                                   \
        }                                                                                          \
        return sum;                                                                                \
    }
TD_ZETA_ABOVE(td_zeta_above, double, pow, 1e-18)

/* q^-x of a whole x, by squaring up to where that is as exact: powl takes a microsecond. */
static inline long double td_whole_power(long double q, long double minus_x)
{
    if (minus_x < -128)
        return powl(q, minus_x);
    long double power = 1;
    for (unsigned n = (unsigned)-minus_x; n; n >>= 1, q *= q)
        power *= n & 1 ? q : 1;
    return 1 / power;
}
/* Of whole x alone; parts may cancel out. */
TD_ZETA_ABOVE(td_zeta_above_long, long double, td_whole_power, 1e-21L)

/* Below 0 by the sums on both sides of it. */
static inline double td_zeta(double x, double q)
{
    if (x == 1)
        return INFINITY;
    if (!(x > 1) || isnan(q))
        return NAN;
    if (q > 0)
        return td_zeta_above(x, q);
    if (q == floor(q))
        return INFINITY;
    if (x != floor(x))
        return NAN;
    long double above = (long double)q + floorl(-(long double)q) + 1,
                sum = td_zeta_above_long(x, above);
    long double below =
        td_zeta_above_long(x, 1 - above) - td_zeta_above_long(x, 1 - (long double)q);
    return (double)(fmod(x, 2) != 0 ? sum - below : sum + below);
}

/* The derivative of digamma of order n >= 1. */
static inline double td_polygamma(double n, double x)
{
    return (fmod(n, 2) != 0 ? 1 : -1) * tgamma(n + 1) * td_zeta(n + 1, x);
}

#endif
