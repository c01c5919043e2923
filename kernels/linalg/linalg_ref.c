/* Linear algebra, reference: each element by its own sum, which begins with the element and takes
 * the products away in the order of their index. */
#include "kernels/linalg/linalg.h"

#include <math.h>

/* Rows i and j of w change places. */
static void exchange(double *w, int64_t n, int64_t i, int64_t j)
{
    for (int64_t c = 0; c < n && i != j; c++) {
        double x = w[i * n + c];
        w[i * n + c] = w[j * n + c];
        w[j * n + c] = x;
    }
}

/* Column by column: what the columns before have to say comes first, then the choice of a row. */
static int64_t factor(double *w, int32_t *pivot, int64_t n)
{
    int64_t info = 0;
    for (int64_t k = 0; k < n && !td_stopped(); k++) {
        int64_t best = k;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < (i < k ? i : k); j++)
                w[i * n + k] -= w[i * n + j] * w[j * n + k];
        for (int64_t i = k + 1; i < n; i++)
            if (fabs(w[i * n + k]) > fabs(w[best * n + k]))
                best = i;
        exchange(w, n, k, best);
        pivot[k] = (int32_t)(best + 1);
        if (w[k * n + k] == 0)
            info = info ? info : k + 1;
        for (int64_t i = k + 1; i < n && w[k * n + k] != 0; i++)
            w[i * n + k] /= w[k * n + k];
    }
    return info;
}

static void solve(const double *t, int64_t row, int64_t column, int64_t n, bool upper, bool unit,
                  double *x, int64_t k)
{
    for (int64_t c = 0; c < k && !td_stopped(); c++)
        for (int64_t step = 0; step < n; step++) {
            int64_t i = upper ? n - 1 - step : step;
            double sum = x[i * k + c];
            for (int64_t other = 0; other < step; other++) {
                int64_t j = upper ? n - 1 - other : other;
                sum -= t[i * row + j * column] * x[j * k + c];
            }
            x[i * k + c] = unit ? sum : sum / t[i * row + i * column];
        }
}

static int64_t cholesky(double *w, int64_t n)
{
    for (int64_t i = 0; i < n && !td_stopped(); i++)
        for (int64_t j = i; j < n; j++) {
            for (int64_t k = 0; k < i; k++)
                w[i * n + j] -= w[k * n + i] * w[k * n + j];
            if (j == i && !(w[i * n + i] > 0))
                return i + 1;
            w[i * n + j] = j == i ? sqrt(w[i * n + i]) : w[i * n + j] / w[i * n + i];
        }
    return 0;
}

td_kernel td_linalg_ref;
void td_linalg_ref(const struct td_call *call)
{
    static const struct td_linalg_steps steps = {factor, solve, cholesky};
    td_linalg_run(call, &steps);
}
