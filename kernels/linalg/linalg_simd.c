/* Linear algebra in vectors: a row, or a row of right-hand sides, takes others away at once, as
 * soon as these are known; each element has its products taken away in the order that the reference
 * has. */
#include "kernels/linalg/linalg.h"
#include "kernels/vec.h"

#include <math.h>

/* y -= f x */
TD_INLINE void take(double *restrict y, double f, const double *restrict x, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        y[j] -= f * x[j];
}

static int64_t factor(double *w, int32_t *pivot, int64_t n)
{
    int64_t info = 0;
    for (int64_t k = 0; k < n && !td_stopped(); k++) {
        double *row = w + k * n, *best = row;
        for (int64_t i = k + 1; i < n; i++)
            best = fabs(w[i * n + k]) > fabs(best[k]) ? w + i * n : best;
        pivot[k] = (int32_t)((best - w) / n + 1);
        for (int64_t j = 0; j < n && best != row; j++) {
            double x = row[j];
            row[j] = best[j];
            best[j] = x;
        }
        if (row[k] == 0)
            info = info ? info : k + 1;
        for (int64_t i = k + 1; i < n; i++) {
            double *other = w + i * n;
            other[k] = row[k] != 0 ? other[k] / row[k] : other[k];
            take(other + k + 1, other[k], row + k + 1, n - k - 1);
        }
    }
    return info;
}

static void solve(const double *t, int64_t row, int64_t column, int64_t n, bool upper, bool unit,
                  double *x, int64_t k)
{
    for (int64_t step = 0; step < n && !td_stopped(); step++) {
        int64_t i = upper ? n - 1 - step : step;
        double *own = x + i * k, by = t[i * row + i * column];
        for (int64_t other = 0; other < step; other++) {
            int64_t j = upper ? n - 1 - other : other;
            take(own, t[i * row + j * column], x + j * k, k);
        }
        for (int64_t c = 0; c < k && !unit; c++)
            own[c] /= by;
    }
}

static int64_t cholesky(double *w, int64_t n)
{
    for (int64_t k = 0; k < n && !td_stopped(); k++) {
        double *row = w + k * n;
        if (!(row[k] > 0))
            return k + 1;
        row[k] = sqrt(row[k]);
        for (int64_t j = k + 1; j < n; j++)
            row[j] /= row[k];
        for (int64_t i = k + 1; i < n; i++)
            take(w + i * n + i, row[i], row + i, n - i);
    }
    return 0;
}

TD_KERNEL(linalg)
{
    static const struct td_linalg_steps steps = {factor, solve, cholesky};
    td_linalg_run(call, &steps);
}
