/* The distances, vector form: a block of one argument's rows is laid side by side, so that a lane
 * is a pair of rows, and held against some rows of the other. Sums are in doubles. */
#include "kernels/distance/distance.h"
#include "kernels/lines.h"

#include <math.h>

enum { COLS = 32, ROWS = 16, DEPTH = 64 }; /* of a block; elements of a row that are laid out */

static inline double nan_or(double x, double otherwise)
{
    return x == x ? otherwise : x;
}

/* Of a block's columns those from first to last are wanted: powers, which are no vectors, are taken
 * of no others. */
#define TD_ADD(name, from, to, next)                                                               \
    static void add_##name(double *restrict sum, const double *restrict b, const double *a,        \
                           int64_t n, double p, int64_t first, int64_t last)                       \
    {                                                                                              \
        (void)p, (void)first, (void)last;                                                          \
        for (int64_t k = 0; k < n; k++)                                                            \
            for (int64_t j = from; j < to; j++) {                                                  \
                double x = fabs(a[k] - b[k * COLS + j]), s = sum[j];                               \
                sum[j] = next;                                                                     \
            }                                                                                      \
    }
TD_ADD(count, 0, COLS, s + nan_or(x, x != 0))
TD_ADD(one, 0, COLS, s + x)
TD_ADD(two, 0, COLS, s + x * x)
TD_ADD(most, 0, COLS, x <= s ? s : nan_or(s, x))
TD_ADD(any, first, last, s + pow(x, p))

typedef void add_fn(double *restrict sum, const double *restrict b, const double *a, int64_t n,
                    double p, int64_t first, int64_t last);

struct job {
    struct td_distance d;
    add_fn *add;
    int64_t down, across; /* blocks */
};

static void lay(const struct job *j, int64_t b, int64_t cols, int64_t depth, double *to)
{
    double line[DEPTH];
    memset(to, 0, sizeof *to * (size_t)(COLS * depth));
    for (int64_t c = 0; c < cols; c++) {
        td_line_get(line, j->d.b, b + c * j->d.n, depth);
        for (int64_t k = 0; k < depth; k++)
            to[k * COLS + c] = line[k];
    }
}

static double root(double sum, double p)
{
    return p == 2 ? sqrt(sum) : p == 0 || p == 1 || isinf(p) ? sum : pow(sum, 1 / p);
}

/* The first of the columns from col on that goes with the row: of pairs, one behind it. */
static int64_t first_of(const struct td_distance *d, int64_t row, int64_t col)
{
    return d->pairs && row + 1 > col ? row + 1 - col : 0;
}

static void write_row(const struct job *j, int64_t batch, int64_t row, int64_t col, int64_t n,
                      double *sum)
{
    const struct td_distance *d = &j->d;
    int64_t at = (batch * d->rows + row) * d->cols + col, first = first_of(d, row, col);
    if (d->pairs)
        at = row * d->cols - row * (row + 1) / 2 + col - row - 1;
    for (int64_t i = first; i < n; i++)
        sum[i] = root(sum[i], d->p);
    if (first < n)
        td_line_put(d->out, at + first, n - first, sum + first);
}

static void blocks(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    const struct td_distance *d = &j->d;
    double b[COLS * DEPTH], a[DEPTH];
    for (int64_t block = begin; block < end && !td_stopped(); block++) {
        int64_t batch = block / (j->down * j->across), col = block % j->across * COLS;
        int64_t row = block / j->across % j->down * ROWS;
        int64_t cols = d->cols - col < COLS ? d->cols - col : COLS;
        int64_t rows = d->rows - row < ROWS ? d->rows - row : ROWS;
        int64_t at_a = td_distance_at(d, d->a, batch) + row * d->n;
        int64_t at_b = td_distance_at(d, d->b, batch) + col * d->n;
        double sum[ROWS * COLS] = {0};
        if (d->pairs && col + cols <= row + 1)
            continue;
        for (int64_t k = 0; k < d->n; k += DEPTH) {
            int64_t depth = d->n - k < DEPTH ? d->n - k : DEPTH;
            lay(j, at_b + k, cols, depth, b);
            for (int64_t i = 0; i < rows; i++) {
                td_line_get(a, d->a, at_a + i * d->n + k, depth);
                j->add(sum + i * COLS, b, a, depth, d->p, first_of(d, row + i, col), cols);
            }
        }
        for (int64_t i = 0; i < rows; i++)
            write_row(j, batch, row + i, col, cols, sum + i * COLS);
    }
}

TD_KERNEL(distance)
{
    struct job j = {.d = td_distance_of(call)};
    double p = j.d.p;
    if (!td_numel(j.d.out))
        return;
    j.add = p == 0     ? add_count
            : p == 1   ? add_one
            : p == 2   ? add_two
            : isinf(p) ? add_most
                       : add_any;
    j.down = (j.d.rows + ROWS - 1) / ROWS;
    j.across = (j.d.cols + COLS - 1) / COLS;
    td_parallel(call->threads, j.d.batches * j.down * j.across, 1 + 64 / (j.d.n + 1), blocks, &j);
}
