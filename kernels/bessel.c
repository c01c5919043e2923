/* Bessel's functions: J and Y are the C library's, in long double, which keeps some three digits
 * more beside their roots; K is made by the formulas of the Digital Library of Mathematical
 * Functions (DLMF, dlmf.nist.gov), of a small x by its series, of others by an integral. */
#include "kernels/bessel.h"

#include <math.h>
#include <stdbool.h>

double td_bessel_j0(double x)
{
    return (double)j0l((long double)x);
}

double td_bessel_j1(double x)
{
    return (double)j1l((long double)x);
}

double td_bessel_y0(double x)
{
    return x < 0 ? NAN : x == 0 ? -INFINITY : (double)y0l((long double)x);
}

double td_bessel_y1(double x)
{
    return x < 0 ? NAN : x == 0 ? -INFINITY : (double)y1l((long double)x);
}

/* Of order 0 or 1, up to x = 1 (DLMF 10.31.1 and 10.31.2): with h = 1 + 1/2 + ... + 1/k the terms
 * are (x / 2)^2k / k! (k + order)!. */
static double k_near(int order, long double x)
{
    const long double gamma = 0.577215664901532860606512090082402431L;
    long double term = 1, h = 0, i = 0, sum = 0, logarithm = logl(x / 2);
    for (int k = 0; k < 16; k++) {
        i += term;
        sum += term * (order ? 2 * (h - gamma) + 1 / (k + 1.0L) : h - gamma);
        h += 1 / (k + 1.0L);
        term *= x * x / 4 / ((k + 1.0L) * (k + 1 + order));
    }
    return (double)(order ? 1 / x + logarithm * x / 2 * i - x / 4 * sum : sum - logarithm * i);
}

/* Times exp(x), x > 1: the integral of exp(x - x cosh(t)) cosh(order t) over t from 0 on (DLMF
 * 10.32.9), in even steps, which give it to all digits where they are as short as this. */
static double k_far(int order, double x)
{
    double step = fmin(0.2, 0.6 / sqrt(x)), sum = 0.5;
    for (int k = 1;; k++) {
        double s = sinh(k * step / 2), off = 2 * s * s * x; /* x cosh(t) - x */
        if (off > 45)
            return sum * step;
        sum += exp(-off) * (order ? cosh(k * step) : 1);
    }
}

static double bessel_k(int order, double x, bool scaled)
{
    if (!(x > 0))
        return x == 0 ? INFINITY : NAN;
    if (isinf(x))
        return 0;
    if (x <= 1)
        return k_near(order, (long double)x) * (scaled ? exp(x) : 1);
    return k_far(order, x) * (scaled ? 1 : exp(-x));
}

double td_bessel_k0(double x)
{
    return bessel_k(0, x, false);
}

double td_bessel_k1(double x)
{
    return bessel_k(1, x, false);
}

double td_bessel_k0_scaled(double x)
{
    return bessel_k(0, x, true);
}

double td_bessel_k1_scaled(double x)
{
    return bessel_k(1, x, true);
}
