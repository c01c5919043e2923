/* Few elements of a reduction at a time: rows and columns for a level's rows to fold, where they
 * lie or by way of a tile in the first-level cache, into which they are converted, gathered, or
 * computed. Compiled once, with base flags. */
#include "kernels/reduce/walk.h"

#include <string.h>

#define TILE TD_REDUCE_TILE
#define TOGETHER 64 /* elements of a row, up to which rows are folded together */
/* Bytes of rows that are computed at once; what they are computed from takes the rest. */
#define NEAR (TILE / 2)
#define NARROW 64 /* bytes of a row of columns, below which rows are folded abreast */

/* How many rows of n elements fit in so many bytes, at least one. Of short rows they are multiples
 * of what is folded together, so that the order of a row's sum does not depend on this number. */
static int64_t rows_in(int64_t bytes, size_t element, int64_t n)
{
    int64_t rows = bytes / (int64_t)element / n;
    if (n <= TOGETHER)
        rows -= rows % TD_REDUCE_TOGETHER;
    return rows ? rows : 1;
}

/* Elements of rows, step apart, one row behind the other: where they lie, or in room. */
static const char *compute(const struct job *job, int64_t at, int64_t n, int64_t rows, int64_t step,
                           char *room)
{
    const struct td_reduce_source *source = job->source;
    if (step == n || rows == 1)
        return source->compute(source->arg, at, rows * n, room);
    size_t bytes = (size_t)n * job->size;
    for (int64_t r = 0; r < rows; r++) {
        char *to = room + (size_t)r * bytes;
        const void *x = source->compute(source->arg, at + r * step, n, to);
        if (x != to)
            memcpy(to, x, bytes);
    }
    return room;
}

/* Rows that are computed first, and stay in the cache. */
static void fold_computed(const struct job *job, int64_t at, int64_t n, int64_t rows, int64_t step,
                          const struct td_piece *to)
{
    char made[TILE] __attribute__((aligned(64))), tile[TILE] __attribute__((aligned(64)));
    int64_t room = rows_in(NEAR, job->own > job->size ? job->own : job->size, n);
    for (int64_t r = 0, some; r < rows; r += some) {
        some = td_least(rows - r, room);
        const void *x = compute(job, at + r * step, n, some, step, made);
        if (job->load) {
            job->load(tile, x, some * n, job->type);
            x = tile;
        }
        job->rows->along(x, n, some, n, job->p, to->s + r, to->t + r);
    }
}

/* Rows that are summed up where they are computed. False: they are to be computed first. */
static bool fold_summed(const struct job *job, int64_t at, int64_t n, int64_t rows, int64_t step,
                        const struct td_piece *to)
{
    float sums[TD_REDUCE_COLUMNS];
    if (!job->source->sum || n <= TOGETHER || rows > TD_REDUCE_COLUMNS ||
        !job->source->sum(job->source->arg, at, n, rows, step, sums))
        return false;
    for (int64_t r = 0; r < rows; r++)
        to->s[r].f = (double)sums[r];
    return true;
}

void td_reduce_rows(const struct job *job, int64_t at, int64_t n, int64_t rows, int64_t step,
                    const struct td_piece *to)
{
    int64_t size = (int64_t)job->size;
    if (job->source) {
        if (!fold_summed(job, at, n, rows, step, to))
            fold_computed(job, at, n, rows, step, to);
        return;
    }
    const char *x = job->x + at * size;
    if (!job->load) {
        job->rows->along(x, n, rows, step, job->p, to->s, to->t);
        return;
    }
    char tile[TILE] __attribute__((aligned(64)));
    int64_t room = rows_in(TILE, job->own, n);
    for (int64_t r = 0, some; r < rows; r += some) {
        some = td_least(rows - r, room);
        const char *from = x + r * step * size;
        if (step == n)
            job->load(tile, from, some * n, job->type);
        for (int64_t k = 0; step != n && k < some; k++)
            job->load(tile + k * n * (int64_t)job->own, from + k * step * size, n, job->type);
        job->rows->along(tile, n, some, n, job->p, to->s + r, to->t + r);
    }
}

int64_t td_reduce_abreast(const struct job *job, int64_t n, int64_t rows)
{
    int64_t k = 1, bytes = n * (int64_t)job->own, most = td_least(TD_REDUCE_COLUMNS / n, rows / 8);
    while (bytes < NARROW && 2 * k <= most && (k * bytes % 64 || 64 * k <= rows))
        k *= 2;
    return k;
}

/* Dense rows: the totals of every k-th are joined, and then those of the rows left over. */
static void fold_dense(const struct job *job, const char *x, int64_t n, int64_t rows,
                       const struct td_piece *to)
{
    int64_t k = td_reduce_abreast(job, n, rows), each = rows / k, left = rows % k;
    union td_total s[TD_REDUCE_COLUMNS], t[TD_REDUCE_COLUMNS];
    if (k == 1) {
        job->rows->down(x, n, rows, n, job->p, to->s, to->t);
        return;
    }
    job->rows->down(x, n * k, each, n * k, job->p, s, t);
    for (int64_t first = 0; first < k && job->fold >= TD_FOLD_argmax; first++)
        for (int64_t i = first * n; i < (first + 1) * n; i++)
            t[i].i = t[i].i * k + first;
    struct td_piece total = {s, t, 0, each};
    for (int64_t half = n * k / 2; half >= n; half /= 2)
        td_join(job->fold, job->whole, half, &total,
                &(struct td_piece){s + half, t + half, 0, total.n});
    if (left) {
        struct td_piece last = {s + n, t + n, rows - left, left};
        job->rows->down(x + (rows - left) * n * (int64_t)job->own, n, left, n, job->p, last.s,
                        last.t);
        td_join(job->fold, job->whole, n, &total, &last);
    }
    memcpy(to->s, s, (size_t)n * sizeof *s);
    memcpy(to->t, t, (size_t)n * sizeof *t);
}

void td_reduce_columns(const struct job *job, const char *x, int64_t n, int64_t rows, int64_t step,
                       const struct td_piece *to)
{
    if (!job->load && step != n)
        job->rows->down(x, n, rows, step, job->p, to->s, to->t);
    if (!job->load && step == n)
        fold_dense(job, x, n, rows, to);
    if (!job->load)
        return;
    char tile[TILE] __attribute__((aligned(64)));
    int64_t runs = step == n ? 1 : rows, run = rows / runs * n;
    for (int64_t k = 0; k < runs; k++)
        job->load(tile + k * run * (int64_t)job->own, x + k * step * (int64_t)job->size, run,
                  job->type);
    fold_dense(job, tile, n, rows, to);
}

void td_reduce_gather(const struct job *job, int64_t at, int64_t begin, int64_t end, char *to)
{
    for (int64_t n; begin < end; begin += n, to += n * (int64_t)job->own) {
        int64_t run = begin / job->r.inner, col = begin - run * job->r.inner;
        const char *from =
            job->x + (at + td_reduction_at(&job->r, 1, run) + col) * (int64_t)job->size;
        n = td_least(job->r.inner - col, end - begin);
        if (job->load)
            job->load(to, from, n, job->type);
        else
            memcpy(to, from, (size_t)n * job->size);
    }
}
