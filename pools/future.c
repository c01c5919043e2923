/* Calling a function on a pool and waiting for what it gives: the pool's own use without HTTP.
 *
 * A future is one call. Its arguments are copied at submission, so that the same function may be
 * under way any number of times without one call seeing another's values. References are counted:
 * the holder's, and the queue's until the future has ended. The result can be read as often as
 * wanted while a reference lasts.
 *
 * Waiting on a worker. A worker that waits for a future which only workers that wait themselves
 * could run would wait for ever, be it for its own pool or in a ring over several. Who waits for
 * what is noted under one lock, and a wait without a time limit is refused when it would close such
 * a ring.
 */
#include "pools/pool.h"

#include "pools/futex.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum state { QUEUED, RUNNING, ENDED };

struct td_future {
    struct td_job job;
    td_future_fn *run;
    void (*fini)(void *args);
    struct td_pool *pool;     /* referenced until the future has ended */
    struct td_worker *worker; /* once RUNNING */
    atomic_int state;         /* enum state; slept on */
    atomic_int refs;
    int result;
    char problem[TD_FUTURE_PROBLEM];
    _Alignas(64) char args[];
};

/* Guards waits_for and walk of every worker. Futures end under it too, so that whoever looks along
 * waits_for may follow the pool and the worker of a future that has not ended. */
static pthread_mutex_t waits = PTHREAD_MUTEX_INITIALIZER;
static uint64_t walks;

static bool has_ended(struct td_future *future)
{
    return atomic_load(&future->state) == ENDED;
}

static void end(struct td_future *future)
{
    pthread_mutex_lock(&waits);
    atomic_store(&future->state, ENDED);
    pthread_mutex_unlock(&waits);
    td_futex_wake(&future->state, INT_MAX);
}

static void run(struct td_job *job, struct td_worker *worker)
{
    struct td_future *future = (struct td_future *)job;
    struct td_pool *pool = future->pool;
    future->worker = worker;
    atomic_store(&future->state, RUNNING);
    if (job->late) {
        future->result = -ETIMEDOUT;
        snprintf(future->problem, sizeof future->problem, "the deadline passed in the queue");
    } else {
        future->result = future->run(future->args, worker, future->problem, sizeof future->problem);
    }
    end(future);
    td_future_unref(future);
    td_pool_unref(pool);
}

int td_future_submit(struct td_future **result, struct td_pool *pool,
                     const struct td_future_config *config)
{
    size_t size = (sizeof(struct td_future) + config->args_bytes + 63) & ~(size_t)63;
    struct td_future *future = size > config->args_bytes ? aligned_alloc(64, size) : NULL;
    if (!future)
        return -ENOMEM;
    memset(future, 0, sizeof *future);
    future->job = (struct td_job){.run = run,
                                  .what = config->what,
                                  .priority = config->priority,
                                  .deadline_ns = config->deadline_ns};
    future->run = config->run;
    future->fini = config->fini;
    future->pool = pool;
    atomic_init(&future->refs, 2);
    if (config->args_bytes)
        memcpy(future->args, config->args, config->args_bytes);
    td_pool_ref(pool);
    int error = td_pool_submit(pool, &future->job);
    if (error) {
        td_pool_unref(pool);
        free(future); /* the arguments are still the caller's: no fini */
        return error;
    }
    *result = future;
    return 0;
}

void td_future_unref(struct td_future *future)
{
    if (!future || atomic_fetch_sub(&future->refs, 1) != 1)
        return;
    if (future->fini)
        future->fini(future->args);
    free(future);
}

/* ---- waiting ---- */

/* Whether a worker that the future needs is free, or will be: if not, it never runs. Everything
 * that can be reached from the future must be waiting for that to be false, hence a plain walk. */
static bool can_end(struct td_future *future);

static bool can_go_on(struct td_worker *worker)
{
    if (worker->walk == walks)
        return false; /* met before, and waiting */
    worker->walk = walks;
    return !worker->waits_for || can_end(worker->waits_for);
}

static bool can_end(struct td_future *future)
{
    switch (atomic_load(&future->state)) {
    case QUEUED:
        for (int i = 0; i < future->pool->n_workers; i++)
            if (can_go_on(&future->pool->workers[i]))
                return true;
        return false;
    case RUNNING:
        return can_go_on(future->worker);
    default:
        return true;
    }
}

/* Notes that the worker waits for the future, unless that would be for ever. */
static int note_wait(struct td_worker *worker, struct td_future *future)
{
    pthread_mutex_lock(&waits);
    walks++;
    worker->waits_for = future;
    worker->walk = walks; /* from here on it does not go on */
    bool ends = can_end(future);
    if (!ends)
        worker->waits_for = NULL;
    pthread_mutex_unlock(&waits);
    return ends ? 0 : -EDEADLK;
}

int td_future_wait(struct td_future *future, int64_t timeout_ns, int *result)
{
    struct td_worker *worker = timeout_ns < 0 && !has_ended(future) ? td_worker_current() : NULL;
    int error = worker ? note_wait(worker, future) : 0;
    if (error)
        return error;
    int64_t end_ns = timeout_ns < 0 ? INT64_MAX : td_now_ns() + timeout_ns;
    for (int state; (state = atomic_load(&future->state)) < ENDED && !error;) {
        int64_t left = timeout_ns < 0 ? -1 : end_ns - td_now_ns();
        if (timeout_ns >= 0 && left <= 0)
            error = -ETIMEDOUT;
        else
            td_futex_wait(&future->state, state, left);
    }
    if (worker) {
        pthread_mutex_lock(&waits);
        worker->waits_for = NULL;
        pthread_mutex_unlock(&waits);
    }
    if (!error)
        *result = future->result;
    return error;
}

void *td_future_args(struct td_future *future)
{
    return future->args;
}

const char *td_future_problem(const struct td_future *future)
{
    return future->problem;
}
