/* The walk of the reductions: which elements a level's rows are given, and where totals go.
 *
 * - Dimensions that can be walked as one are folded (kernels/dims.h). Where the innermost is
 *   reduced, rows are folded along it, many results in one call; where it is kept, blocks of
 * columns are, so that memory is read in its order.
 * - A long reduction with few results is cut into parts, whose totals are joined in order. The cut
 *   depends on the shape only, so that a result is the same with any number of threads.
 * - Elements of another type than rows compute in go through a tile in the first-level cache. */
#include "kernels/reduce/walk.h"

#include <math.h>
#include <string.h>

#define BATCH 128     /* results in a call of a row function */
#define DOWN_MOST 256 /* rows in one: FP32 sums keep their digits, their number fits 8 bits */
#define ALONG_MOST (1 << 20) /* elements in one, between two looks at who may stop the call */
#define AGAIN_MOST 4096      /* where a row is walked more than once: it stays in the cache */
#define TILE TD_REDUCE_TILE
#define SHORT 64 /* elements of a run, below which runs are gathered first */
#define TILE_COLUMNS 128
#define ALONE                                                                                      \
    (2 * 262144) /* operations from which on a team is worth waking, as pointwise has it */

static int64_t columns(const struct td_reduction *r)
{
    return td_least(r->inner, TD_REDUCE_COLUMNS);
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
            cut.parts = td_least(cut.parts, PARTS);
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

static void gather_rows(const struct job *job, int64_t at, int64_t count, int64_t step,
                        int64_t begin, int64_t end, struct td_piece *total)
{
    char tile[TILE] __attribute__((aligned(64)));
    union td_total s, t;
    for (int64_t i = 0; i < count; i++, at += step) {
        struct td_piece mine = {total->s + i, total->t + i, begin, 0};
        for (int64_t from = begin, n; from < end && !(mine.n && td_stopped()); from += n) {
            n = td_least(end - from, TILE / (int64_t)job->own);
            struct td_piece next = {&s, &t, from, n};
            td_reduce_gather(job, at, from, from + n, tile);
            job->rows->along(tile, n, 1, 0, job->p, &s, &t);
            take(job, 1, &mine, &next);
        }
    }
}

/* Elements [begin, end) of the reductions of `count` results that begin step apart from element
 * first on, counted through their runs. */
static void along(const struct job *job, int64_t first, int64_t count, int64_t step, int64_t begin,
                  int64_t end, struct td_piece *total)
{
    union td_total s[BATCH], t[BATCH];
    int64_t most = job->twice ? AGAIN_MOST : job->source && !job->load ? job->run : ALONG_MOST;
    most = job->load || job->source ? td_least(most, TILE / (int64_t)job->own) : most;
    if (job->r.reduced > 1 && job->r.inner < SHORT) {
        gather_rows(job, first, count, step, begin, end, total);
        return;
    }
    total->first = begin;
    total->n = 0;
    while (begin < end && !(total->n && td_stopped())) {
        int64_t run = job->r.reduced > 1 ? begin / job->r.inner : 0;
        int64_t col = begin - run * job->r.inner;
        int64_t n = td_least(td_least(job->r.inner - col, end - begin), most);
        int64_t at = first + td_reduction_at(&job->r, 1, run) + col;
        bool alone = !total->n && n == end - begin;
        struct td_piece next = {alone ? total->s : s, alone ? total->t : t, begin, n};
        td_reduce_rows(job, at, n, count, step, &next);
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
    int64_t most = DOWN_MOST * (step == n ? td_reduce_abreast(job, n, run) : 1);
    if (job->load)
        most = td_least(most, TILE / (int64_t)job->own / n);
    if (job->twice)
        most = td_least(most, 1 + AGAIN_MOST / n);
    total->first = begin;
    total->n = 0;
    while (begin < end && !(total->n && td_stopped())) {
        int64_t rows = td_least(td_least(run - begin % run, end - begin), most);
        bool alone = !total->n && rows == end - begin;
        struct td_piece next = {alone ? total->s : s, alone ? total->t : t, begin, rows};
        td_reduce_columns(job, x + td_reduction_at(r, 1, begin) * (int64_t)job->size, n, rows, step,
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
    for (int k = 0; k < job->call->n_out; k++) {
        enum td_reduce id = td_reduce_of(job->call, k);
        bool own = job->finish && td_reduce_result(id) != TD_REDUCE_IS_place;
        if (td_reduce_fold(id) == job->fold)
            (own ? job->finish : td_finish)(job->call, k, at, count, n, s, t);
    }
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
    begin *= job->together;
    end = td_least(end * job->together, r->kept);
    while (begin < end) {
        int64_t count = td_least(td_least(run - begin % run, end - begin), BATCH);
        struct td_piece total = {s, t, 0, 0};
        along(job, td_reduction_at(r, 0, begin), count, step, 0, all, &total);
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
        int64_t to = td_least(all, from + cut->length), n = 1, col = block * TD_REDUCE_COLUMNS;
        int64_t first = td_reduction_at(r, 0, out);
        union td_total s[TD_REDUCE_COLUMNS], t[TD_REDUCE_COLUMNS];
        struct td_piece total = {s, t, 0, 0};
        if (!r->along) {
            n = td_least(r->inner - col, TD_REDUCE_COLUMNS);
            out = out * r->inner + col;
        }
        for (int64_t c = 0, some; c < n; c += some) {
            some = td_least(n - c, job->load ? TILE_COLUMNS : TD_REDUCE_COLUMNS);
            total.s = s + c, total.t = t + c;
            if (r->along)
                along(job, first, 1, 0, from, to, &total);
            else
                down(job, job->x + (first + col + c) * (int64_t)job->size, some, from, to, &total);
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
    struct td_piece total = {job->parts, job->parts + n, 0, td_least(all, job->cut.length)};
    for (int64_t part = 1; part < job->cut.parts; part++) {
        int64_t first = part * job->cut.length;
        struct td_piece next = {job->parts + 2 * part * n, job->parts + (2 * part + 1) * n, first,
                                td_least(all - first, job->cut.length)};
        if (next.n > 0)
            td_join(job->fold, job->whole, n, &total, &next);
    }
    finish(job, 0, n, all, total.s, total.t);
}

static void run_fold(struct job *job)
{
    const struct td_call *call = job->call;
    int64_t n = job->r.kept * job->cut.blocks * job->cut.parts;
    double flops = call->op->flops(call) + (job->source ? job->source->flops : 0);
    bool whole = job->r.along && !job->parts;
    job->together = whole && job->r.reduced * job->r.inner <= SHORT ? TD_REDUCE_TOGETHER : 1;
    n = (n + job->together - 1) / job->together;
    td_parallel(call->threads, n, 1 + (int64_t)(65536 / (flops / (double)n)),
                whole ? results : pieces, job);
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
        finish(job, i, td_least(BATCH, job->outputs - i), 0, s, t);
}

/* A fold by the level's rows, but for which results it is of. */
static struct job job_of(const struct td_call *call, const struct td_reduce_way *way)
{
    const struct td_tensor *x = &call->arg[0].tensor;
    struct job job = {.call = call,
                      .load = x->dtype == way->type ? NULL : way->load,
                      .type = x->dtype,
                      .whole = td_dtype_kind(way->type) != 'f',
                      .size = td_dtype_size(x->dtype),
                      .own = td_dtype_size(way->type),
                      .run = way->run,
                      .finish = way->finish,
                      .p = td_reduce_param(call),
                      .r = td_reduction(x, td_reduce_dims(call)),
                      .x = x->data,
                      .outputs = td_numel(&call->out[0])};
    job.cut = cut_of(&job.r);
    job.parts = job.cut.parts > 1 ? call->scratch : NULL;
    return job;
}

static void set_fold(struct job *job, const struct td_reduce_way *way, int k)
{
    job->fold = td_reduce_fold(td_reduce_of(job->call, k));
    job->rows = &way->rows[job->fold];
    job->twice = job->fold >= TD_FOLD_moments;
}

void td_reduce(const struct td_call *call, const struct td_reduce_way *way)
{
    unsigned done = 0;
    if (!call->threads) { /* it is only asked */
        *(struct td_reduce_way *)call->scratch = *way;
        return;
    }
    struct job job = job_of(call, way);
    for (int k = 0; k < call->n_out && job.outputs; k++) {
        set_fold(&job, way, k);
        if (done >> job.fold & 1)
            continue;
        done |= 1u << job.fold;
        if (td_numel(&call->arg[0].tensor))
            run_fold(&job);
        else
            run_nothing(&job);
    }
}

/* ---- of elements that are computed when they are wanted ---- */

bool td_reduce_takes(const struct td_call *call, double flops)
{
    const struct td_tensor *x = &call->arg[0].tensor;
    struct td_reduction r = td_reduction(x, td_reduce_dims(call));
    bool narrow = x->dtype & (TD_f32 | TD_f16 | TD_bf16);
    bool twice = call->n_out == 1 && td_reduce_fold(td_reduce_of(call, 0)) >= TD_FOLD_moments;
    if (call->n_out != 1 || x->stride || !r.along || r.reduced != 1 || r.inner < 2)
        return false;
    if (twice && !narrow && r.inner > TILE / (int64_t)sizeof(double)) /* it does not stay */
        return false;
    if (cut_of(&r).length > ALONG_MOST) /* pieces of it would be joined in another order */
        return false;
    return call->threads < 2 || flops < ALONE || r.kept * cut_of(&r).parts >= call->threads;
}

void td_reduce_computed(const struct td_call *call, const struct td_reduce_way *way,
                        const struct td_reduce_source *source)
{
    struct job job = job_of(call, way);
    job.source = source;
    set_fold(&job, way, 0);
    run_fold(&job);
}
