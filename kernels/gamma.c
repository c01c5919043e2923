/* The incomplete gamma functions P and Q, by the formulas of the Digital Library of Mathematical
 * Functions (DLMF, dlmf.nist.gov): below a the power series gives P, above it a continued fraction
 * gives Q, and the other is 1 less that one, which is the smaller one there. A small x has a series
 * for Q, of which 1 - P would keep few digits. Of a large a and an x near it both would take too
 * long: there stands an expansion in 1 / a. In long double, whose digits the exponential loses. */
#include "kernels/gamma.h"

#include <math.h>
#include <stdbool.h>

#define PI 3.14159265358979323846264338327950288L
#define LEAST 1e-20L /* of a sum, what no longer counts */
#define LARGE 200    /* of a: from here on by powers of 1 / a */
#define NEAR 0.3L    /* of x / a - 1: where these go together */

/* log(gamma(1 + a)): of a small a by powers of a (DLMF 5.7.3), which 1 + a would lose. */
static long double log_gamma_1(long double a)
{
    static const long double by[] = {-0.577215664901532860607L, 0.822467033424113218236L,
                                     -0.400685634386531428467L, 0.270580808427784547880L,
                                     -0.207385551028673985266L, 0.169557176997408189953L};
    long double y = 0;
    int sign;
    if (!(a < 1e-3L))
        return lgammal_r(1 + a, &sign);
    for (int k = 5; k >= 0; k--)
        y = (y + by[k]) * a;
    return y;
}

/* m - log(1 + m) */
static long double above_log(long double m)
{
    long double y = 0;
    if (!(fabsl(m) < 0.01L))
        return m - log1pl(m);
    for (int k = 11; k >= 2; k--)
        y = (k & 1 ? -1 : 1) / (long double)k + y * m;
    return y * m * m;
}

/* x^a exp(-x) / gamma(1 + a); of a large a with gamma by Stirling's series (DLMF 5.11.1). */
static long double power(long double a, long double x)
{
    if (!(a >= LARGE))
        return expl(a * logl(x) - x - log_gamma_1(a));
    long double i = 1 / a, rest = i / 12 * (1 - i * i / 30 * (1 - i * i * 2 / 7));
    return expl(-a * above_log((x - a) / a) - rest) / sqrtl(2 * PI * a);
}

/* P over what power has: 1 + x / (a + 1) + x^2 / (a + 1)(a + 2) + ... (DLMF 8.7.1). */
static long double series(long double a, long double x)
{
    long double sum = 1, term = 1;
    for (long double n = a + 1; term > sum * LEAST; n++) {
        term *= x / n;
        sum += term;
    }
    return sum;
}

/* Q over a times what power has: 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...)) (DLMF
 * 8.9.2), by Lentz's way through a fraction (Numerical Recipes, 5.2). */
static long double fraction(long double a, long double x)
{
    const long double least = 1e-4000L;
    long double b = x + 1 - a, c = 1 / least, d = 1 / b, y = d, step = 0;
    for (int i = 1; i < 10000 && fabsl(step - 1) > LEAST; i++) {
        long double by = -i * (i - a);
        b += 2;
        d = by * d + b;
        c = b + by / c;
        d = 1 / (d == 0 ? least : d);
        c = c == 0 ? least : c;
        step = c * d;
        y *= step;
    }
    return y;
}

/* Q of an x that is small: 1 less the sum of x^a (-x)^k / k! (a + k) gamma(a) (DLMF 8.7.1), of
 * which the first is taken from 1 before it is rounded. */
static long double upper_small(long double a, long double x)
{
    long double first = a * logl(x) - log_gamma_1(a), sum = 0, term = 1;
    for (int k = 1; k < 40; k++) {
        term *= -x / k;
        sum += term / (a + k);
    }
    return -expm1l(first) - expl(first) * a * sum;
}

/* Of a large a and an x near it (N. Temme; DLMF 8.12.3, 8.12.4, 8.12.7): half an erfc, and a sum in
 * 1 / a and eta, of which each row is made from the one above it (DLMF 8.12.9, 8.12.12). */
static long double uniform(long double a, long double x, bool upper)
{
    enum { ROWS = 7, MOST = 16 };
    static const long double by[ROWS][MOST] = {
        {-3.33333333333333333333e-1L, 8.33333333333333333333e-2L, -1.48148148148148148148e-2L,
         1.15740740740740740741e-3L, 3.52733686067019400353e-4L, -1.787551440329218107e-4L,
         3.9192631785224377817e-5L, -2.18544851067999216147e-6L, -1.8540622107151599607e-6L,
         8.29671134095308600502e-7L, -1.76659527368260793044e-7L, 6.70785354340149858037e-9L,
         1.02618097842403080426e-8L, -4.38203601845335318655e-9L, 9.14769958223679023418e-10L,
         -2.55141939949462497669e-11L},
        {-1.85185185185185185185e-3L, -3.47222222222222222222e-3L, 2.64550264550264550265e-3L,
         -9.90226337448559670782e-4L, 2.05761316872427983539e-4L, -4.0187757201646090535e-7L,
         -1.8098550334489977837e-5L, 7.64916091608111008464e-6L, -1.61209008945634460038e-6L,
         4.64712780280743434226e-9L, 1.37863344691572095931e-7L, -5.75254560351770496402e-8L,
         1.19516285997781473243e-8L},
        {4.13359788359788359788e-3L, -2.68132716049382716049e-3L, 7.71604938271604938272e-4L,
         2.00938786008230452675e-6L, -1.07366532263651605215e-4L, 5.29234488291201254164e-5L,
         -1.27606351886187277134e-5L, 3.42357873409613807419e-8L, 1.37219573090629332056e-6L,
         -6.29899213838005502291e-7L, 1.42806142060642417916e-7L},
        {6.49434156378600823045e-4L, 2.29472093621399176955e-4L, -4.69189494395255712128e-4L,
         2.67720632062838852962e-4L, -7.56180167188397641073e-5L, -2.39650511386729665193e-7L,
         1.10826541153473023615e-5L, -5.6749528269915965675e-6L, 1.42309007324358839146e-6L},
        {-8.61888290916711698605e-4L, 7.84039221720066627474e-4L, -2.99072480303190179733e-4L,
         -1.46384525788434181781e-6L, 6.64149821546512218666e-5L, -3.96836504717943466443e-5L,
         1.13757269706784190981e-5L},
        {-3.36798553366358150309e-4L, -6.97281375836585777429e-5L, 2.77275324495939207873e-4L,
         -1.99325705161888477003e-4L},
        {5.31307936463992223166e-4L, -5.92166437353693882865e-4L},
    };
    long double m = (x - a) / a, half = above_log(m), eta = copysignl(sqrtl(2 * half), m), sum = 0;
    for (int k = ROWS - 1; k >= 0; k--) {
        long double row = 0;
        for (int n = MOST - 1; n >= 0; n--)
            row = row * eta + by[k][n];
        sum = sum / a + row;
    }
    sum *= expl(-a * half) / sqrtl(2 * PI * a);
    long double off = eta * sqrtl(a / 2);
    return upper ? erfcl(off) / 2 + sum : erfcl(-off) / 2 - sum;
}

static long double part(long double a, long double x, bool upper)
{
    if (a >= LARGE && fabsl(x - a) < NEAR * a)
        return uniform(a, x, upper);
    if (upper && x <= 1.1L)
        return upper_small(a, x);
    if (x <= 1.1L || x < a) {
        long double lower = power(a, x) * series(a, x);
        return upper ? 1 - lower : lower;
    }
    long double rest = power(a, x) * a * fraction(a, x);
    return upper ? rest : 1 - rest;
}

/* In PyTorch's order: a NaN beside what tells the result without it is passed over. */
static double judged(double a, double x, bool upper)
{
    if (a < 0 || x < 0)
        return NAN;
    if (a == 0)
        return x > 0 ? !upper : NAN;
    if (x == 0)
        return upper;
    if (isinf(a))
        return isinf(x) ? NAN : upper;
    if (isinf(x))
        return !upper;
    return isnan(a) || isnan(x) ? NAN : (double)part((long double)a, (long double)x, upper);
}

double td_gamma_lower(double a, double x)
{
    return judged(a, x, false);
}

double td_gamma_upper(double a, double x)
{
    return judged(a, x, true);
}
