/* The folds of reduce.def in lanes, of FP32 or FP64 by TD_REAL_BITS: along rows in four vectors at
 * once, down columns four rows at a time, so that memory is read in its order. FP32 totals go to a
 * double every RUN steps, so that long sums keep their digits; the walk hands down at most as many
 * rows. Folds with two totals walk a piece more than once; the walk keeps it in the first cache. */
#ifndef TD_KERNELS_REDUCE_ROWS_H
#define TD_KERNELS_REDUCE_ROWS_H

#include "kernels/formulas.h"
#include "kernels/reals.h"
#include "kernels/reduce/reduce.h"

#define RUN (64 * 4 * L_LANES)
#define SHORT 64 /* elements of a row, up to which rows are folded together */
#define ONCE static __attribute__((noinline)) /* for all who call it */

/* The first n lanes, and the n < L_LANES elements that end a row. */
TD_INLINE VM first_lanes(int64_t n)
{
    V lane;
    for (int i = 0; i < L_LANES; i++)
        lane[i] = (td_real)i;
    return L_lt(lane, L_c((td_real)n));
}

TD_INLINE V load_last(const td_real *x, int64_t n)
{
    return L_get_n(x, 0, n, TD_REAL_TYPE, 0);
}

#include "kernels/reduce/reduce_few.h"

#define JOIN(name, lanes, scalar)                                                                  \
    TD_INLINE V join_##name(V a, V b)                                                              \
    {                                                                                              \
        return lanes;                                                                              \
    }                                                                                              \
    TD_INLINE double total_##name(double a, double b)                                              \
    {                                                                                              \
        return scalar;                                                                             \
    }                                                                                              \
    TD_INLINE double lanes_##name(V v)                                                             \
    {                                                                                              \
        if (L_LANES > 8)                                                                           \
            v = join_##name(v, L_swap(v, 8));                                                      \
        if (L_LANES > 4)                                                                           \
            v = join_##name(v, L_swap(v, 4));                                                      \
        if (L_LANES > 2)                                                                           \
            v = join_##name(v, L_swap(v, 2));                                                      \
        v = join_##name(v, L_swap(v, 1));                                                          \
        return (double)v[0];                                                                       \
    }                                                                                              \
    TD_EACH(name, join_##name)
JOIN(add, L_add(a, b), a + b)
JOIN(mul, L_mul(a, b), a *b)
JOIN(max, o_maximum(a, b), a > b || a != a ? a : b)
JOIN(min, o_minimum(a, b), a < b || a != a ? a : b)

/* pivot: p of the first row or column; that of the next one is `each` behind it. */
#define TD_STEP(id, width, joins, cost, init, whole_init, judge, whole, lanes)                     \
    TD_INLINE V id##_step(V s, V x, V p)                                                           \
    {                                                                                              \
        (void)p;                                                                                   \
        return lanes;                                                                              \
    }                                                                                              \
    TD_INLINE V id##_chain(const td_real *x, int64_t n, VM last, V p)                              \
    {                                                                                              \
        V v = L_c((td_real)(init));                                                                \
        int64_t i = 0;                                                                             \
        for (; i + L_LANES <= n; i += L_LANES)                                                     \
            v = id##_step(v, L_load(x + i), p);                                                    \
        if (i < n)                                                                                 \
            v = L_sel(last, id##_step(v, load_last(x + i, n - i), p), v);                          \
        return v;                                                                                  \
    }                                                                                              \
    TD_INLINE double id##_row(const td_real *x, int64_t n, V p)                                    \
    {                                                                                              \
        const V none = L_c((td_real)(init));                                                       \
        V a = none, b = none, c = none, d = none;                                                  \
        if (n <= SHORT) /* in the order of id##_together */                                        \
            return lanes_##joins(id##_chain(x, n, first_lanes(n % L_LANES), p));                   \
        for (; n >= 4 * L_LANES; n -= 4 * L_LANES, x += 4 * L_LANES) {                             \
            a = id##_step(a, L_load(x), p);                                                        \
            b = id##_step(b, L_load(x + L_LANES), p);                                              \
            c = id##_step(c, L_load(x + 2 * L_LANES), p);                                          \
            d = id##_step(d, L_load(x + 3 * L_LANES), p);                                          \
        }                                                                                          \
        for (; n >= L_LANES; n -= L_LANES, x += L_LANES)                                           \
            a = id##_step(a, L_load(x), p);                                                        \
        if (n)                                                                                     \
            b = L_sel(first_lanes(n), id##_step(b, load_last(x, n), p), b);                        \
        return lanes_##joins(join_##joins(join_##joins(a, b), join_##joins(c, d)));                \
    }                                                                                              \
    TD_INLINE void id##_together(const td_real *x, int64_t n, int64_t step, const double *pivot,   \
                                 int each, union td_total *s)                                      \
    {                                                                                              \
        const VM last = first_lanes(n % L_LANES);                                                  \
        V v[L_LANES];                                                                              \
        _Pragma("GCC unroll 16") for (int r = 0; r < L_LANES; r++, x += step) v[r] =               \
            id##_chain(x, n, last, L_c((td_real)pivot[r * each]));                                 \
        put_totals(each_##joins(v), L_LANES, s);                                                   \
    }                                                                                              \
    ONCE void id##_rows(const td_real *x, int64_t n, int64_t rows, int64_t step,                   \
                        const double *pivot, int each, union td_total *s)                          \
    {                                                                                              \
        for (int64_t some; n <= FEW && rows; rows -= some, x += step * some, s += some) {          \
            V to[FEW], v = L_c((td_real)(init)), p = each_of(pivot, each, rows);                   \
            some = turn_few(x, n, rows, step, to);                                                 \
            for (int64_t i = 0; i < n; i++)                                                        \
                v = id##_step(v, to[i], p);                                                        \
            put_totals(v, some, s);                                                                \
            pivot += each * some;                                                                  \
        }                                                                                          \
        for (; n <= SHORT && rows >= L_LANES; rows -= L_LANES, x += step * L_LANES) {              \
            id##_together(x, n, step, pivot, each, s);                                             \
            s += L_LANES;                                                                          \
            pivot += each * L_LANES;                                                               \
        }                                                                                          \
        for (int64_t r = 0; r < rows; r++, x += step, pivot += each) {                             \
            if (n <= RUN) {                                                                        \
                s[r].f = id##_row(x, n, L_c((td_real)*pivot));                                     \
                continue;                                                                          \
            }                                                                                      \
            for (int64_t i = 0; i < n; i += RUN) {                                                 \
                union td_total run;                                                                \
                id##_rows(x + i, n - i < RUN ? n - i : RUN, 1, 0, pivot, 0, &run);                 \
                s[r].f = i ? total_##joins(s[r].f, run.f) : run.f;                                 \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    ONCE void id##_columns(const td_real *x, int64_t n, int64_t rows, int64_t step,                \
                           const double *pivot, int each, union td_total *s)                       \
    {                                                                                              \
        td_real sum[TD_REDUCE_COLUMNS], ps[TD_REDUCE_COLUMNS];                                     \
        int64_t whole_lanes = n - n % L_LANES, r = 0;                                              \
        for (int64_t i = 0; i < n; i += L_LANES) {                                                 \
            L_store(sum + i, L_c((td_real)(init)));                                                \
            L_store(ps + i, L_c((td_real)*pivot));                                                 \
        }                                                                                          \
        for (int64_t i = 0; each && i < n; i++)                                                    \
            ps[i] = (td_real)pivot[i * each];                                                      \
        for (; r + 4 <= rows; r += 4, x += 4 * step) {                                             \
            for (int64_t i = 0; i < whole_lanes; i += L_LANES) {                                   \
                V v = L_load(sum + i), p = L_load(ps + i);                                         \
                v = id##_step(v, L_load(x + i), p);                                                \
                v = id##_step(v, L_load(x + step + i), p);                                         \
                v = id##_step(v, L_load(x + 2 * step + i), p);                                     \
                L_store(sum + i, id##_step(v, L_load(x + 3 * step + i), p));                       \
            }                                                                                      \
            _Pragma("GCC unroll 1") for (int k = 0; k < 4 && whole_lanes < n; k++)                 \
                L_store(sum + whole_lanes,                                                         \
                        id##_step(L_load(sum + whole_lanes),                                       \
                                  load_last(x + k * step + whole_lanes, n - whole_lanes),          \
                                  L_load(ps + whole_lanes)));                                      \
        }                                                                                          \
        for (; r < rows; r++, x += step)                                                           \
            for (int64_t i = 0; i < n; i += L_LANES) {                                             \
                V v = i < whole_lanes ? L_load(x + i) : load_last(x + i, n - i);                   \
                L_store(sum + i, id##_step(L_load(sum + i), v, L_load(ps + i)));                   \
            }                                                                                      \
        for (int64_t i = 0; i < n; i++)                                                            \
            s[i].f = (double)sum[i];                                                               \
    }                                                                                              \
    static __attribute__((unused)) void id##_along(const void *x, int64_t n, int64_t rows,         \
                                                   int64_t step, double p, union td_total *s,      \
                                                   union td_total *t)                              \
    {                                                                                              \
        (void)t;                                                                                   \
        id##_rows(x, n, rows, step, &p, 0, s);                                                     \
    }                                                                                              \
    static __attribute__((unused)) void id##_down(const void *x, int64_t n, int64_t rows,          \
                                                  int64_t step, double p, union td_total *s,       \
                                                  union td_total *t)                               \
    {                                                                                              \
        (void)t;                                                                                   \
        id##_columns(x, n, rows, step, &p, 0, s);                                                  \
    }
#define TD_WHOLE_STEP(...)
#include "kernels/reduce/reduce.def"

/* ---- folds with two totals: about a pivot near the mean, or at the largest, little is lost ----
 */

static void moments_about(const double *pivot, int64_t count, int64_t n, union td_total *s,
                          union td_total *t)
{
    for (int64_t i = 0; i < count; i++) { /* s: the sum of what is off the pivot, t: its squares */
        double off = s[i].f / (double)n;
        t[i].f -= s[i].f * off;
        s[i].f = pivot[i] + off;
    }
}

static void set_means(double *pivot, int64_t count, int64_t n, const union td_total *s)
{
    for (int64_t i = 0; i < count; i++) {
        td_real mean = (td_real)(s[i].f / (double)n);
        pivot[i] = isinf(mean) ? 0 : (double)mean; /* so that it is infinite in the end, too */
    }
}

/* Rows that are walked more than once before the next: one, which stays in the cache, or many short
 * ones. */
static int64_t at_once(int64_t n, int64_t rows)
{
    int64_t most = n <= SHORT ? TD_REDUCE_COLUMNS : 1;
    return rows < most ? rows : most;
}

static void moments_along(const void *from, int64_t n, int64_t rows, int64_t step, double p,
                          union td_total *s, union td_total *t)
{
    const td_real *x = from;
    double pivot[TD_REDUCE_COLUMNS];
    for (int64_t some; rows; rows -= some, x += some * step, s += some, t += some) {
        some = at_once(n, rows);
        sum_rows(x, n, some, step, &p, 0, s);
        set_means(pivot, some, n, s);
        offset_rows(x, n, some, step, pivot, 1, s);
        spread_rows(x, n, some, step, pivot, 1, t);
        moments_about(pivot, some, n, s, t);
    }
}

static void moments_down(const void *x, int64_t n, int64_t rows, int64_t step, double p,
                         union td_total *s, union td_total *t)
{
    double pivot[TD_REDUCE_COLUMNS] = {0};
    sum_columns(x, n, rows, step, &p, 0, s);
    set_means(pivot, n, rows, s);
    offset_columns(x, n, rows, step, pivot, 1, s);
    spread_columns(x, n, rows, step, pivot, 1, t);
    moments_about(pivot, n, rows, s, t);
}

static void hold_finite(int64_t count, union td_total *s)
{
    for (int64_t i = 0; i < count; i++)
        s[i].f = isinf(s[i].f) ? 0 : s[i].f;
}

static void exponents_along(const void *from, int64_t n, int64_t rows, int64_t step, double p,
                            union td_total *s, union td_total *t)
{
    const td_real *x = from;
    for (int64_t some; rows; rows -= some, x += some * step, s += some, t += some) {
        some = at_once(n, rows);
        max_rows(x, n, some, step, &p, 0, s);
        hold_finite(some, s);
        raised_rows(x, n, some, step, &s->f, 1, t);
    }
}

static void exponents_down(const void *x, int64_t n, int64_t rows, int64_t step, double p,
                           union td_total *s, union td_total *t)
{
    double pivot[TD_REDUCE_COLUMNS] = {0};
    max_columns(x, n, rows, step, &p, 0, s);
    hold_finite(n, s);
    for (int64_t i = 0; i < n; i++)
        pivot[i] = s[i].f;
    raised_columns(x, n, rows, step, pivot, 1, t);
}

/* A bit for each lane that is. */
TD_INLINE uint64_t bits_of(VM m)
{
#if defined TD_LANES_512
    return m & ((1u << L_LANES) - 1);
#elif defined TD_LANES_256
    return (uint32_t)TD_256(movemask)((V)m);
#elif TD_VBYTES == 16 && TD_REAL_BITS == 32
    return (uint32_t)_mm_movemask_ps((__m128)m);
#elif TD_VBYTES == 16
    return (uint32_t)_mm_movemask_pd((__m128d)m);
#else
    uint64_t bits = 0;
    for (int i = 0; i < L_LANES; i++)
        bits |= (uint64_t)(m[i] & 1) << i;
    return bits;
#endif
}

TD_INLINE uint64_t bits_with(V v, V value)
{
    return bits_of(L_either(L_eq(v, value), L_both(L_uno(v, v), L_uno(value, value))));
}

/* Where value stands first in a row that holds it; NaN, where any NaN does. Elements are looked at
 * by 64: where it stands is nothing that a CPU could foresee. A row that has been written to
 * meanwhile may not hold it: its end. */
static int64_t find(const td_real *x, int64_t n, td_real value)
{
    V wanted = L_c(value);
    for (int64_t i = 0, end; i < n; i = end) {
        uint64_t bits = 0;
        int64_t at = 0, some = n - i < 64 ? n - i : 64;
        end = i + some;
        for (; at + L_LANES <= some; at += L_LANES)
            bits |= bits_with(L_load(x + i + at), wanted) << at;
        if (at < some) {
            uint64_t last = bits_with(load_last(x + i + at, some - at), wanted);
            bits |= (last & ((1u << (some - at)) - 1)) << at;
        }
        if (bits)
            return i + __builtin_ctzll(bits);
    }
    return n - 1;
}

/* The same of n <= L_LANES elements. */
TD_INLINE int64_t find_in_one(const td_real *x, int64_t n, td_real value)
{
    V v = n < L_LANES ? load_last(x, n) : L_load(x);
    uint64_t bits = bits_with(v, L_c(value)) & (((uint64_t)1 << n) - 1);
    return bits ? __builtin_ctzll(bits) : n - 1;
}

/* The first of the largest, or smallest: a later one takes its place when it is better. */
#define ARGUMENT(best, is_better)                                                                  \
    TD_INLINE void arg##best##_step(V *a, V *at, V v, int64_t i)                                   \
    {                                                                                              \
        VM better = L_either(is_better(v, *a), L_both(L_uno(v, v), L_not(L_uno(*a, *a))));         \
        *a = L_sel(better, v, *a);                                                                 \
        *at = L_sel(better, L_c((td_real)i), *at);                                                 \
    }                                                                                              \
    static void arg##best##_along(const void *from, int64_t n, int64_t rows, int64_t step,         \
                                  double p, union td_total *s, union td_total *t)                  \
    {                                                                                              \
        const td_real *x = from;                                                                   \
        for (int64_t some; n <= FEW && rows; rows -= some, x += some * step) {                     \
            V to[FEW], at = L_c(0);                                                                \
            some = turn_few(x, n, rows, step, to);                                                 \
            for (int64_t i = 1; i < n; i++)                                                        \
                arg##best##_step(to, &at, to[i], i);                                               \
            put_totals(to[0], some, s);                                                            \
            put_places(at, some, t);                                                               \
            s += some;                                                                             \
            t += some;                                                                             \
        }                                                                                          \
        best##_rows(x, n, rows, step, &p, 0, s);                                                   \
        for (int64_t r = 0; r < rows; r++, x += step) {                                            \
            t[r].i =                                                                               \
                n <= L_LANES ? find_in_one(x, n, (td_real)s[r].f) : find(x, n, (td_real)s[r].f);   \
        }                                                                                          \
    }                                                                                              \
    static void arg##best##_down(const void *from, int64_t n, int64_t rows, int64_t step,          \
                                 double p, union td_total *s, union td_total *t)                   \
    {                                                                                              \
        const td_real *x = from;                                                                   \
        (void)p;                                                                                   \
        for (int64_t i = 0; i < n; i += L_LANES) {                                                 \
            int64_t some = n - i < L_LANES ? n - i : L_LANES;                                      \
            V a = some < L_LANES ? load_last(x + i, some) : L_load(x + i), at = L_c(0);            \
            for (int64_t r = 1; r < rows; r++) {                                                   \
                const td_real *here = x + r * step + i;                                            \
                V v = some < L_LANES ? load_last(here, some) : L_load(here);                       \
                arg##best##_step(&a, &at, v, r);                                                   \
            }                                                                                      \
            put_totals(a, some, s + i);                                                            \
            put_places(at, some, t + i);                                                           \
        }                                                                                          \
    }
ARGUMENT(max, L_gt)
ARGUMENT(min, L_lt)

static const struct td_fold_rows fold_rows[TD_FOLDS] = {
#define TD_WHOLE_STEP(...) {NULL, NULL},
#define TD_STEP(id, ...) {id##_along, id##_down},
#include "kernels/reduce/reduce.def"
    {moments_along, moments_down},
    {exponents_along, exponents_down},
    {argmax_along, argmax_down},
    {argmin_along, argmin_down},
};

#endif
