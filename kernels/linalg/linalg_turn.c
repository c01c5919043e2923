/* What is found by turning: singular values and eigenvalues by C. Jacobi's rotations, which are
 * slow for large matrices and right to the last digits; Q R by A. Householder's reflections; and
 * the exponential by its series and by squaring. */
#include "kernels/linalg/linalg.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define SWEEPS 60

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* x and y become c x - s y and s x + c y. */
static void rotate(double *x, double *y, int64_t n, double c, double s)
{
    for (int64_t i = 0; i < n; i++) {
        double old = x[i];
        x[i] = c * old - s * y[i];
        y[i] = s * old + c * y[i];
    }
}

static void swap(double *x, double *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double old = x[i];
        x[i] = y[i];
        y[i] = old;
    }
}

/* The tangent of the angle that brings half the difference of two to zeta times what they share. */
static double tangent(double zeta)
{
    return (zeta < 0 ? -1 : 1) / (fabs(zeta) + sqrt(1 + zeta * zeta));
}

/* Makes vectors from the known-th on orthogonal to those before, of unit length: by the first unit
 * vector that is not among them. */
static void complete(double *vector, int64_t known, int64_t n, int64_t size)
{
    int64_t unit = 0;
    for (int64_t v = known; v < n && !td_stopped(); v++) {
        double *own = vector + v * size, length = 0;
        for (; length < 0.5 / sqrt((double)size) && unit < size; unit++) {
            memset(own, 0, (size_t)size * sizeof *own);
            own[unit] = 1;
            for (int turn = 0; turn < 2; turn++) /* what rounding left, too */
                for (int64_t u = 0; u < v; u++) {
                    double share = dot(own, vector + u * size, size);
                    for (int64_t i = 0; i < size; i++)
                        own[i] -= share * vector[u * size + i];
                }
            length = sqrt(dot(own, own, size));
        }
        for (int64_t i = 0; i < size && length > 0; i++)
            own[i] /= length;
    }
}

/* ---- singular values ---- */

/* Turns all pairs of vectors until none has a share in another; right is turned with them. */
static void turn_pairs(double *vector, int64_t n, int64_t size, double *right)
{
    bool turned = true;
    for (int sweep = 0; sweep < SWEEPS && turned && !td_stopped(); sweep++) {
        turned = false;
        for (int64_t p = 0; p < n && !td_stopped(); p++)
            for (int64_t q = p + 1; q < n; q++) {
                double *x = vector + p * size, *y = vector + q * size;
                double a = dot(x, x, size), b = dot(y, y, size), share = dot(x, y, size);
                if (!(fabs(share) > DBL_EPSILON * sqrt(a) * sqrt(b)))
                    continue;
                double t = tangent((b - a) / (2 * share)), c = 1 / sqrt(1 + t * t);
                rotate(x, y, size, c, c * t);
                rotate(right + p * n, right + q * n, n, c, c * t);
                turned = true;
            }
    }
}

int64_t td_linalg_svd_room(int64_t m, int64_t n, bool all)
{
    int64_t large = m > n ? m : n, less = m > n ? n : m;
    return large * (all ? large : less) + less * less;
}

void td_linalg_svd(const double *a, int64_t m, int64_t n, bool all, double *u, double *s, double *v,
                   double *room)
{
    int64_t size = m > n ? m : n, less = m > n ? n : m, known = 0;
    int64_t width = all ? size : less;
    double *left = room, *right = room + size * width; /* vectors, one behind the other */
    bool wide = m < n;
    for (int64_t c = 0; c < less; c++)
        for (int64_t r = 0; r < size; r++)
            left[c * size + r] = wide ? a[c * n + r] : a[r * n + c];
    memset(right, 0, (size_t)(less * less) * sizeof *right);
    for (int64_t c = 0; c < less; c++)
        right[c * less + c] = 1;
    turn_pairs(left, less, size, right);
    for (int64_t c = 0; c < less; c++)
        s[c] = sqrt(dot(left + c * size, left + c * size, size));
    for (int64_t c = 0; c < less; c++) { /* the largest first */
        int64_t best = c;
        for (int64_t i = c + 1; i < less; i++)
            best = s[i] > s[best] ? i : best;
        swap(&s[c], &s[best], best != c);
        swap(left + c * size, left + best * size, best != c ? size : 0);
        swap(right + c * less, right + best * less, best != c ? less : 0);
    }
    if (!u)
        return;
    for (; known < less && !(s[known] <= s[0] * DBL_EPSILON * (double)size); known++)
        for (int64_t r = 0; r < size; r++)
            left[known * size + r] /= s[known];
    complete(left, known, width, size);
    int64_t columns = wide ? less : width, rows = wide ? width : less;
    for (int64_t r = 0; r < m; r++)
        for (int64_t c = 0; c < columns; c++)
            u[r * columns + c] = wide ? right[c * less + r] : left[c * size + r];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < n; c++)
            v[r * n + c] = wide ? left[r * size + c] : right[r * less + c];
}

/* ---- eigenvalues ---- */

/* Rows and columns p and q of a by c and s. */
static void turn_both(double *a, int64_t n, int64_t p, int64_t q, double c, double s)
{
    rotate(a + p * n, a + q * n, n, c, s);
    for (int64_t i = 0; i < n; i++) {
        double x = a[i * n + p], y = a[i * n + q];
        a[i * n + p] = c * x - s * y;
        a[i * n + q] = s * x + c * y;
    }
}

void td_linalg_eigh(double *a, int64_t n, double *values, double *v)
{
    bool turned = true;
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = r + 1; c < n; c++)
            a[r * n + c] = a[c * n + r];
    for (int64_t i = 0; i < n * n && v; i++)
        v[i] = i / n == i % n;
    for (int sweep = 0; sweep < SWEEPS && turned && !td_stopped(); sweep++) {
        turned = false;
        for (int64_t p = 0; p < n && !td_stopped(); p++)
            for (int64_t q = p + 1; q < n; q++) {
                double x = a[p * n + p], y = a[q * n + q], share = a[p * n + q];
                if (!(fabs(share) > DBL_EPSILON * 1e-3 * sqrt(fabs(x)) * sqrt(fabs(y))) ||
                    fabs(share) < DBL_MIN)
                    continue;
                double t = tangent((y - x) / (2 * share)), c = 1 / sqrt(1 + t * t);
                turn_both(a, n, p, q, c, c * t);
                a[p * n + q] = a[q * n + p] = 0;
                if (v)
                    rotate(v + p * n, v + q * n, n, c, c * t); /* vectors in rows, yet */
                turned = true;
            }
    }
    for (int64_t i = 0; i < n; i++)
        values[i] = a[i * n + i];
    for (int64_t i = 0; i < n; i++) {
        int64_t best = i;
        for (int64_t j = i + 1; j < n; j++)
            best = values[j] < values[best] ? j : best;
        swap(&values[i], &values[best], best != i);
        swap(v ? v + i * n : NULL, v ? v + best * n : NULL, v && best != i ? n : 0);
    }
    for (int64_t r = 0; r < n && v; r++)
        for (int64_t c = r + 1; c < n; c++)
            swap(&v[r * n + c], &v[c * n + r], 1);
}

/* ---- Q R ---- */

/* Column j of rows first to m of a less by times the reflection's vector, which stands in column of
 * w below the diagonal. */
static void reflect(const double *w, int64_t stride, int64_t column, int64_t m, double by,
                    double *a, int64_t width, int64_t j)
{
    double share = a[column * width + j];
    for (int64_t r = column + 1; r < m; r++)
        share += w[r * stride + column] * a[r * width + j];
    share *= by;
    a[column * width + j] -= share;
    for (int64_t r = column + 1; r < m; r++)
        a[r * width + j] -= share * w[r * stride + column];
}

void td_linalg_qr(double *a, int64_t m, int64_t n, double *q, int64_t width, double *room)
{
    int64_t less = m < n ? m : n;
    for (int64_t c = 0; c < less && !td_stopped(); c++) {
        double below = 0, first = a[c * n + c];
        for (int64_t r = c + 1; r < m; r++)
            below = hypot(below, a[r * n + c]);
        double length = first < 0 ? hypot(first, below) : -hypot(first, below);
        room[c] = below == 0 ? 0 : (length - first) / length;
        if (below == 0)
            continue;
        for (int64_t r = c + 1; r < m; r++)
            a[r * n + c] /= first - length;
        for (int64_t j = c + 1; j < n; j++)
            reflect(a, n, c, m, room[c], a, n, j);
        a[c * n + c] = length;
    }
    for (int64_t i = 0; i < m * width && q; i++)
        q[i] = i / width == i % width;
    for (int64_t c = less - 1; c >= 0 && q && !td_stopped(); c--)
        for (int64_t j = 0; j < width; j++)
            reflect(a, n, c, m, room[c], q, width, j);
    for (int64_t r = 1; r < m; r++)
        for (int64_t c = 0; c < (r < n ? r : n); c++)
            a[r * n + c] = 0;
}

/* ---- the exponential ---- */

static void multiply(const double *a, const double *b, int64_t n, double *y)
{
    memset(y, 0, (size_t)(n * n) * sizeof *y);
    for (int64_t i = 0; i < n && !td_stopped(); i++)
        for (int64_t k = 0; k < n; k++)
            for (int64_t j = 0; j < n; j++)
                y[i * n + j] += a[i * n + k] * b[k * n + j];
}

/* 18 terms of the series are good to the last digit up to a norm of 1/2; e^a = (e^(a/2))^2. */
void td_linalg_exp(double *a, int64_t n, double *y, double *room)
{
    double norm = 0;
    int halves = 0;
    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += fabs(a[i * n + j]);
        norm = sum > norm || sum != sum ? sum : norm;
    }
    for (; norm > 0.5 && halves < 1100; norm /= 2)
        halves++;
    for (int64_t i = 0; i < n * n; i++) {
        a[i] = ldexp(a[i], -halves);
        y[i] = i / n == i % n;
    }
    for (int term = 18; term > 0; term--) {
        multiply(a, y, n, room);
        for (int64_t i = 0; i < n * n; i++)
            y[i] = room[i] / term + (i / n == i % n);
    }
    for (; halves > 0; halves--) {
        multiply(y, y, n, room);
        memcpy(y, room, (size_t)(n * n) * sizeof *y);
    }
}
