/* Short rows of softmax and log_softmax, L_LANES of them at a time: part of softmax_rows.h. */
#ifndef TD_KERNELS_SOFTMAX_ABREAST_H
#define TD_KERNELS_SOFTMAX_ABREAST_H

#include "kernels/formulas.h"
#include "kernels/reals.h"
#include "kernels/softmax/softmax.h"

#define NARROW 16  /* columns, up to which some steps along them lie side by side in vectors */
#define ABREAST 16 /* vectors of a row, up to which L_LANES rows are computed together */

TD_EACH(top, L_max)
TD_EACH(sum, L_add)

/* At most L_LANES rows of a few vectors, the last of which may be a part: a maximum and a sum of
 * each row come from its vectors by shuffles that all rows share. What the last vectors become is
 * stored at the end alone, and the next row is read before it: a load near what was just stored by
 * a mask waits for it. out may be x, where rows are dense. */
TD_INLINE void forward_abreast(const enum td_soft kind, td_real *out, const td_real *x, int64_t n,
                               int64_t rows, int64_t step)
{
    const int64_t last = (n - 1) / L_LANES * L_LANES, left = n - last;
    V v[L_LANES] = {0}, end[L_LANES];
    td_real top[L_LANES], rest[L_LANES];
    for (int64_t r = 0; r < rows; r++) {
        V t = L_next(x + r * step, last, left, TD_REAL_TYPE, -INFINITY);
        for (int64_t i = 0; i < last; i += L_LANES)
            t = L_max(L_load(x + r * step + i), t);
        v[r] = t;
    }
    L_store(top, each_top(v));
    for (int64_t r = 0; r < rows; r++) {
        V t = L_c(top[r]), a = L_sub(L_next(x + r * step, last, left, TD_REAL_TYPE, -INFINITY), t);
        V sum = o_exp_below(a);
        end[r] = kind == TD_SOFT_log ? a : sum;
        __builtin_prefetch(out + r * n + last, 1);
        for (int64_t i = 0; i < last; i += L_LANES) {
            a = L_sub(L_load(x + r * step + i), t);
            __builtin_prefetch(x + (r + L_LANES) * step + i, 0, 2);
            V e = o_exp_below(a);
            sum = L_add(sum, e);
            L_store(out + r * n + i, kind == TD_SOFT_log ? a : e);
        }
        v[r] = sum;
    }
    V sums = each_sum(v), next = last ? L_load(out) : L_c(0);
    L_store(rest, kind == TD_SOFT_log ? o_log(sums) : L_div(L_c(1), sums));
    for (int64_t r = 0; r < rows; r++) {
        V by = L_c(rest[r]);
        for (int64_t i = 0; i < last; i += L_LANES) {
            V e = i ? L_load(out + r * n + i) : next;
            L_store(out + r * n + i, kind == TD_SOFT_log ? L_sub(e, by) : L_mul(e, by));
        }
        if (last && r + 1 < rows)
            next = L_load(out + (r + 1) * n);
        L_put_next(out + r * n, last, left, TD_REAL_TYPE,
                   kind == TD_SOFT_log ? L_sub(end[r], by) : L_mul(end[r], by));
    }
}

/* A few columns, n of them, dense: read as one run, so many vectors hold whole steps. Their lanes
 * have maxima and sums of their own at first, of which a column's are joined. out may be x. */
TD_INLINE void forward_narrow(const enum td_soft kind, td_real *out, const td_real *x, int64_t n,
                              int64_t size)
{
    int64_t vectors = n, all = size * n;
    while (vectors % 2 == 0 && vectors * L_LANES / 2 % n == 0)
        vectors /= 2;
    const int64_t wide = vectors * L_LANES;
    V top[NARROW], sum[NARROW], lost[NARROW];
    td_real lane[NARROW * L_LANES];
    for (int64_t v = 0; v < vectors; v++) {
        top[v] = L_c(-INFINITY);
        sum[v] = lost[v] = L_c(0);
    }
    for (int64_t at = 0, v = 0; at < all; at += L_LANES, v = v + 1 < vectors ? v + 1 : 0)
        top[v] = L_max(L_next(x, at, all - at, TD_REAL_TYPE, -INFINITY), top[v]);
    memcpy(lane, top, (size_t)wide * sizeof *lane);
    for (int64_t k = n; k < wide; k += n)
        for (int64_t i = 0; i < n; i++)
            lane[i] = lane[k + i] > lane[i] ? lane[k + i] : lane[i];
    for (int64_t i = n; i < wide; i++)
        lane[i] = lane[i - n];
    memcpy(top, lane, (size_t)wide * sizeof *lane);
    for (int64_t at = 0, v = 0; at < all; at += L_LANES, v = v + 1 < vectors ? v + 1 : 0) {
        V a = L_sub(L_next(x, at, all - at, TD_REAL_TYPE, -INFINITY), top[v]);
        V e = o_exp_below(a), back = L_sub(e, lost[v]), next = L_add(sum[v], back); /* Kahan */
        lost[v] = L_sub(L_sub(next, sum[v]), back);
        sum[v] = next;
        L_put_next(out, at, all - at, TD_REAL_TYPE, kind == TD_SOFT_log ? a : e);
    }
    memcpy(lane, sum, (size_t)wide * sizeof *lane);
    total_type total[NARROW] = {0};
    for (int64_t k = 0; k < wide; k += n)
        for (int64_t i = 0; i < n; i++)
            total[i] += (total_type)lane[k + i];
    for (int64_t i = 0; i < n; i++)
        lane[i] = rest_of(kind, total[i]);
    for (int64_t i = n; i < wide; i++)
        lane[i] = lane[i - n];
    memcpy(sum, lane, (size_t)wide * sizeof *lane);
    for (int64_t at = 0, v = 0; at < all; at += L_LANES, v = v + 1 < vectors ? v + 1 : 0) {
        V e = L_next(out, at, all - at, TD_REAL_TYPE, 0);
        L_put_next(out, at, all - at, TD_REAL_TYPE,
                   kind == TD_SOFT_log ? L_sub(e, sum[v]) : L_mul(e, sum[v]));
    }
}

static __attribute__((noinline)) void narrow_plain(td_real *out, const td_real *x, int64_t n,
                                                   int64_t size)
{
    forward_narrow(TD_SOFT_plain, out, x, n, size);
}

static __attribute__((noinline)) void narrow_log(td_real *out, const td_real *x, int64_t n,
                                                 int64_t size)
{
    forward_narrow(TD_SOFT_log, out, x, n, size);
}

/* Whether that pays: there are several vectors' worth of steps. */
TD_INLINE bool is_narrow(int64_t n, int64_t size)
{
    return n <= NARROW && size >= L_LANES + 2 * n;
}

#endif
