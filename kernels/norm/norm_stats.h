/* The statistics of a group, in lanes: see norm_rows.h, which reads this. */
#ifndef TD_KERNELS_NORM_STATS_H
#define TD_KERNELS_NORM_STATS_H

#include "kernels/elementwise.h"
#include "kernels/norm/norm.h"
#include "kernels/reals.h"

#include <math.h>

#define RUN 128 /* vectors, of which the sums are added up in double */

struct norm_stats {
    double rough, delta; /* the mean: nearly, exact in the lanes' type, and what it lacks */
    double mean, scale;
    bool wide;
};

/* The runs of group k: where the first begins, their number, length and distance. */
struct norm_runs {
    int64_t at, count, length, step;
};

static struct norm_runs runs_of(const struct td_norm *n, int64_t k)
{
    if (n->together)
        return (struct norm_runs){td_norm_at(n, k), 1, n->n, 0};
    return (struct norm_runs){k * n->inner, n->images, n->inner, n->channels * n->inner};
}

/* Compensated summation in FP64: lost adds up the rounding errors of the additions (D. Knuth, "The
 * Art of Computer Programming", volume 2, section 4.2.2, theorem B). Without it 2000 parts were 18
 * ulp off. Parts of FP32 lanes have larger errors than a plain sum of them in double. */
struct norm_sum {
    double sum, lost;
};

TD_INLINE void add_part(struct norm_sum *to, double part)
{
    double sum = to->sum + part, back = sum - to->sum;
    if (TD_REAL_BITS == 64)
        to->lost += (to->sum - (sum - back)) + (part - back);
    to->sum = sum;
}

static double total(const struct norm_sum *of)
{
    return of->sum + of->lost;
}

/* Sums of x - rough, and of the squares where these are wanted. */
TD_INLINE void sums_of(const void *x, struct norm_runs r, const enum td_dtype type, td_real rough,
                       bool square, double *sum, double *squares)
{
    V middle = L_c(rough);
    struct norm_sum all = {0}, all_squares = {0};
    for (int64_t run = 0; run < r.count && !td_stopped(); run++, r.at += r.step)
        for (int64_t i = 0; i < r.length;) {
            int64_t end = r.length - i < RUN * L_LANES ? r.length : i + RUN * L_LANES;
            V a = L_c(0), a1 = a, b = a, b1 = a;
            for (; i + 2 * L_LANES <= end; i += 2 * L_LANES) {
                V d = L_get(x, r.at + i, type) - middle;
                V d1 = L_get(x, r.at + i + L_LANES, type) - middle;
                a += d;
                a1 += d1;
                if (square) {
                    b = L_fma(d, d, b);
                    b1 = L_fma(d1, d1, b1);
                }
            }
            for (; i < end; i += L_LANES) {
                V d = L_next(x, r.at + i, end - i, type, rough) - middle;
                a += d;
                b = L_fma(d, d, b);
            }
            add_part(&all, L_hsum(a + a1));
            if (square)
                add_part(&all_squares, L_hsum(b + b1));
        }
    *sum = total(&all);
    *squares = total(&all_squares);
}

/* Numbers near the type's greatest, of which neither sums nor squares fit; NaN and infinities too.
 */
static struct norm_stats wide_stats(const struct td_norm *n, struct norm_runs r)
{
    struct norm_stats s = {.wide = true};
    double var = 0;
    for (int64_t run = 0; run < r.count && !n->root; run++)
        for (int64_t i = 0; i < r.length; i++)
            s.mean += td_get_real(n->x, r.at + run * r.step + i) / (double)n->n;
    for (int64_t run = 0; run < r.count; run++)
        for (int64_t i = 0; i < r.length; i++) {
            double d = td_get_real(n->x, r.at + run * r.step + i) - s.mean;
            var += d * d / (double)n->n;
        }
    s.scale = 1 / sqrt(var + n->eps);
    return s;
}

static struct norm_stats settled(const struct td_norm *n, double rough, double sum, double squares)
{
    double delta = n->root ? 0 : sum / (double)n->n, var = squares / (double)n->n - delta * delta;
    return (struct norm_stats){.rough = rough,
                               .delta = delta,
                               .mean = rough + delta,
                               .scale = 1 / sqrt((var < 0 ? 0 : var) + n->eps),
                               .wide = !isfinite(sum) || !isfinite(squares)};
}

TD_INLINE struct norm_stats stats_of(const struct td_norm *n, int64_t k, const enum td_dtype type)
{
    struct norm_runs r = runs_of(n, k);
    double sum = 0, squares = 0;
    if (!n->n)
        return (struct norm_stats){.scale = (double)NAN};
    if (!n->root)
        sums_of(n->x->data, r, type, 0, false, &sum, &squares);
    td_real rough = (td_real)(sum / (double)n->n);
    sums_of(n->x->data, r, type, rough, true, &sum, &squares);
    struct norm_stats s = settled(n, (double)rough, sum, squares);
    return s.wide ? wide_stats(n, r) : s;
}

#endif
