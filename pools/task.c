/* Calling a function on a pool and waiting for what it gives: the pool's own use without HTTP.
 *
 * A task is one call. Its arguments are copied at submission, so that the same function may be
 * under way any number of times without one call seeing another's values. References are counted:
 * the holder's, and the queue's until the task has ended. The result can be read as often as wanted
 * while a reference lasts.
 *
 * Waiting on a worker. A worker that waits for a task which only workers that wait themselves could
 * run would wait for ever, be it for its own pool or in a ring over several. Who waits for what is
 * noted under one lock, and a wait without a time limit is refused when it would close such a ring.
 */
#include "pools/pool.h"

#include "pools/futex.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum state { QUEUED, RUNNING, ENDED, CANCELLED };

struct td_task {
    struct td_job job;
    td_task_fn *run;
    void (*fini)(void *args);
    struct td_pool *pool;     /* referenced until the task has ended */
    struct td_worker *worker; /* once RUNNING */
    atomic_int state;         /* enum state; slept on */
    atomic_int refs;
    int result;
    char problem[TD_TASK_PROBLEM];
    _Alignas(64) char args[];
};

/* Guards waits_for and walk of every worker. Tasks end under it too, so that whoever looks along
 * waits_for may follow the pool and the worker of a task that has not ended. */
static pthread_mutex_t waits = PTHREAD_MUTEX_INITIALIZER;
static uint64_t walks;

static bool has_ended(struct td_task *task)
{
    return atomic_load(&task->state) >= ENDED;
}

/* Moves the task from one state to an end; false when it was in another. */
static bool end(struct td_task *task, int from, int to)
{
    pthread_mutex_lock(&waits);
    bool ended = atomic_compare_exchange_strong(&task->state, &from, to);
    pthread_mutex_unlock(&waits);
    if (ended)
        td_futex_wake(&task->state, INT_MAX);
    return ended;
}

static void run(struct td_job *job, struct td_worker *worker)
{
    struct td_task *task = (struct td_task *)job;
    struct td_pool *pool = task->pool;
    int queued = QUEUED;
    task->worker = worker;
    if (atomic_compare_exchange_strong(&task->state, &queued, RUNNING)) { /* else cancelled */
        if (job->late) {
            task->result = -ETIMEDOUT;
            snprintf(task->problem, sizeof task->problem, "the deadline passed in the queue");
        } else {
            task->result = task->run(task->args, worker, task->problem, sizeof task->problem);
        }
        end(task, RUNNING, ENDED);
    }
    td_task_unref(task);
    td_pool_unref(pool);
}

int td_task_submit(struct td_task **result, struct td_pool *pool,
                   const struct td_task_config *config)
{
    size_t size = (sizeof(struct td_task) + config->args_bytes + 63) & ~(size_t)63;
    struct td_task *task = size > config->args_bytes ? aligned_alloc(64, size) : NULL;
    if (!task)
        return -ENOMEM;
    memset(task, 0, sizeof *task);
    task->job = (struct td_job){
        .run = run, .priority = config->priority, .deadline_ns = config->deadline_ns};
    task->run = config->run;
    task->fini = config->fini;
    task->pool = pool;
    atomic_init(&task->refs, 2);
    if (config->args_bytes)
        memcpy(task->args, config->args, config->args_bytes);
    td_pool_ref(pool);
    int error = td_pool_submit(pool, &task->job);
    if (error) {
        td_pool_unref(pool);
        free(task); /* the arguments are still the caller's: no fini */
        return error;
    }
    *result = task;
    return 0;
}

void td_task_ref(struct td_task *task)
{
    atomic_fetch_add(&task->refs, 1);
}

void td_task_unref(struct td_task *task)
{
    if (!task || atomic_fetch_sub(&task->refs, 1) != 1)
        return;
    if (task->fini)
        task->fini(task->args);
    free(task);
}

int td_task_cancel(struct td_task *task)
{
    if (end(task, QUEUED, CANCELLED))
        return 0;
    return has_ended(task) ? -EALREADY : -EBUSY;
}

/* ---- waiting ---- */

/* Whether a worker that the task needs is free, or will be: if not, it never runs. Everything that
 * can be reached from the task must be waiting for that to be false, hence a plain walk. */
static bool can_end(struct td_task *task);

static bool can_go_on(struct td_worker *worker)
{
    if (worker->walk == walks)
        return false; /* met before, and waiting */
    worker->walk = walks;
    return !worker->waits_for || can_end(worker->waits_for);
}

static bool can_end(struct td_task *task)
{
    switch (atomic_load(&task->state)) {
    case QUEUED:
        for (int i = 0; i < task->pool->n_workers; i++)
            if (can_go_on(&task->pool->workers[i]))
                return true;
        return false;
    case RUNNING:
        return can_go_on(task->worker);
    default:
        return true;
    }
}

/* Notes that the worker waits for the task, unless that would be for ever. */
static int note_wait(struct td_worker *worker, struct td_task *task)
{
    pthread_mutex_lock(&waits);
    walks++;
    worker->waits_for = task;
    worker->walk = walks; /* from here on it does not go on */
    bool ends = can_end(task);
    if (!ends)
        worker->waits_for = NULL;
    pthread_mutex_unlock(&waits);
    return ends ? 0 : -EDEADLK;
}

int td_task_wait(struct td_task *task, int64_t timeout_ns, int *result)
{
    struct td_worker *worker = timeout_ns < 0 && !has_ended(task) ? td_worker_current() : NULL;
    int error = worker ? note_wait(worker, task) : 0;
    if (error)
        return error;
    int64_t end_ns = timeout_ns < 0 ? INT64_MAX : td_now_ns() + timeout_ns;
    for (int state; (state = atomic_load(&task->state)) < ENDED && !error;) {
        int64_t left = timeout_ns < 0 ? -1 : end_ns - td_now_ns();
        if (timeout_ns >= 0 && left <= 0)
            error = -ETIMEDOUT;
        else
            td_futex_wait(&task->state, state, left);
    }
    if (worker) {
        pthread_mutex_lock(&waits);
        worker->waits_for = NULL;
        pthread_mutex_unlock(&waits);
    }
    if (!error)
        *result = atomic_load(&task->state) == CANCELLED ? -ECANCELED : task->result;
    return error;
}

void *td_task_args(struct td_task *task)
{
    return task->args;
}

const char *td_task_problem(const struct td_task *task)
{
    return task->problem;
}
