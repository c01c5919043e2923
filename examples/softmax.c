/* An operator on a pool without HTTP: softmax over 100 rows of 8,276, on the CPUs that are named.
 *
 *     build/examples/softmax [CPUS]        0-1, say; all that the process may use otherwise
 *
 * Twice. First on a worker of the pool, where its OpenMP team is bound, while the caller is free;
 * the future gives what the function returned, or says why it failed. Its argument is copied at
 * submission and can be read afterwards. Then on the calling thread, which a scope puts on the
 * pool's CPUs with a team of its own: the same numbers. */
#include "dispatch/dispatch.h"
#include "pools/pools.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 100
#define COLUMNS 8276

struct softmax {
    float *input, *output; /* the caller's */
    const char *kernel;    /* which one ran */
};

/* On the calling thread and its team of so many. */
static int compute(struct softmax *s, int threads, char *problem, size_t problem_size)
{
    struct td_tensor input = {
        .data = s->input, .dtype = TD_f32, .rank = 2, .shape = {ROWS, COLUMNS}};
    struct td_named named[] = {{"self", {.kind = TD_KIND_tensor, .tensor = input}},
                               {"dim", {.kind = TD_KIND_int, .i = 1}}};
    struct td_run run;
    size_t bytes;
    int error = td_run_bind(&run, "softmax", named, 2, NULL);
    run.call.threads = threads;
    if (!error)
        error = td_run_select(&run, &bytes);
    if (error) {
        snprintf(problem, problem_size, "%s", run.problem.text);
        return error;
    }
    void *scratch = malloc(bytes + 1);
    run.call.out[0].data = s->output;
    if (scratch)
        td_run_execute(&run, scratch);
    td_run_release(&run);
    free(scratch);
    s->kernel = run.impl->name;
    return scratch ? 0 : -ENOMEM;
}

static int on_worker(void *args, struct td_worker *worker, char *problem, size_t problem_size)
{
    return compute(args, td_worker_threads(worker), problem, problem_size);
}

/* Where nothing can be bound, the calling thread computes on the CPUs that it has. */
static int in_scope(struct softmax *s, struct td_pool *pool, char *problem, size_t problem_size)
{
    struct td_scope *scope = NULL;
    int error = td_scope_enter(pool, &scope);
    if (error && error != -ENOSYS) {
        snprintf(problem, problem_size, "the pool's CPUs cannot be entered: %s", strerror(-error));
        return error;
    }
    error = compute(s, td_pool_threads(pool), problem, problem_size);
    if (scope)
        td_scope_leave(scope);
    return error;
}

/* How far an element is from its exponential's part of the row's, at most, relative to it. */
static double worst_error(const struct softmax *s)
{
    double worst = 0;
    for (int r = 0; r < ROWS; r++) {
        const float *in = s->input + r * COLUMNS, *out = s->output + r * COLUMNS;
        double sum = 0;
        for (int c = 0; c < COLUMNS; c++)
            sum += exp(in[c]);
        for (int c = 0; c < COLUMNS; c++)
            worst = fmax(worst, fabs(out[c] * sum / exp(in[c]) - 1));
    }
    return worst;
}

int main(int argc, char **argv)
{
    td_runtime_tune(argv);
    struct td_topology *topology;
    struct td_pools *pools;
    struct td_problem problem = {""};
    struct td_pool_config config = td_pool_config_default("example");
    if (argc > 1 && td_pool_config_set(&config, "cpus", argv[1], problem.text, sizeof problem.text))
        return fprintf(stderr, "%s\n", problem.text), 2;
    if (td_cpu_init(NULL, &problem) || td_registry_init(&problem) ||
        td_topology_create(&topology) || td_pools_create(&pools, topology))
        return fprintf(stderr, "cannot start: %s\n", problem.text), 1;
    if (td_pools_add(pools, &config, problem.text, sizeof problem.text))
        return fprintf(stderr, "%s\n", problem.text), 1;

    size_t bytes = sizeof(float) * ROWS * COLUMNS;
    struct softmax args = {.input = malloc(bytes), .output = malloc(bytes)};
    struct softmax again = {.input = args.input, .output = malloc(bytes)};
    for (int i = 0; i < ROWS * COLUMNS; i++)
        args.input[i] = (float)rand() / (float)RAND_MAX;
    struct td_pool *pool = td_pools_find(pools, NULL);
    struct td_future *future;
    struct td_future_config call = {.run = on_worker, .args = &args, .args_bytes = sizeof args};
    int result, error = td_future_submit(&future, pool, &call);
    if (error || (error = td_future_wait(future, -1, &result)))
        return fprintf(stderr, "no result: %s\n", strerror(-error)), 1;
    if (result)
        return fprintf(stderr, "failed: %s\n", td_future_problem(future)), 1;
    if (in_scope(&again, pool, problem.text, sizeof problem.text))
        return fprintf(stderr, "failed: %s\n", problem.text), 1;
    const struct softmax *done = td_future_args(future);
    double worst = fmax(worst_error(done), worst_error(&again));
    printf("kernel %s on %d threads: right to %.1e\n", done->kernel, td_pool_threads(pool), worst);

    td_future_unref(future);
    td_pool_unref(pool);
    td_pools_destroy(pools);
    td_topology_destroy(topology);
    td_registry_fini();
    free(args.input);
    free(args.output);
    free(again.output);
    return worst < 1e-5 ? 0 : 1;
}
