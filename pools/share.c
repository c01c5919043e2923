/* One job over several workers of its pool.
 *
 * The job's worker and helpers claim parts from a counter until none is left, so a helper that
 * comes late finds nothing to do, and the job never waits for one that has not begun: were all
 * workers to wait for queued parts, nobody would be left to run them. Helpers go to the front of
 * the queue, since the job they belong to is running already. */
#include "pools/futex.h"
#include "pools/pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

struct shared;

struct helper {
    struct td_job job;
    struct shared *shared;
};

struct shared {
    td_part *run;
    void *arg;
    int parts;
    int64_t due_ns;  /* of the job */
    atomic_int next; /* the first part that nobody has claimed */
    atomic_int left; /* parts not finished; slept on */
    atomic_int refs; /* the job and the helpers that have been queued */
    struct helper helpers[];
};

static void unref(struct shared *shared)
{
    if (atomic_fetch_sub(&shared->refs, 1) == 1)
        free(shared);
}

static void run_parts(struct shared *shared, struct td_worker *worker)
{
    for (int part; (part = atomic_fetch_add(&shared->next, 1)) < shared->parts;) {
        shared->run(shared->arg, part, worker);
        if (atomic_fetch_sub(&shared->left, 1) == 1)
            td_futex_wake(&shared->left, 1);
    }
}

static void help(struct td_job *job, struct td_worker *worker)
{
    struct shared *shared = ((struct helper *)job)->shared;
    td_worker_note(worker, job->what, shared->due_ns);
    run_parts(shared, worker);
    unref(shared);
}

int td_worker_share(struct td_worker *worker, int parts, td_part *run, void *arg)
{
    int helpers = parts < worker->pool->n_workers ? parts - 1 : worker->pool->n_workers - 1;
    if (parts < 1)
        return 0;
    struct shared *shared = calloc(1, sizeof *shared + helpers * sizeof(struct helper));
    if (!shared)
        return -ENOMEM;
    shared->run = run;
    shared->arg = arg;
    shared->parts = parts;
    shared->due_ns = atomic_load(&worker->busy.due_ns);
    atomic_init(&shared->left, parts);
    atomic_init(&shared->refs, 1);
    for (int i = 0; i < helpers; i++) {
        struct helper *helper = &shared->helpers[i];
        helper->shared = shared;
        helper->job = (struct td_job){
            .run = help, .what = atomic_load(&worker->busy.what), .priority = TD_PRIORITIES / 2};
        atomic_fetch_add(&shared->refs, 1);
        if (td_pool_submit(worker->pool, &helper->job)) { /* no room: the parts are run here */
            unref(shared);
            break;
        }
    }
    run_parts(shared, worker);
    for (int left; (left = atomic_load(&shared->left));)
        td_futex_wait(&shared->left, left, -1);
    unref(shared);
    return 0;
}

int td_streams_parse(const char *text, int n_cpus, int *streams, char *problem, size_t problem_size)
{
    char *end;
    long wanted = strtol(text, &end, 10);
    problem[0] = 0;
    if (!strcasecmp(text, "auto")) {
        *streams = n_cpus;
        return 0;
    }
    if (end == text || *end || wanted < 1) {
        snprintf(problem, problem_size, "streams: '%.40s' is neither \"auto\" nor a number from 1",
                 text);
        return -EINVAL;
    }
    *streams = wanted < n_cpus ? (int)wanted : n_cpus;
    if (wanted > n_cpus)
        snprintf(problem, problem_size, "streams: reduced from %ld to the %d CPUs", wanted, n_cpus);
    return 0;
}
