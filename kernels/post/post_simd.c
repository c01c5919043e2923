/* Post-ops in the level's lanes. A chain's formulas that take few steps are computed for a block of
 * vectors one after the other, in registers; the others by the rows of the pointwise table, over a
 * run that is in the first cache. */
#define TD_REAL_BITS 32
#include "kernels/elementwise.h"
#include "kernels/formulas.h"
#include "kernels/none.h"
#include "kernels/post.h"
#include "kernels/reals.h"
#include "kernels/special.h"

#include <assert.h>

/* ---- operands ---- */

struct operand {
    const float *at; /* for the run's first element */
    int64_t step;    /* floats from a vector to the next; 0: one is for all of the run */
    int64_t row;     /* and to the run of the next row */
};

/* A chain's operands along a run, and the memory of those that are not read where they lie. */
struct operands {
    struct operand of[TD_POSTS];
    float room[TD_POSTS][TD_POST_RUN + TD_LANES] __attribute__((aligned(64)));
};

/* A number for each of the result's columns, for n elements from element at on: the first row's
 * worth is copied, and then all that is there already. */
static void repeat(const struct td_tensor *other, int64_t at, int64_t n, float *to)
{
    int64_t row = td_numel(other), first = at % row, there = row < n ? row : n;
    for (int64_t i = 0; i < there; i += TD_LANES) {
        int64_t from = (first + i) % row, left = row - from < there - i ? row - from : there - i;
        td_store(to + i, L_next(other->data, from, left, other->dtype, 0));
        if (left < TD_LANES)
            i += left - TD_LANES;
    }
    for (int64_t more; there < n; there += more) {
        more = there < n - there ? there : n - there;
        memcpy(to + there, to, (size_t)more * sizeof *to);
    }
}

/* Whether an operand is more than a single number. */
static bool moves(const struct td_tensor *other)
{
    return other && td_numel(other) > 1;
}

/* The operands that are a single number, which are for all runs. */
static void find_numbers(const struct td_post *post, struct operands *all)
{
    for (int i = 0; i < post->n; i++) {
        const struct td_tensor *other = post->op[i].other;
        all->of[i] = (struct operand){0};
        if (!other || moves(other))
            continue;
        td_store(all->room[i], L_c(L_get_n(other->data, 0, 1, other->dtype, 0)[0]));
        all->of[i] = (struct operand){.at = all->room[i]};
    }
}

/* An operand that moves, for n elements of out from at on: of one row, if it is of columns. */
static struct operand find(const struct td_tensor *other, const struct td_tensor *out, int64_t at,
                           int64_t n, float *room)
{
    int64_t from = td_post_at(other, out, at);
    if (other->dtype == TD_f32)
        return (struct operand){(const float *)other->data + from, TD_LANES, 0};
    for (int64_t i = 0; i < n; i += TD_LANES)
        td_store(room + i, L_next(other->data, from + i, n - i, other->dtype, 0));
    return (struct operand){room, TD_LANES, 0};
}

/* ---- formulas ---- */

#if TD_VBYTES == 64
#define BLOCK 8 /* vectors of the result, beside as many of an operand */
#else
#define BLOCK 4
#endif

/* What a formula's result is, where it is a number. */
#define NUMBER_same(v) v
#define NUMBER_ratio(v) v
#define NUMBER_pick(v) x[t]
#define NUMBER_truth(v) x[t]

/* Of a formula that has no meaning in floats nothing is compiled. */
static const V NONE;
#pragma GCC diagnostic ignored "-Wunused-variable"

/* A NaN without the bits that a caller's may have. */
#define PARAM(k) L_c(op->param[k] == op->param[k] ? (float)op->param[k] : NAN)

/* x[n vectors] = formula(x, y) */
TD_INLINE void apply(const struct td_post_op *op, V *x, const V *y, const int n)
{
    const V p = PARAM(0), q = PARAM(1), r = PARAM(2);
    switch (op->point) {
#define TD_POINT(id, operands, result, cost, judge, whole, lanes)                                  \
    case TD_POINT_##id:                                                                            \
        if (TD_POST_IS_SHORT(operands, result, cost, lanes)) {                                     \
            _Pragma("GCC unroll 8") for (int t = 0; t < n; t++)                                    \
            {                                                                                      \
                const V a = x[t], b = y[t], c = y[t];                                              \
                x[t] = NUMBER_##result(lanes);                                                     \
            }                                                                                      \
        }                                                                                          \
        break;
#include "kernels/pointwise/pointwise.def"
    default:
        break;
    }
}

/* Post-ops [first, last), all short, of n vectors of which the last one has `left` elements. */
TD_INLINE void block(const struct td_post *post, int first, int last, const struct operand *of,
                     int64_t vector, int64_t left, float *x, const int n)
{
    V v[BLOCK], y[BLOCK];
    const bool whole = left == TD_LANES;
#pragma GCC unroll 8
    for (int t = 0; t < n; t++) {
        v[t] = whole ? td_load(x + t * TD_LANES) : td_load_n(x, left, 0);
        y[t] = v[t];
    }
    for (int i = first; i < last; i++) {
        const float *at = post->op[i].other ? of[i].at + vector * of[i].step : NULL;
#pragma GCC unroll 8
        for (int t = 0; t < n && at; t++)
            y[t] = whole || !of[i].step ? td_load(at + t * of[i].step) : td_load_n(at, left, 0);
        apply(&post->op[i], v, y, n);
    }
#pragma GCC unroll 8
    for (int t = 0; t < n; t++)
        if (whole)
            td_store(x + t * TD_LANES, v[t]);
        else
            td_store_n(x, left, v[t]);
}

/* Post-ops [first, last), all short, of n numbers. */
static void do_short(const struct td_post *post, int first, int last, const struct operand *of,
                     int64_t n, float *x)
{
    int64_t i = 0;
    for (; i + BLOCK * TD_LANES <= n; i += BLOCK * TD_LANES)
        block(post, first, last, of, i / TD_LANES, TD_LANES, x + i, BLOCK);
    if (i + BLOCK / 2 * TD_LANES <= n) {
        block(post, first, last, of, i / TD_LANES, TD_LANES, x + i, BLOCK / 2);
        i += BLOCK / 2 * TD_LANES;
    }
    for (; i < n; i += TD_LANES) {
        int64_t left = n - i < TD_LANES ? n - i : TD_LANES;
        block(post, first, last, of, i / TD_LANES, left, x + i, 1);
    }
}

/* The same of rows of 1 << wide whole vectors, ld apart, as many rows at a time as fill a block;
 * how many that did. */
static int64_t do_narrow(const struct td_post *post, int first, int last, const struct operand *of,
                         int64_t rows, int wide, float *x, int64_t ld)
{
    const int64_t each = BLOCK >> wide, within = (1 << wide) - 1;
    V v[BLOCK], y[BLOCK];
    int64_t row = 0;
    for (; row + each <= rows; row += each, x += each * ld) {
#pragma GCC unroll 8
        for (int t = 0; t < BLOCK; t++)
            y[t] = v[t] = td_load(x + (t >> wide) * ld + (t & within) * TD_LANES);
        for (int i = first; i < last; i++) {
            const struct operand o = of[i];
            if (post->op[i].other) {
#pragma GCC unroll 8
                for (int t = 0; t < BLOCK; t++)
                    y[t] = td_load(o.at + (row + (t >> wide)) * o.row + (t & within) * o.step);
            }
            apply(&post->op[i], v, y, BLOCK);
        }
#pragma GCC unroll 8
        for (int t = 0; t < BLOCK; t++)
            td_store(x + (t >> wide) * ld + (t & within) * TD_LANES, v[t]);
    }
    return row;
}

/* One post-op of n numbers by its row of the pointwise table, which takes whole vectors. */
static void do_long(const struct td_post_op *op, struct operand of, int64_t n, float *x)
{
    float y[TD_POST_RUN] __attribute__((aligned(64))), rest[TD_LANES] __attribute__((aligned(64)));
    struct td_point_args args = {.type = TD_f32, .from = {TD_f32, TD_f32, TD_f32}, .to = TD_f32};
    int64_t whole = n / TD_LANES * TD_LANES, left = n - whole;
    memcpy(args.real, op->param, sizeof args.real);
    for (int64_t i = 0; i < n && op->other; i += TD_LANES)
        td_store(y + i, of.step ? td_load_next(of.at + i, n - i, 0) : td_load(of.at));
    td_point_row *row = TD_NAME(point_row)(op->point);
    row(&args, whole, x, (const void *const[]){x, y});
    if (!left)
        return;
    td_store(rest, td_load_n(x + whole, left, 0));
    row(&args, TD_LANES, rest, (const void *const[]){rest, y + whole});
    td_store_n(x + whole, left, td_load(rest));
}

/* Post-ops [first, last) of rows of n numbers, ld apart: all short, or a single one that is not. */
static void do_rows(const struct td_post *post, int first, int last, const struct operand *of,
                    int64_t rows, int64_t n, float *x, int64_t ld)
{
    const int wide = n == TD_LANES ? 0 : n == 2 * TD_LANES ? 1 : n == 4 * TD_LANES ? 2 : -1;
    const bool is_fast = td_post_is_short(post->op[first].point);
    struct operand here[TD_POSTS];
    int64_t row = is_fast && wide >= 0 ? do_narrow(post, first, last, of, rows, wide, x, ld) : 0;
    for (; row < rows; row++) {
        for (int i = first; i < last; i++) {
            here[i] = of[i];
            here[i].at += row * of[i].row;
        }
        if (is_fast)
            do_short(post, first, last, here, n, x + row * ld);
        else
            do_long(&post->op[first], here[first], n, x + row * ld);
    }
}

/* The whole chain, of rows of n numbers. */
static void chain(const struct td_post *post, const struct operand *of, int64_t rows, int64_t n,
                  float *x, int64_t ld)
{
    for (int i = 0, next; i < post->n; i = next) {
        for (next = i; next < post->n && td_post_is_short(post->op[next].point);)
            next++;
        next = next > i ? next : i + 1;
        do_rows(post, i, next, of, rows, n, x, ld);
    }
}

/* ---- runs ---- */

/* Elements of a run that is whole rows of out, each with the columns' numbers: as many as fill
 * vectors, if they may be; 0: a row is too long. */
static int64_t rows_run(int64_t row)
{
    int64_t even = row;
    while (even % TD_LANES && even <= TD_POST_RUN)
        even += row;
    even = even > TD_POST_RUN ? row : even;
    return TD_POST_RUN / even * even;
}

/* Whether the operand is a number for each column of out, which has several rows. */
static bool is_of_columns(const struct td_tensor *other, const struct td_tensor *out)
{
    return moves(other) && td_numel(other) != td_numel(out);
}

static int64_t row_of(const struct td_tensor *out)
{
    return out->rank ? out->shape[out->rank - 1] : 1;
}

void TD_NAME(post)(const struct td_post *post, const struct td_tensor *out, int64_t at, int64_t n,
                   float *x)
{
    int64_t row = row_of(out);
    bool even = td_post_is_even(post, out);
    int64_t rows = !even && n > row ? rows_run(row) : 0;
    struct operands all;
    find_numbers(post, &all);
    for (int i = 0; i < post->n && rows; i++)
        if (is_of_columns(post->op[i].other, out)) {
            repeat(post->op[i].other, at, rows < n ? rows : n, all.room[i]);
            all.of[i] = (struct operand){all.room[i], TD_LANES, 0};
        }
    for (int64_t run; n > 0; n -= run, at += run, x += run) {
        run = even ? n : rows ? rows : row - at % row;
        run = run < n ? run : n;
        run = run < TD_POST_RUN ? run : TD_POST_RUN;
        for (int i = 0; i < post->n; i++) {
            const struct td_tensor *other = post->op[i].other;
            if (moves(other) && !(rows && is_of_columns(other, out)))
                all.of[i] = find(other, out, at, run, all.room[i]);
        }
        chain(post, all.of, 1, run, x, 0);
    }
}

void TD_NAME(post_rows)(const struct td_post *post, const struct td_tensor *out, int64_t at,
                        int64_t rows, int64_t n, int64_t step, float *x, int64_t ld)
{
    struct operands all;
    if (n == step && ld == step) {
        TD_NAME(post)(post, out, at, rows * n, x);
        return;
    }
    assert(out->dtype == TD_f32);
    find_numbers(post, &all);
    for (int64_t j = 0, run; j < n; j += run) {
        run = n - j < TD_POST_RUN ? n - j : TD_POST_RUN;
        for (int i = 0; i < post->n; i++) {
            const struct td_tensor *other = post->op[i].other;
            if (!moves(other))
                continue;
            all.of[i] = find(other, out, at + j, run, all.room[i]);
            all.of[i].row = is_of_columns(other, out) ? 0 : step;
        }
        chain(post, all.of, rows, run, x + j, ld);
    }
}

/* ---- all of a result ---- */

#define PORTION 16384 /* elements between two looks at whether to stop */

struct job {
    const struct td_post *post;
    const struct td_tensor *out;
    int64_t cols; /* of a row */
};

static void run_half(const struct job *job, int64_t at, int64_t n)
{
    float x[TD_POST_RUN] __attribute__((aligned(64)));
    const struct td_tensor *out = job->out;
    for (int64_t i = 0; i < n; i += TD_LANES)
        td_store(x + i, L_next(out->data, at + i, n - i, out->dtype, 0));
    TD_NAME(post)(job->post, out, at, n, x);
    for (int64_t i = 0; i < n; i += TD_LANES)
        L_put_next(out->data, at + i, n - i, out->dtype, td_load_next(x + i, n - i, 0));
}

static void run_f64(const struct job *job, int64_t at, int64_t n)
{
    double *x = (double *)job->out->data + at;
    for (int64_t i = 0; i < n; i++)
        x[i] = td_post_judge(job->post, job->out, at + i, x[i]);
}

/* n elements of whole rows. */
static void run(const struct job *job, int64_t at, int64_t n)
{
    if (job->out->dtype == TD_f32)
        TD_NAME(post)(job->post, job->out, at, n, (float *)job->out->data + at);
    else if (job->out->dtype == TD_f64)
        run_f64(job, at, n);
    else
        for (int64_t i = 0; i < n; i += TD_POST_RUN)
            run_half(job, at + i, n - i < TD_POST_RUN ? n - i : TD_POST_RUN);
}

static void some_rows(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    const int64_t cols = job->cols, most = 1 + PORTION / cols;
    for (int64_t rows; begin < end && !td_stopped(); begin += rows) {
        rows = end - begin < most ? end - begin : most;
        run(job, begin * cols, rows * cols);
    }
}

void TD_NAME(post_all)(const struct td_post *post, const struct td_tensor *out, int threads)
{
    int64_t cols = row_of(out), n = td_numel(out);
    struct job job = {post, out, cols};
    if (n && post->n)
        td_parallel(threads, n / cols, 1 + PORTION / cols, some_rows, &job);
}
