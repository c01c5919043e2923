/* Whether selection takes the fastest kernel, over every operator, each of its samples at sizes
 * from 1 to 1M elements, and every type: for `tensord bench --all-candidates` and `tensord report`.
 * Kernels of a cell take turns on a pinned thread; what counts is the least time of that thread's
 * CPU, so that a busy machine makes a cell slow to time and not slow. A default that loses is timed
 * again and again before that is believed.
 *
 * Time is bounded by leaving cells out, evenly: whenever the sweep is behind its schedule. */
#include "server/bench/bench.h"
#include "server/commands/terminal.h"

#include "dispatch/choice/tune.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOSES TD_BENCH_LOSES
#define SLICE_NS 100000
#define ROUNDS 4
#define MOST_ROUNDS 48 /* before a default is believed to lose */
#define SLOW_NS 30000000
#define CELL_NS 1000000000 /* after which a cell gets no more rounds */
#define LONG_NS 2000000000 /* after which a kernel other than selection's is stopped, and out */
#define FAR 2.0            /* of the best: a kernel behind that is not timed again, */
#define FIRST_FAR 8.0      /* nor at all where it was behind that when it ran once */
#define HOPELESS 20.0      /* nor at larger sizes */
#define MAX_RIVALS 16
#define CLASSES 6

static const int64_t classes[CLASSES] = {1, 16, 256, 4096, 65536, 1048576}; /* elements */

/* Beside the samples, which are made for corners: shapes of models, in which n grows. */
static const struct more {
    const char *op, *sample;
} more[] = {
    {"matmul", "self=[n,n] other=[n,n]"},
    {"matmul", "self=[8,n] other=[n,n]"},
    {"matmul", "self=[12,n,64] other=[12,64,n]"},
    {"linear", "input=[1,n] weight=[n,n] bias=[n]"},
    {"linear", "input=[8,n] weight=[n,n] bias=[n]"},
    {"linear", "input=[n,n] weight=[n,n] bias=[n]"},
    {"conv2d", "input=[1,3,n,n] weight=[32,3,3,3] bias=[32] stride=2 padding=1"},
    {"conv2d", "input=[1,64,n,n] weight=[64,64,3,3] bias=[64] padding=1"},
    {"conv2d", "input=[1,64,n,n] weight=[64,64,1,1] bias=[64]"},
    {"conv2d", "input=[1,64,n,n] weight=[64,1,3,3] bias=[64] padding=1 groups=64"},
};

struct rival {
    const struct td_impl *impl;
    struct td_run run;
    void *scratch;
    double ns;
    int at; /* its place among the rows */
    bool out;
};

struct sweep {
    struct td_job job;
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool is_done;
    const struct td_bench_sweep *what;
    int64_t begin_ns;
    long cells, at;    /* at most, and the one that it is at */
    uint64_t hopeless; /* rows that are, of this sample and type */
    struct rival rival[MAX_RIVALS];
    int n_rivals;
};

static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---- its kernels ---- */

static int select_rival(struct td_bench_cell *cell, struct rival *r)
{
    size_t bytes;
    r->scratch = NULL;
    if (td_run_select(&r->run, &bytes))
        return -EINVAL;
    if (!bytes || (r->scratch = td_arena_zalloc(cell->arena, bytes + 64)))
        return 0;
    td_run_release(&r->run);
    return -ENOMEM;
}

/* Every row that takes the call, that of selection first. */
static void make_rivals(struct sweep *s, struct td_bench_cell *cell)
{
    struct rival *r = &s->rival[0];
    td_run_copy(&r->run, &cell->run);
    s->n_rivals = !select_rival(cell, r);
    r->impl = s->n_rivals ? r->run.impl : NULL;
    const struct td_impl *row = cell->run.rows;
    for (int at = 0; row->run && r->impl && s->n_rivals < MAX_RIVALS; row++, at++) {
        char name[48];
        struct rival *one = &s->rival[s->n_rivals];
        if (row == r->impl)
            r->at = at;
        if (row == r->impl || !td_impl_is_usable(row) || s->hopeless >> at & 1)
            continue;
        td_run_copy(&one->run, &cell->run);
        snprintf(name, sizeof name, "%s@%s", row->name, td_isa_name(row->isa));
        one->run.forced = name;
        one->run.rows = row; /* rows of one name follow */
        if (select_rival(cell, one))
            continue;
        one->impl = one->run.impl;
        one->at = at;
        if (one->impl == row)
            s->n_rivals++;
        else
            td_run_release(&one->run);
    }
}

static double run_once(struct rival *r)
{
    double begin = cpu_ns();
    td_run_execute(&r->run, r->scratch);
    return cpu_ns() - begin;
}

/* INFINITY where that takes too long, as references may at sizes nobody would ask them for. */
static double run_bounded(struct rival *r)
{
    const struct td_stop stop = {.deadline_ns = td_clock_ns() + LONG_NS};
    r->run.stop = &stop;
    double ns = run_once(r);
    r->run.stop = NULL;
    return td_stop_is_due(&stop) ? (double)INFINITY : ns;
}

/* One more round of one kernel. */
static void time_rival(struct rival *r)
{
    double begin = cpu_ns(), took;
    long n = 0, batch = 1;
    do {
        for (long i = 0; i < batch; i++)
            td_run_execute(&r->run, r->scratch);
        n += batch;
        took = cpu_ns() - begin;
        batch *= took < SLICE_NS / 4.0 ? 2 : 1;
    } while (took < SLICE_NS);
    r->ns = took / (double)n < r->ns ? took / (double)n : r->ns;
}

static struct rival *best_of(struct sweep *s)
{
    struct rival *best = &s->rival[0];
    for (int i = 1; i < s->n_rivals; i++)
        best = s->rival[i].ns < best->ns ? &s->rival[i] : best;
    return best;
}

static bool is_behind(const struct rival *own, const struct rival *other)
{
    return own->ns > LOSES * other->ns && own->ns > other->ns + TD_BENCH_UNSEEN_NS;
}

static bool loses(struct sweep *s)
{
    return is_behind(&s->rival[0], best_of(s));
}

/* False: the kernels refuse the data. */
static bool time_rivals(struct sweep *s)
{
    int64_t end = td_now_ns() + CELL_NS;
    for (int i = 0; i < s->n_rivals; i++) {
        struct rival *r = &s->rival[i];
        r->ns = i ? run_bounded(r) : run_once(r); /* makes and touches what later runs find */
        r->out = !isfinite(r->ns);
        if (r->run.error)
            return false;
        if (r->ns < SLOW_NS)
            r->ns = run_once(r);
    }
    for (int round = 0; (round < ROUNDS || (round < MOST_ROUNDS && loses(s))) && td_now_ns() < end;
         round++) {
        double best = best_of(s)->ns;
        for (int i = 0; i < s->n_rivals; i++) {
            struct rival *r = &s->rival[i];
            r->out |= i && r->ns > (round ? FAR : FIRST_FAR) * best;
            if (!r->out && (r->ns < SLOW_NS || round % 8 == 1))
                time_rival(r);
        }
    }
    for (int i = 1; i < s->n_rivals; i++)
        if (s->rival[i].ns > HOPELESS * best_of(s)->ns && s->rival[i].at < 64)
            s->hopeless |= (uint64_t)1 << s->rival[i].at;
    return true;
}

/* ---- what came of it ---- */

/* Has a kind whose default loses measured by request, as POST /v1/kernels/{op}/tune would, and says
 * what is taken from then on. */
static const struct rival *tune(struct sweep *s, struct td_bench_cell *cell)
{
    struct td_measured measured;
    struct td_problem problem;
    const struct rival *own = &s->rival[0];
    if (!s->what->tune || !loses(s) || td_run_tune(&cell->run, &measured, &problem))
        return own;
    for (int i = 0; i < s->n_rivals; i++)
        if (s->rival[i].impl == measured.row)
            return &s->rival[i];
    return own;
}

static void report(struct sweep *s, struct td_bench_cell *cell)
{
    const struct rival *own = &s->rival[0], *best = best_of(s), *tuned = tune(s, cell);
    struct td_bench_found found = {.cell = cell,
                                   .own = own->impl,
                                   .best = best->impl,
                                   .own_ns = own->ns,
                                   .best_ns = best->ns,
                                   .tuned_ns = tuned->ns,
                                   .is_behind = is_behind(own, best),
                                   .is_behind_tuned = is_behind(tuned, best)};
    for (int i = 1; i < s->n_rivals; i++) {
        const struct rival *r = &s->rival[i];
        bool is_ref = !r->impl[1].run;
        found.ref_ns = is_ref && isfinite(r->ns) ? r->ns : found.ref_ns;
        found.is_behind_ref |= is_ref && is_behind(own, r);
    }
    td_progress_clear();
    s->what->take(s->what->arg, &found);
}

static void time_cell(struct sweep *s, struct td_bench_cell *cell, int64_t class)
{
    if (td_bench_cell_begin(cell, class))
        return;
    make_rivals(s, cell);
    if (s->n_rivals > 1 && time_rivals(s))
        report(s, cell);
    for (int i = 0; i < s->n_rivals; i++)
        td_run_release(&s->rival[i].run);
    td_bench_cell_end(cell);
}

static bool is_late(const struct sweep *s)
{
    double took = (double)(td_now_ns() - s->begin_ns) * 1e-9;
    return s->what->seconds > 0 && took > s->what->seconds * (double)s->at / (double)s->cells;
}

typedef void visit(struct sweep *s, struct td_bench_cell *cell);

static void count_cells(struct sweep *s, struct td_bench_cell *cell)
{
    (void)cell;
    s->cells += CLASSES;
}

static void time_classes(struct sweep *s, struct td_bench_cell *cell)
{
    s->hopeless = 0;
    for (int i = 0; i < CLASSES; i++, s->at++) {
        td_progress((double)s->at / (double)s->cells, cell->handle->full);
        if (!is_late(s))
            time_cell(s, cell, classes[i]);
    }
}

static void each_type(struct sweep *s, const struct td_handle *handle, const char *sample,
                      visit *each)
{
    struct td_bench_cell cell = {.handle = handle, .sample = sample};
    bool can_store =
        !strncmp(handle->schema.name, "conv", 4) || !strncmp(handle->schema.name, "linear", 6);
    for (int k = 0; k < TD_DTYPES; k++)
        for (int stored = 0; handle->op->dtypes >> k & 1 && stored <= can_store; stored++) {
            cell.dtype = 1 << k;
            cell.stored = stored;
            each(s, &cell);
        }
}

static void each_cell(struct sweep *s, visit *each)
{
    for (int i = 0; i < td_registry_count(); i++) {
        const struct td_handle *handle = td_registry_at(i);
        const char *op = s->what->op;
        if (op && strcmp(op, handle->full) != 0 && strcmp(op, handle->schema.name) != 0)
            continue;
        for (const char *const *one = handle->op->samples; one && *one; one++)
            each_type(s, handle, *one, each);
        for (size_t k = 0; k < sizeof more / sizeof *more; k++)
            if (!strcmp(more[k].op, handle->full))
                each_type(s, handle, more[k].sample, each);
    }
}

static void run_sweep(struct td_job *job, struct td_worker *worker)
{
    struct sweep *s = (struct sweep *)job;
    (void)worker;
    s->begin_ns = td_now_ns();
    each_cell(s, time_classes);
    td_progress_clear();
    pthread_mutex_lock(&s->lock);
    s->is_done = true;
    pthread_cond_signal(&s->done);
    pthread_mutex_unlock(&s->lock);
}

int td_bench_sweep(const struct td_bench_sweep *what)
{
    struct td_problem problem;
    struct td_bench_pool pool;
    static struct sweep s;
    s = (struct sweep){.job.run = run_sweep, .what = what};
    each_cell(&s, count_cells);
    if (!s.cells) {
        fprintf(stderr, "tensord: bench: no operator '%s' with samples\n", what->op);
        return 2;
    }
    pthread_mutex_init(&s.lock, NULL);
    pthread_cond_init(&s.done, NULL);
    int err = td_bench_pool_open(&pool, 1, &problem);
    err = err ? err : td_pool_submit(pool.pool, &s.job);
    pthread_mutex_lock(&s.lock);
    while (!err && !s.is_done)
        pthread_cond_wait(&s.done, &s.lock);
    pthread_mutex_unlock(&s.lock);
    td_bench_pool_close(&pool);
    if (err)
        fprintf(stderr, "tensord: bench: %s\n", problem.text);
    return err ? 1 : 0;
}
