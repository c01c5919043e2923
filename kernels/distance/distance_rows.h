/* The distances, vector form, in lanes of FP32 or FP64: a block of one argument's rows is laid side
 * by side, so that a lane is a pair of rows, and held against the rows of the other, four at a time
 * in registers. FP32 is summed as it is over DEPTH elements, and from there on in doubles. What
 * FP32 has no room for, or no digits, is computed again in doubles, pair by pair, and so are powers
 * below 1, whose root would make errors larger, and those that FP32 has no number for. */
#ifndef TD_KERNELS_DISTANCE_ROWS_H
#define TD_KERNELS_DISTANCE_ROWS_H

#include "kernels/distance/distance.h"
#include "kernels/functions.h"
#include "kernels/turn.h"

#include <math.h>

#define COLS 32    /* of a block */
#define ROWS 64    /* likewise, at most; as many go with what was laid out once, */
#define FEWER 16   /* and as few, where threads would have no block otherwise */
#define DEPTH 64   /* elements of a row that are laid out */
#define STEP 16    /* elements that are summed in a row, so that a sum keeps its digits */
#define RUN 1024   /* elements whose sum is added to others at once, for the same reason */
#define ABREAST 4  /* rows in registers */
#define LOW 1e-30  /* sums of powers that FP32 has all digits of are not below this, */
#define HIGH 1e+37 /* nor above that */

enum kind { COUNT, ONE, TWO, MOST, POWER, ALONE }; /* ALONE: pair by pair, in doubles */

struct job {
    struct td_distance d;
    enum kind kind;
    int64_t height;       /* rows of a block */
    int64_t down, across; /* blocks */
};

TD_INLINE V larger(V s, V x) /* NaN where either is */
{
    return L_sel(L_either(L_le(x, s), L_uno(s, s)), s, x);
}

TD_INLINE V taken(V s, V x, V p, const enum kind kind)
{
    switch (kind) {
    case COUNT:
        return s + L_sel(L_uno(x, x), x, L_sel(L_eq(x, L_c(0)), x, L_c(1)));
    case ONE:
        return s + L_abs(x);
    case TWO:
        return L_fma(x, x, s);
    case MOST:
        return larger(s, L_abs(x));
    default:
        return s + o_pow(L_abs(x), p);
    }
}

/* sum = that of depth elements of some rows of a, held against the block's columns. */
TD_INLINE void tile(const td_real *b, const td_real *const a[ABREAST], int64_t depth, double p,
                    td_real *sum, const enum kind kind)
{
    for (int64_t c = 0; c < COLS; c += 2 * L_LANES) {
        V total[ABREAST][2];
#pragma GCC unroll 8
        for (int i = 0; i < 2 * ABREAST; i++)
            total[i / 2][i % 2] = L_c(0);
        for (int64_t k = 0, end; k < depth;) {
            V s[ABREAST][2];
            end = depth - k < STEP ? depth : k + STEP;
#pragma GCC unroll 8
            for (int i = 0; i < 2 * ABREAST; i++)
                s[i / 2][i % 2] = L_c(0);
            for (; k < end; k++) {
                V x = L_load(b + k * COLS + c), y = L_load(b + k * COLS + c + L_LANES);
#pragma GCC unroll 4
                for (int i = 0; i < ABREAST; i++) {
                    V from = L_c(a[i][k]);
                    s[i][0] = taken(s[i][0], from - x, L_c((td_real)p), kind);
                    s[i][1] = taken(s[i][1], from - y, L_c((td_real)p), kind);
                }
            }
#pragma GCC unroll 8
            for (int i = 0; i < 2 * ABREAST; i++) {
                V old = total[i / 2][i % 2], more = s[i / 2][i % 2];
                total[i / 2][i % 2] = kind == MOST ? larger(old, more) : old + more;
            }
        }
#pragma GCC unroll 8
        for (int i = 0; i < 2 * ABREAST; i++)
            L_store(sum + i / 2 * COLS + c + i % 2 * L_LANES, total[i / 2][i % 2]);
    }
}

#define TILE(name, kind)                                                                           \
    static void tile_##name(const td_real *b, const td_real *const a[ABREAST], int64_t depth,      \
                            double p, td_real *sum)                                                \
    {                                                                                              \
        tile(b, a, depth, p, sum, kind);                                                           \
    }
TILE(count, COUNT)
TILE(one, ONE)
TILE(two, TWO)
TILE(most, MOST)
TILE(power, POWER)

typedef void tile_fn(const td_real *b, const td_real *const a[ABREAST], int64_t depth, double p,
                     td_real *sum);
static tile_fn *const tiles[] = {tile_count, tile_one, tile_two, tile_most, tile_power};

static void lay(const td_real *b, int64_t n, int64_t cols, int64_t depth, td_real *to)
{
    int64_t c = 0;
    if (cols < COLS)
        memset(to, 0, sizeof *to * (size_t)(COLS * depth));
#if TD_REAL_BITS == 32
    for (; c + TD_LANES <= cols && depth >= TD_LANES; c += TD_LANES)
        for (int64_t k = 0; k < depth; k += TD_LANES) {
            int64_t from = depth - k < TD_LANES ? depth - TD_LANES : k;
            td_transpose((uint32_t *)to + from * COLS + c, COLS, (const uint32_t *)b + c * n + from,
                         n);
        }
#endif
    for (; c < cols; c++)
        for (int64_t k = 0; k < depth; k++)
            to[k * COLS + c] = b[c * n + k];
}

/* The distance of two rows, in doubles; their sum as in the reference. */
static double of_pair(const td_real *a, const td_real *b, int64_t n, double p)
{
    long double sum = 0;
    for (int64_t k = 0; k < n; k++) {
        double x = fabs((double)a[k] - (double)b[k]);
        sum += p == 2 ? x * x : pow(x, p);
    }
    return p == 2 ? sqrt((double)sum) : pow((double)sum, 1 / p);
}

/* Whether some of the sums are to be made again. */
static bool any_lost(const td_real *sum, int64_t n)
{
    int lost = 0;
    for (int64_t j = 0; j < n; j++)
        lost |= !((sum[j] >= (td_real)LOW) & (sum[j] <= (td_real)HIGH));
    return lost;
}

/* Two infinities are not: their difference is NaN. */
static bool alike(const td_real *a, const td_real *b, int64_t n)
{
    int differ = 0;
    for (int64_t k = 0; k < n; k++)
        differ |= !(a[k] - b[k] == 0);
    return !differ;
}

/* The distances of sums: a is the row, b the first of n others. */
static void finish(const struct job *j, const td_real *a, const td_real *b, int64_t n,
                   const td_real *sum, td_real *out)
{
    double p = j->d.p;
    if (j->kind == POWER)
        for (int64_t i = 0; i < n; i++)
            out[i] = (td_real)pow((double)sum[i], 1 / p);
    else if (j->kind != TWO)
        memcpy(out, sum, (size_t)n * sizeof *out);
    else
        for (int64_t i = 0; i < n; i += L_LANES) {
            V root = L_sqrt(L_load(sum + i));
            if (n - i >= L_LANES)
                L_store(out + i, root);
            else
                memcpy(out + i, &root, (size_t)(n - i) * sizeof *out);
        }
    if (TD_REAL_BITS == 64 || (j->kind != TWO && j->kind != POWER) || !any_lost(sum, n))
        return;
    for (int64_t i = 0; i < n; i++)
        if (!(sum[i] >= (td_real)LOW && sum[i] <= (td_real)HIGH))
            out[i] = alike(a, b + i * j->d.n, j->d.n)
                         ? 0
                         : (td_real)of_pair(a, b + i * j->d.n, j->d.n, p);
}

struct block {
    const td_real *a, *b; /* the first row of each */
    int64_t row, col, rows, cols, batch;
};

#define PAIRS (ABREAST * COLS)

/* out = what two sums of pairs are together; a NULL: b alone. A NaN stays. */
#define JOIN(name, type, result)                                                                   \
    static void name(result *out, const double *a, const type *b, enum kind kind)                  \
    {                                                                                              \
        if (!a)                                                                                    \
            for (int64_t c = 0; c < PAIRS; c++)                                                    \
                out[c] = (result)b[c];                                                             \
        else if (kind != MOST)                                                                     \
            for (int64_t c = 0; c < PAIRS; c++)                                                    \
                out[c] = (result)(a[c] + (double)b[c]);                                            \
        else                                                                                       \
            for (int64_t c = 0; c < PAIRS; c++)                                                    \
                out[c] = (result)((double)b[c] <= a[c] || a[c] != a[c] ? a[c] : (double)b[c]);     \
    }
JOIN(join_part, td_real, double)
JOIN(join_run, double, double)
JOIN(end_by_part, td_real, td_real)
JOIN(end_by_run, double, td_real)

/* Adds what some pairs have from element k on, depth of them, to a run's sum, and that to the sum
 * of all; behind the last element, to is the sum. */
static void add_part(const struct job *j, int64_t k, int64_t depth, const td_real *part,
                     double *run, double *all, td_real *to)
{
    bool last = k + depth == j->d.n;
    const double *before = k % RUN ? run : NULL;
    if (last && k < RUN) {
        end_by_part(to, before, part, j->kind);
        return;
    }
    join_part(run, before, part, j->kind);
    if (last)
        end_by_run(to, all, run, j->kind);
    else if ((k + depth) % RUN == 0)
        join_run(all, k < RUN ? NULL : all, run, j->kind);
}

/* Sums of the block's pairs, in sum. */
static void sums(const struct job *j, const struct block *of, td_real *sum)
{
    const struct td_distance *d = &j->d;
    td_real laid[COLS * DEPTH], part[ABREAST * COLS];
    double run[ROWS * COLS], all[ROWS * COLS];
    for (int64_t k = 0; k < d->n && !td_stopped(); k += DEPTH) {
        int64_t depth = d->n - k < DEPTH ? d->n - k : DEPTH;
        lay(of->b + k, d->n, of->cols, depth, laid);
        for (int64_t i = 0; i < of->rows; i += ABREAST) {
            const td_real *a[ABREAST];
            for (int64_t r = 0; r < ABREAST; r++)
                a[r] = of->a + (i + r < of->rows ? i + r : of->rows - 1) * d->n + k;
            td_real *to = sum + i * COLS;
            tiles[j->kind](laid, a, depth, d->p, d->n <= DEPTH ? to : part);
            if (d->n <= DEPTH)
                continue;
            add_part(j, k, depth, part, run + i * COLS, all + i * COLS, to);
        }
    }
}

static void blocks(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    const struct td_distance *d = &j->d;
    for (int64_t i = begin; i < end && !td_stopped(); i++) {
        td_real sum[ROWS * COLS + L_LANES] = {0}; /* vectors reach beyond a row */
        struct block of = {.batch = i / (j->down * j->across)};
        of.col = i % j->across * COLS;
        of.row = i / j->across % j->down * j->height;
        of.cols = d->cols - of.col < COLS ? d->cols - of.col : COLS;
        of.rows = d->rows - of.row < j->height ? d->rows - of.row : j->height;
        of.a = (const td_real *)d->a->data + td_distance_at(d, d->a, of.batch) + of.row * d->n;
        of.b = (const td_real *)d->b->data + td_distance_at(d, d->b, of.batch) + of.col * d->n;
        if (d->pairs && of.col + of.cols <= of.row + 1)
            continue;
        if (j->kind != ALONE)
            sums(j, &of, sum);
        for (int64_t r = 0; r < of.rows && !td_stopped(); r++) {
            int64_t row = of.row + r, skip = 0;
            int64_t at = (of.batch * d->rows + row) * d->cols + of.col;
            if (d->pairs) { /* those behind the row alone */
                skip = row + 1 > of.col ? row + 1 - of.col : 0;
                at = row * d->cols - row * (row + 1) / 2 + of.col - row - 1;
            }
            td_real *out = (td_real *)d->out->data + at, *s = sum + r * COLS;
            const td_real *a = of.a + r * d->n;
            if (j->kind != ALONE && skip < of.cols)
                finish(j, a, of.b + skip * d->n, of.cols - skip, s + skip, out + skip);
            for (int64_t c = skip; j->kind == ALONE && c < of.cols; c++)
                out[c] = (td_real)of_pair(a, of.b + c * d->n, d->n, d->p);
        }
    }
}

static void distances(const struct td_call *call)
{
    struct job j = {.d = td_distance_of(call)};
    double p = j.d.p;
    if (!td_numel(j.d.out))
        return;
    j.kind = p == 0                             ? COUNT
             : p == 1                           ? ONE
             : p == 2                           ? TWO
             : isinf(p)                         ? MOST
             : p > 1 && (double)(td_real)p == p ? POWER
                                                : ALONE;
    j.across = (j.d.cols + COLS - 1) / COLS;
    for (j.height = ROWS;; j.height /= 2) {
        j.down = (j.d.rows + j.height - 1) / j.height;
        if (j.height == FEWER || j.d.batches * j.down * j.across >= call->threads)
            break;
    }
    td_parallel(call->threads, j.d.batches * j.down * j.across, 1 + 16 / (j.d.n + 1), blocks, &j);
}

#endif
