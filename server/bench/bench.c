/* `tensord bench`: every kernel that can run here on a list of cases, under the conditions of a
 * request: on a pinned worker of a pool, weights stored and therefore packed. One object a line;
 * `chosen` marks the kernel that selection would take. Kernels of a case take turns, so that a
 * drift of the machine meets all of them alike. */
#include "server/bench/bench.h"
#include "server/commands/terminal.h"

#include "kernels/linear.h"
#include "kernels/weight.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 9
#define ROUND_NS 20000000 /* of repeating one kernel in one round */
#define BATCH_NS 50000    /* and of calls between two looks at the clock, at least */
#define SLOW_NS 200000000 /* a kernel that takes longer is timed once */
#define MAX_ROWS 16

struct row {
    const struct td_impl *impl;
    struct td_run run;
    void *scratch;
    bool chosen;
    int rounds;               /* fewer for a kernel that takes long */
    double us[ROUNDS], least; /* a call's, in the mean of each round, and in the best batch */
};

struct context {
    const struct td_bench_options *bench;
    struct td_pool *pool;
    struct td_arena *arena; /* of the case */
    int cases, matched;     /* that --op lets through: all, and those begun */
};

struct job {
    struct td_job job;
    struct context *of;
    const struct td_run *bound;
    struct row *row; /* made by the worker */
    int n_rows;
    atomic_int rounds; /* so far */
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool is_done;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void td_bench_sort(double *figures, int n)
{
    qsort(figures, (size_t)n, sizeof *figures, by_value);
}

static double time_once(struct row *row)
{
    int64_t begin = td_now_ns(), last = begin, now;
    long n = 0, batch = 1;
    do {
        for (long i = 0; i < batch; i++)
            td_run_execute(&row->run, row->scratch);
        now = td_now_ns();
        double us = (double)(now - last) * 1e-3 / (double)batch;
        bool short_batch = now - last < BATCH_NS;
        row->least = row->least > 0 && (short_batch || row->least < us) ? row->least : us;
        n += batch;
        batch *= short_batch ? 2 : 1;
        last = now;
    } while (now - begin < ROUND_NS);
    return (double)(now - begin) * 1e-3 / (double)n;
}

/* The tensors of a case by the names that an expression has for them. */
static int name_letters(struct context *x, const struct td_case *c, struct td_named *args)
{
    static const char letters[][2] = {"a", "b", "c", "d", "e", "f"};
    for (int i = 0; i < c->n_shapes; i++) {
        struct td_value value = {.kind = TD_KIND_tensor, .tensor = c->shape[i]};
        if (td_bench_fill(x->arena, &value.tensor))
            return -ENOMEM;
        args[i] = (struct td_named){letters[i], value};
    }
    return c->n_shapes;
}

/* Whether the second tensor is what a server stores: a weight. */
static bool has_weight(const struct td_handle *handle)
{
    return td_is_linear(handle->op) || !strncmp(handle->schema.name, "conv2d", 6);
}

/* The tensors of a case by the operator's parameter names, the second one stored as a weight. */
static int name_tensors(struct context *x, const struct td_case *c, const struct td_handle *handle,
                        struct td_named *args, struct td_weight **weight)
{
    int n = 0;
    for (int i = 0; i < handle->schema.n_params && n < c->n_shapes; i++) {
        if (handle->schema.param[i].type.base != TD_BASE_Tensor)
            continue;
        struct td_named *arg = &args[n];
        *arg = (struct td_named){handle->schema.param[i].name,
                                 {.kind = TD_KIND_tensor, .tensor = c->shape[n]}};
        if (td_bench_fill(x->arena, &arg->value.tensor))
            return -ENOMEM;
        bool stored = n == 1 && has_weight(handle);
        if (stored) {
            if (td_weight_create(weight, &arg->value.tensor, NULL))
                return -ENOMEM;
            arg->value.tensor = *td_weight_tensor(*weight);
        }
        n++;
    }
    for (int i = 0; i < c->n_args; i++)
        args[n++] = c->arg[i];
    return n;
}

static int prepare_row(struct context *x, struct row *row)
{
    size_t bytes;
    if (td_run_select(&row->run, &bytes))
        return -EINVAL;
    row->scratch = bytes ? td_arena_alloc(x->arena, bytes) : NULL;
    if (!bytes || row->scratch)
        return 0;
    td_run_release(&row->run);
    return -ENOMEM;
}

/* Of what consists of several calls: as it runs, or each call by the kernel that is asked for. */
static int make_whole(struct context *x, const struct td_run *bound, struct row *row)
{
    *row = (struct row){.chosen = !x->bench->kernel || !strcmp("best", x->bench->kernel)};
    td_run_copy(&row->run, bound);
    row->run.forced = row->chosen ? NULL : x->bench->kernel;
    int err = prepare_row(x, row);
    row->impl = row->run.impl;
    return !err;
}

/* One row a kernel that can run the call. */
static int make_rows(struct context *x, const struct td_run *bound, struct row *rows)
{
    char name[48];
    int n = 0;
    struct row first;
    if (bound->parts)
        return make_whole(x, bound, rows);
    td_run_copy(&first.run, bound);
    if (prepare_row(x, &first))
        return 0;
    td_run_release(&first.run);
    for (const struct td_impl *i = bound->call.op->impls; i->run && n < MAX_ROWS; i++) {
        rows[n] = (struct row){.impl = i, .chosen = i == first.run.impl};
        td_run_copy(&rows[n].run, bound);
        snprintf(name, sizeof name, "%s@%s", i->name, td_isa_name(i->isa));
        rows[n].run.forced = rows[n].chosen ? NULL : td_arena_strdup(x->arena, name, strlen(name));
        if ((x->bench->kernel && strcmp(i->name, x->bench->kernel) &&
             strcmp(name, x->bench->kernel) &&
             (strcmp("best", x->bench->kernel) || !rows[n].chosen)) ||
            prepare_row(x, &rows[n]))
            continue;
        if (rows[n].run.impl == i)
            n++;
        else /* another row of the name, for other types */
            td_run_release(&rows[n].run);
    }
    return n;
}

/* Rows are chosen here as well: a team that another thread had opened for that would stay, and the
 * runtime would let no team wait awake any more, since there are more threads than CPUs. */
static void run_rows(struct td_job *base, struct td_worker *worker)
{
    struct job *job = (struct job *)base;
    (void)worker;
    job->n_rows = make_rows(job->of, job->bound, job->row);
    for (int k = 0; k < job->n_rows; k++) {
        int64_t begin = td_now_ns(); /* packs, creates, warms */
        td_run_execute(&job->row[k].run, job->row[k].scratch);
        job->row[k].rounds = td_now_ns() - begin > SLOW_NS ? 1 : ROUNDS;
    }
    for (int r = 0; r < ROUNDS; r++, job->rounds++)
        for (int k = 0; k < job->n_rows; k++)
            if (r < job->row[k].rounds)
                job->row[k].us[r] = time_once(&job->row[k]);
    for (int k = 0; k < job->n_rows; k++)
        td_bench_sort(job->row[k].us, job->row[k].rounds);
    pthread_mutex_lock(&job->lock);
    job->is_done = true;
    pthread_cond_signal(&job->done);
    pthread_mutex_unlock(&job->lock);
}

static void print_row(const struct context *x, const struct td_case *c, const struct row *row)
{
    const struct td_call *call = &row->run.call;
    double us = row->us[row->rounds / 2], bytes = 0;
    for (int i = 0; i < c->n_shapes; i++)
        bytes += (double)td_nbytes(&c->shape[i]);
    for (int i = 0; i < call->n_out; i++)
        bytes += (double)td_nbytes(&call->out[i]);
    double flops = call->op->flops ? call->op->flops(call) : (double)td_numel(&call->out[0]);
    char type[40] = "";
    if (x->bench->json && row->run.compute_type)
        snprintf(type, sizeof type, "\"compute_type\":\"%s\",",
                 td_dtype_name(row->run.compute_type));
    printf(
        x->bench->json
            ? "{\"id\":\"%s\",\"op\":\"%s\",\"kernel\":\"%s\",\"isa\":\"%s\",%s\"threads\":%d,"
              "\"us_min\":%.3f,\"us_median\":%.3f,\"chosen\":%s,\"gb_s\":%.2f,\"gflop_s\":%.2f}\n"
            : "%-26s %-18s %-7s %-12s %s%d  %11.3f %11.3f  %-5s %8.2f %9.2f\n",
        c->id, row->run.handle->full, row->run.impl->name, td_isa_name(row->run.isa), type,
        call->threads, row->least, us,
        x->bench->json ? (row->chosen ? "true" : "false") : (row->chosen ? "yes" : ""),
        bytes / us * 1e-3, flops / us * 1e-3);
    fflush(stdout);
}

/* Waits for the job, which a worker runs, and says meanwhile how far all cases are. */
static void await(const struct context *x, const struct td_case *c, struct job *job)
{
    pthread_mutex_lock(&job->lock);
    while (!job->is_done) {
        struct timespec until;
        td_progress((x->matched - 1 + job->rounds / (double)ROUNDS) / x->cases, c->id);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 100000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&job->done, &job->lock, &until);
    }
    pthread_mutex_unlock(&job->lock);
    td_progress_clear();
}

static int time_case(struct context *x, const struct td_case *c, struct td_run *run)
{
    static struct row rows[MAX_ROWS];
    struct job job = {.job.run = run_rows, .of = x, .bound = run, .row = rows};
    run->call.threads = x->bench->threads;
    for (int i = 0; i < run->call.n_out; i++)
        if (!(run->call.out[i].data = td_arena_alloc(x->arena, td_nbytes(&run->call.out[i]) + 1)))
            return -ENOMEM;
    pthread_mutex_init(&job.lock, NULL);
    pthread_cond_init(&job.done, NULL);
    int err = td_pool_submit(x->pool, &job.job);
    if (!err)
        await(x, c, &job);
    for (int k = 0; k < job.n_rows; k++) {
        if (!err)
            print_row(x, c, &rows[k]);
        td_run_release(&rows[k].run);
    }
    return err;
}

static bool is_wanted(const struct td_bench_options *bench, const struct td_case *c)
{
    return !bench->op || !strcmp(bench->op, c->op) || !strcmp(bench->op, c->id);
}

static int count_case(void *arg, const struct td_case *c)
{
    struct context *x = arg;
    x->cases += is_wanted(x->bench, c);
    return 0;
}

static int bench_case(void *arg, const struct td_case *c)
{
    struct context *x = arg;
    const struct td_handle *handle = td_registry_find(c->op);
    struct td_named args[16];
    struct td_weight *weight = NULL;
    struct td_run run;
    if (!is_wanted(x->bench, c))
        return 0;
    x->matched++;
    if (!x->bench->json && x->matched == 1)
        printf("%-26s %-18s %-7s %-12s %s  %11s %11s  %-5s %8s %9s\n", "case", "op", "kernel",
               "isa", "t", "us min", "us median", "best", "GB/s", "GFLOP/s");
    if (!handle && !c->expr) {
        fprintf(stderr, "tensord: bench: %s skipped: no operator '%s'\n", c->id, c->op);
        return 0;
    }
    if (!(x->arena = td_arena_create()))
        return -ENOMEM;
    struct td_options options = {.alloc = td_alloc_in_arena, .alloc_arg = x->arena};
    int n = c->expr ? name_letters(x, c, args) : name_tensors(x, c, handle, args, &weight);
    int err = n < 0 ? n : 0;
    if (!err && (c->expr ? td_run_bind_expr(&run, c->expr, args, n, &options)
                         : td_run_bind(&run, c->op, args, n, &options)))
        fprintf(stderr, "tensord: bench: %s skipped: %s\n", c->id, run.problem.text);
    else if (!err)
        err = time_case(x, c, &run);
    td_weight_unref(&weight);
    td_arena_destroy(x->arena);
    return err;
}

int td_bench_cases(const struct td_bench_options *bench)
{
    struct td_problem problem = {""};
    struct td_bench_pool pool = {NULL, NULL, NULL};
    struct context x = {.bench = bench};
    size_t length;
    char *text = td_bench_read_cases(bench->cases, &length);
    int err = text ? 0 : td_problem_set(&problem, EINVAL, "%s: cannot be read", bench->cases);
    err = err ? err : td_bench_pool_open(&pool, bench->threads, &problem);
    if (!err) {
        x.pool = pool.pool;
        err = td_bench_each_case(text, length, count_case, &x, &problem);
        if (!err)
            err = td_bench_each_case(text, length, bench_case, &x, &problem);
        if (!err && !x.matched)
            err = td_problem_set(&problem, EINVAL, "no case of '%s'",
                                 bench->op ? bench->op : "any operator");
    }
    td_bench_pool_close(&pool);
    free(text);
    if (err)
        fprintf(stderr, "tensord: bench: %s\n", *problem.text ? problem.text : strerror(-err));
    return err ? err == -EINVAL ? 2 : 1 : 0;
}
