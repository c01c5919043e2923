/* The walk of the reductions: which elements a level's rows are given, and where totals go.
 *
 * - Dimensions that can be walked as one are folded (kernels/dims.h). Where the innermost is
 *   reduced, rows are folded along it, many results in one call; where it is kept, blocks of
 * columns are, so that memory is read in its order.
 * - A long reduction with few results is cut into parts, whose totals are joined in order. The cut
 *   depends on the shape only, so that a result is the same with any number of threads.
 * - Elements of another type than rows compute in go through a tile in the first-level cache. */
#include "kernels/reduce/reduce.h"

#include <math.h>
#include <string.h>

#define BATCH 128     /* results in a call of a row function */
#define DOWN_MOST 256 /* rows in one: FP32 sums keep their digits, their number fits 8 bits */
#define ALONG_MOST (1 << 20) /* elements in one, between two looks at who may stop the call */
#define AGAIN_MOST 4096      /* where a row is walked more than once: it stays in the cache */
#define TILE 16384           /* bytes */
#define SHORT 64             /* elements of a run, below which runs are gathered first */
#define TILE_COLUMNS 128
#define NARROW 64 /* bytes of a row of columns, below which rows are folded abreast */

struct cut {
    int64_t blocks; /* of columns; 1 along the innermost dimension */
    int64_t parts;  /* of each result's reduction */
    int64_t length; /* of a part: elements along the innermost dimension, else rows */
};

struct job {
    const struct td_call *call;
    const struct td_fold_rows *rows;
    td_fold_load *load; /* NULL: elements are of the rows' type */
    enum td_fold fold;
    enum td_dtype type; /* of elements */
    bool whole, twice;  /* whole numbers; an element is walked more than once */
    size_t size, own;   /* bytes an element, and in the rows' type */
    double p;
    struct td_reduction r;
    struct cut cut;
    const char *x;
    union td_total *parts; /* [part][s or t][result]; NULL where there is one part */
    int64_t outputs;
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t columns(const struct td_reduction *r)
{
    return least(r->inner, TD_REDUCE_COLUMNS);
}

static struct cut cut_of(const struct td_reduction *r)
{
    enum { PIECE = 1 << 16, FEW = 64, PARTS = 16 };
    struct cut cut = {.blocks = 1, .parts = 1};
    int64_t width = r->along ? 1 : columns(r), all = r->reduced * (r->along ? r->inner : 1);
    if (!r->along)
        cut.blocks = (r->inner + TD_REDUCE_COLUMNS - 1) / TD_REDUCE_COLUMNS;
    if (r->kept * cut.blocks < FEW && all * width > 2 * PIECE) {
        cut.parts = all * width / PIECE;
        if (!r->along)
            cut.parts = least(cut.parts, PARTS);
    }
    cut.length = (all + cut.parts - 1) / cut.parts;
    return cut;
}

size_t td_reduce_scratch(const struct td_call *call, const struct td_tensor *self)
{
    struct td_reduction r = td_reduction(self, td_reduce_dims(call));
    int64_t parts = cut_of(&r).parts;
    return parts > 1 ? (size_t)(2 * parts * td_numel(&call->out[0])) * sizeof(union td_total) : 0;
}

/* ---- rows and columns by way of a tile ---- */

static void fold_rows(const struct job *job, const char *x, int64_t n, int64_t rows, int64_t step,
                      const struct td_piece *to)
{
    if (!job->load) {
        job->rows->along(x, n, rows, step, job->p, to->s, to->t);
        return;
    }
    char tile[TILE] __attribute__((aligned(64)));
    int64_t room = TILE / (int64_t)job->own / n, size = (int64_t)job->size;
    for (int64_t r = 0, some; r < rows; r += some) {
        some = least(rows - r, room);
        const char *from = x + r * step * size;
        if (step == n)
            job->load(tile, from, some * n, job->type);
        for (int64_t k = 0; step != n && k < some; k++)
            job->load(tile + k * n * (int64_t)job->own, from + k * step * size, n, job->type);
        job->rows->along(tile, n, some, n, job->p, to->s + r, to->t + r);
    }
}

/* How many of rows that lie one behind the other are folded as one, a power of 2: so many that
 * whole vectors are filled, and more where totals to be joined are few beside them. */
static int64_t abreast(const struct job *job, int64_t n, int64_t rows)
{
    int64_t k = 1, bytes = n * (int64_t)job->own, most = least(TD_REDUCE_COLUMNS / n, rows / 8);
    while (bytes < NARROW && 2 * k <= most && (k * bytes % 64 || 64 * k <= rows))
        k *= 2;
    return k;
}

/* Dense rows: the totals of every k-th are joined, and then those of the rows left over. */
static void fold_dense(const struct job *job, const char *x, int64_t n, int64_t rows,
                       const struct td_piece *to)
{
    int64_t k = abreast(job, n, rows), each = rows / k, left = rows % k;
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

static void fold_columns(const struct job *job, const char *x, int64_t n, int64_t rows,
                         int64_t step, const struct td_piece *to)
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

/* The next piece of some results' reductions: the first, or joined with those before it. */
static void take(const struct job *job, int64_t count, struct td_piece *total,
                 const struct td_piece *next)
{
    if (total->n) {
        td_join(job->fold, job->whole, count, total, next);
        return;
    }
    memcpy(total->s, next->s, (size_t)count * sizeof *next->s);
    memcpy(total->t, next->t, (size_t)count * sizeof *next->t);
    total->n = next->n;
}

/* Elements [begin, end) of one result's reduction, in runs that are too short to be worth a call,
 * one behind the other in to. */
static void gather(const struct job *job, const char *x, int64_t begin, int64_t end, char *to)
{
    for (int64_t n; begin < end; begin += n, to += n * (int64_t)job->own) {
        int64_t run = begin / job->r.inner, col = begin - run * job->r.inner;
        const char *from = x + (td_reduction_at(&job->r, 1, run) + col) * (int64_t)job->size;
        n = least(job->r.inner - col, end - begin);
        if (job->load)
            job->load(to, from, n, job->type);
        else
            memcpy(to, from, (size_t)n * job->size);
    }
}

static void gather_rows(const struct job *job, const char *x, int64_t count, int64_t step,
                        int64_t begin, int64_t end, struct td_piece *total)
{
    char tile[TILE] __attribute__((aligned(64)));
    union td_total s, t;
    for (int64_t i = 0; i < count; i++, x += step * (int64_t)job->size) {
        struct td_piece mine = {total->s + i, total->t + i, begin, 0};
        for (int64_t from = begin, n; from < end && !(mine.n && td_stopped()); from += n) {
            n = least(end - from, TILE / (int64_t)job->own);
            struct td_piece next = {&s, &t, from, n};
            gather(job, x, from, from + n, tile);
            job->rows->along(tile, n, 1, 0, job->p, &s, &t);
            take(job, 1, &mine, &next);
        }
    }
}

/* Elements [begin, end) of the reductions of `count` results that lie step apart from x on, counted
 * through their runs. */
static void along(const struct job *job, const char *x, int64_t count, int64_t step, int64_t begin,
                  int64_t end, struct td_piece *total)
{
    union td_total s[BATCH], t[BATCH];
    int64_t most = job->twice ? AGAIN_MOST : ALONG_MOST;
    most = job->load ? least(most, TILE / (int64_t)job->own) : most;
    if (job->r.reduced > 1 && job->r.inner < SHORT) {
        gather_rows(job, x, count, step, begin, end, total);
        return;
    }
    total->first = begin;
    total->n = 0;
    while (begin < end && !(total->n && td_stopped())) {
        int64_t run = job->r.reduced > 1 ? begin / job->r.inner : 0;
        int64_t col = begin - run * job->r.inner;
        int64_t n = least(least(job->r.inner - col, end - begin), most);
        int64_t at = td_reduction_at(&job->r, 1, run) + col;
        bool alone = !total->n && n == end - begin;
        struct td_piece next = {alone ? total->s : s, alone ? total->t : t, begin, n};
        fold_rows(job, x + at * (int64_t)job->size, n, count, step, &next);
        if (alone)
            total->n = n;
        else
            take(job, count, total, &next);
        begin += n;
    }
}

/* Rows [begin, end) of n columns from x on. */
static void down(const struct job *job, const char *x, int64_t n, int64_t begin, int64_t end,
                 struct td_piece *total)
{
    union td_total s[TD_REDUCE_COLUMNS], t[TD_REDUCE_COLUMNS];
    const struct td_reduction *r = &job->r;
    int last = r->n[1] - 1;
    int64_t run = last < 0 ? 1 : r->size[1][last], step = last < 0 ? 0 : r->step[1][last];
    int64_t most = DOWN_MOST * (step == n ? abreast(job, n, run) : 1);
    if (job->load)
        most = least(most, TILE / (int64_t)job->own / n);
    if (job->twice)
        most = least(most, 1 + AGAIN_MOST / n);
    total->first = begin;
    total->n = 0;
    while (begin < end && !(total->n && td_stopped())) {
        int64_t rows = least(least(run - begin % run, end - begin), most);
        bool alone = !total->n && rows == end - begin;
        struct td_piece next = {alone ? total->s : s, alone ? total->t : t, begin, rows};
        fold_columns(job, x + td_reduction_at(r, 1, begin) * (int64_t)job->size, n, rows, step,
                     &next);
        if (alone)
            total->n = rows;
        else
            take(job, n, total, &next);
        begin += rows;
    }
}

/* ---- pieces of work ---- */

static void finish(const struct job *job, int64_t at, int64_t count, int64_t n,
                   const union td_total *s, const union td_total *t)
{
    for (int k = 0; k < job->call->n_out; k++)
        if (td_reduce_fold(td_reduce_of(job->call, k)) == job->fold)
            td_finish(job->call, k, at, count, n, s, t);
}

/* Results with one part and the innermost dimension reduced: often many and short. */
static void results(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    const struct td_reduction *r = &job->r;
    union td_total s[BATCH], t[BATCH];
    int last = r->n[0] - 1;
    int64_t run = last < 0 ? 1 : r->size[0][last], step = last < 0 ? 0 : r->step[0][last];
    int64_t all = r->reduced * r->inner;
    while (begin < end) {
        int64_t count = least(least(run - begin % run, end - begin), BATCH);
        struct td_piece total = {s, t, 0, 0};
        along(job, job->x + td_reduction_at(r, 0, begin) * (int64_t)job->size, count, step, 0, all,
              &total);
        finish(job, begin, count, all, s, t);
        begin += count;
    }
}

static void pieces(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    const struct td_reduction *r = &job->r;
    const struct cut *cut = &job->cut;
    int64_t all = r->along ? r->reduced * r->inner : r->reduced;
    for (int64_t i = begin; i < end; i++) {
        int64_t part = i % cut->parts, block = i / cut->parts % cut->blocks;
        int64_t out = i / cut->parts / cut->blocks, from = part * cut->length;
        int64_t to = least(all, from + cut->length), n = 1, col = block * TD_REDUCE_COLUMNS;
        const char *x = job->x + td_reduction_at(r, 0, out) * (int64_t)job->size;
        union td_total s[TD_REDUCE_COLUMNS], t[TD_REDUCE_COLUMNS];
        struct td_piece total = {s, t, 0, 0};
        if (!r->along) {
            n = least(r->inner - col, TD_REDUCE_COLUMNS);
            out = out * r->inner + col;
        }
        for (int64_t c = 0, some; c < n; c += some) {
            some = least(n - c, job->load ? TILE_COLUMNS : TD_REDUCE_COLUMNS);
            total.s = s + c, total.t = t + c;
            if (r->along)
                along(job, x, 1, 0, from, to, &total);
            else
                down(job, x + (col + c) * (int64_t)job->size, some, from, to, &total);
        }
        if (!job->parts) {
            finish(job, out, n, all, s, t);
            continue;
        }
        memcpy(job->parts + 2 * part * job->outputs + out, s, (size_t)n * sizeof *s);
        memcpy(job->parts + (2 * part + 1) * job->outputs + out, t, (size_t)n * sizeof *t);
    }
}

static void join_parts(const struct job *job)
{
    int64_t all = job->r.reduced * (job->r.along ? job->r.inner : 1), n = job->outputs;
    struct td_piece total = {job->parts, job->parts + n, 0, least(all, job->cut.length)};
    for (int64_t part = 1; part < job->cut.parts; part++) {
        int64_t first = part * job->cut.length;
        struct td_piece next = {job->parts + 2 * part * n, job->parts + (2 * part + 1) * n, first,
                                least(all - first, job->cut.length)};
        if (next.n > 0)
            td_join(job->fold, job->whole, n, &total, &next);
    }
    finish(job, 0, n, all, total.s, total.t);
}

static void run_fold(struct job *job)
{
    const struct td_call *call = job->call;
    int64_t n = job->r.kept * job->cut.blocks * job->cut.parts;
    double cost = call->op->flops(call) / (double)n;
    td_parallel(call->threads, n, 1 + (int64_t)(65536 / cost),
                job->r.along && !job->parts ? results : pieces, job);
    if (job->parts && !td_stopped())
        join_parts(job);
}

/* Of no elements: what totals begin with. */
static void run_nothing(const struct job *job)
{
    enum { NONE };
    static const struct {
        double f;
        int64_t i;
    } first[TD_FOLDS] = {
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#define TD_STEP(id, width, joins, cost, init, whole_init, ...) {init, whole_init},
#include "kernels/reduce/reduce.def"
    };
    union td_total s[BATCH], t[BATCH];
    for (int i = 0; i < BATCH; i++) {
        t[i].i = 0;
        s[i].f = first[job->fold].f;
        if (job->whole)
            s[i].i = first[job->fold].i;
    }
    for (int64_t i = 0; i < job->outputs && !td_stopped(); i += BATCH)
        finish(job, i, least(BATCH, job->outputs - i), 0, s, t);
}

void td_reduce(const struct td_call *call, const struct td_fold_rows rows[TD_FOLDS],
               enum td_dtype type, td_fold_load *load)
{
    const struct td_tensor *x = &call->arg[0].tensor;
    unsigned done = 0;
    struct job job = {.call = call,
                      .load = x->dtype == type ? NULL : load,
                      .type = x->dtype,
                      .whole = td_dtype_kind(type) != 'f',
                      .size = td_dtype_size(x->dtype),
                      .own = td_dtype_size(type),
                      .p = td_reduce_param(call),
                      .r = td_reduction(x, td_reduce_dims(call)),
                      .x = x->data,
                      .outputs = td_numel(&call->out[0])};
    job.cut = cut_of(&job.r);
    job.parts = job.cut.parts > 1 ? call->scratch : NULL;
    for (int k = 0; k < call->n_out && job.outputs; k++) {
        job.fold = td_reduce_fold(td_reduce_of(call, k));
        if (done >> job.fold & 1)
            continue;
        done |= 1u << job.fold;
        job.rows = &rows[job.fold];
        job.twice = job.fold >= TD_FOLD_moments;
        if (td_numel(x))
            run_fold(&job);
        else
            run_nothing(&job);
    }
}
