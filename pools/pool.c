/* A pool: bounded queues in front of pinned workers.
 *
 * Queues. One lock-free ring for each priority class; a worker looks at the most urgent first, and
 * in a class jobs run in the order they came. An exact order among all integers would need a heap
 * and a lock, and seven classes are more than clients tell apart. The bound is on the sum.
 *
 * Sleeping. A worker with nothing to do polls for a while, then announces itself in `idle` and
 * sleeps until it owns a token. A submitter looks at `idle` after its put; if someone is there, it
 * takes one off and gives a token, so that of all the jobs that arrive while a worker is waking
 * only the first costs a system call. The worker looks at the rings once more after announcing
 * itself. With both sides sequentially consistent, one of them must see the other.
 *
 * Ending. `waiting` counts a job before submit looks at `stopping`; so once a worker has seen
 * stopping and then no one waiting, no accepted job can be left. Threads are detached and count
 * themselves out: the last reference may be dropped by a job, on a worker, which cannot join
 * itself.
 *
 * No lock is taken here. The set's lock guards only the list of pools (set.c). */
#include "pools/pool.h"

#include "pools/futex.h"
#include "pools/machine/runtime.h"
#include "pools/machine/topology.h"
#include "pools/memory/buffer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STACK (1 << 20)             /* bytes; jobs keep their scratch in arenas */
#define TRIM_NS INT64_C(1000000000) /* unused for so long, kept memory goes back to the system */
#define LOOK_NS (10 * TRIM_NS)      /* how often an idle worker looks whether there is some */

/* ---- submitting ---- */

static struct td_ring *ring_of(struct td_pool *pool, int priority)
{
    int half = TD_PRIORITIES / 2;
    int class = priority > half ? half : priority < -half ? -half : priority;
    return &pool->rings[half - class];
}

/* Takes one sleeper off `idle`, if there is one, and gives a token for it. */
static bool wake_one(struct td_pool *pool)
{
    int idle = atomic_load(&pool->idle);
    while (idle > 0)
        if (atomic_compare_exchange_weak(&pool->idle, &idle, idle - 1)) {
            atomic_fetch_add(&pool->tokens, 1);
            td_futex_wake(&pool->tokens, 1);
            return true;
        }
    return false;
}

int td_pool_submit(struct td_pool *pool, struct td_job *job)
{
    job->submitted_ns = td_now_ns();
    job->late = false;
    int error = 0;
    if (atomic_fetch_add(&pool->waiting, 1) >= pool->config.queue_depth)
        error = -EAGAIN;
    if (atomic_load(&pool->stopping))
        error = -ESHUTDOWN;
    if (!error && !td_ring_put(ring_of(pool, job->priority), job))
        error = -EAGAIN;
    if (error) {
        atomic_fetch_sub(&pool->waiting, 1);
        atomic_fetch_add(&pool->rejected, 1);
        return error;
    }
    wake_one(pool);
    return 0;
}

/* ---- workers ---- */

static struct td_job *take(struct td_pool *pool)
{
    for (int i = 0; i < TD_PRIORITIES; i++) {
        struct td_job *job = td_ring_take(&pool->rings[i]);
        if (job) {
            atomic_fetch_add_explicit(&pool->running, 1, memory_order_relaxed);
            atomic_fetch_sub(&pool->waiting, 1);
            return job;
        }
    }
    return NULL;
}

static bool ready(struct td_pool *pool)
{
    for (int i = 0; i < TD_PRIORITIES; i++)
        if (td_ring_ready(&pool->rings[i]))
            return true;
    return false;
}

/* Polls for a job, if the next one can be expected in that time. */
static struct td_job *poll(struct td_worker *worker)
{
    struct td_pool *pool = worker->pool;
    int64_t most = pool->config.spin_us * INT64_C(1000);
    if (worker->idle_ns >= most)
        return NULL;
    int64_t end = td_now_ns() + most;
    do {
        for (int i = 0; i < 16; i++) {
            struct td_job *job = ready(pool) ? take(pool) : NULL;
            if (job)
                return job;
            __builtin_ia32_pause();
        }
    } while (!atomic_load_explicit(&pool->stopping, memory_order_relaxed) && td_now_ns() < end);
    return NULL;
}

/* Learns from a job how long workers are without work: a moving average, in which one long pause
 * counts as four times the polling, so that a few short ones make polling worth while again. */
static void learn_idle(struct td_worker *worker, int64_t idle_ns)
{
    int64_t longest = 4 * worker->pool->config.spin_us * INT64_C(1000);
    idle_ns = idle_ns < 0 ? 0 : idle_ns > longest ? longest : idle_ns;
    worker->idle_ns += (idle_ns - worker->idle_ns) / 4;
}

/* Once in a while, however busy the pool is between its rests. */
static void trim(struct td_pool *pool)
{
    long long now = td_now_ns(), last = atomic_load(&pool->trimmed_ns);
    if (now - last >= TRIM_NS && atomic_compare_exchange_strong(&pool->trimmed_ns, &last, now))
        td_buffers_trim(TRIM_NS);
}

/* Waits for a token, and uses it. */
static void sleep_for_token(struct td_pool *pool)
{
    for (;;) {
        int tokens = atomic_load(&pool->tokens);
        while (tokens > 0)
            if (atomic_compare_exchange_weak(&pool->tokens, &tokens, tokens - 1))
                return;
        trim(pool);
        td_futex_wait(&pool->tokens, 0, td_memory_kept() ? TRIM_NS : LOOK_NS);
    }
}

static void rest(struct td_pool *pool)
{
    atomic_fetch_add(&pool->idle, 1);
    if (ready(pool) || atomic_load(&pool->stopping)) {
        int idle = atomic_load(&pool->idle);
        while (idle > 0)
            if (atomic_compare_exchange_weak(&pool->idle, &idle, idle - 1))
                return;
        /* Somebody has taken us off already: the token is ours to use. */
    }
    sleep_for_token(pool);
}

/* The next job; NULL when the pool has stopped and nothing is left. */
static struct td_job *next_job(struct td_worker *worker)
{
    struct td_pool *pool = worker->pool;
    for (;;) {
        struct td_job *job = take(pool);
        if (!job)
            job = poll(worker);
        if (job)
            return job;
        if (!atomic_load(&pool->stopping)) {
            td_team_mend(&worker->team);
            rest(pool);
        } else if (!atomic_load(&pool->waiting)) {
            return NULL;
        } else {
            sched_yield(); /* a submitter is between counting its job and putting it */
        }
    }
}

static void release(struct td_pool *pool)
{
    if (atomic_fetch_sub(&pool->holds, 1) != 1)
        return;
    for (int i = 0; i < TD_PRIORITIES; i++)
        td_ring_fini(&pool->rings[i]);
    for (int i = 0; i < pool->n_workers; i++)
        td_team_fini(&pool->workers[i].team);
    td_cpus_fini(&pool->cpus);
    sem_destroy(&pool->started);
    free(pool);
}

static _Thread_local struct td_worker *current;

struct td_worker *td_worker_current(void)
{
    return current;
}

static void *work(void *arg)
{
    struct td_worker *worker = current = arg;
    struct td_pool *pool = worker->pool;
    atomic_int *alive = pool->alive;
    td_team_open(&worker->team); /* a member that cannot be bound still works; stats tell */
    sem_post(&pool->started);
    int64_t end = td_now_ns();
    for (struct td_job *job; (job = next_job(worker));) {
        int64_t start = td_now_ns();
        learn_idle(worker, job->submitted_ns - end);
        job->started_ns = start;
        job->late = job->deadline_ns && start > job->deadline_ns;
        if (job->late)
            atomic_fetch_add_explicit(&pool->late, 1, memory_order_relaxed);
        td_worker_note(worker, job->what, job->deadline_ns);
        atomic_store(&worker->busy.since_ns, start);
        td_team_begin(&worker->team, start);
        job->run(job, worker); /* may free the job */
        td_team_end(&worker->team);
        atomic_store(&worker->busy.since_ns, 0);
        end = td_now_ns();
        atomic_fetch_add_explicit(&worker->busy_ns, end - start, memory_order_relaxed);
        atomic_fetch_add_explicit(&worker->done, 1, memory_order_relaxed);
        atomic_fetch_sub_explicit(&pool->running, 1, memory_order_relaxed);
    }
    release(pool);
    if (atomic_fetch_sub(alive, 1) == 1) /* after that it may be gone, which wakes nobody */
        td_futex_wake(alive, INT_MAX);
    return NULL;
}

/* ---- life ---- */

static int start_worker(struct td_worker *worker)
{
    sigset_t most, before;
    sigfillset(&most); /* signals are for the main thread, but not those that a fault raises here */
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&most, faults[i]);
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &most, &before);
    int error = pthread_create(&thread, &attr, work, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (error)
        return -EAGAIN;
    char name[16];
    snprintf(name, sizeof name, "td %.9s %u", worker->pool->config.name, worker->index % 100u);
    pthread_setname_np(thread, name);
    return 0;
}

/* Cuts the worker's share of CPUs and threads, and prepares its team. */
static int prepare_worker(struct td_pool *pool, int index, const struct td_topology *topology)
{
    struct td_worker *worker = &pool->workers[index];
    const struct td_pool_config *config = &pool->config;
    int64_t first, n, first_thread, threads;
    td_split(pool->cpus.n, config->streams, index, &first, &n);
    td_split(config->threads, config->streams, index, &first_thread, &threads);
    worker->pool = pool;
    worker->index = index;
    struct td_cpus share = {0};
    int error = td_cpus_copy(&share, pool->cpus.cpu + first, (int)n);
    if (error)
        return error;
    worker->numa_node = td_topology_nodes(topology) > 1 ? td_topology_node(topology, &share) : -1;
    if (!pool->asked.cpus[0]) /* a list that was asked for keeps its order */
        td_topology_spread(topology, &share);
    return td_team_init(&worker->team, (int)threads, pool->binding, &share);
}

int td_pool_create(struct td_pool **result, atomic_int *alive, const struct td_topology *topology,
                   const struct td_pool_config *config, const struct td_pool_config *asked,
                   struct td_cpus *cpus, const char *warning)
{
    size_t size = sizeof(struct td_pool) + config->streams * sizeof(struct td_worker);
    struct td_pool *pool = aligned_alloc(64, (size + 63) & ~(size_t)63);
    if (!pool)
        return -ENOMEM;
    memset(pool, 0, size);
    pool->config = *config;
    pool->asked = *asked;
    snprintf(pool->warning, sizeof pool->warning, "%s", warning);
    pool->cpus = *cpus;
    *cpus = (struct td_cpus){0};
    pool->binding = !td_topology_can_bind(topology) ? TD_BIND_none
                    : config->pinned                ? TD_BIND_each
                                                    : TD_BIND_share;
    pool->alive = alive;
    pool->n_workers = config->streams;
    atomic_init(&pool->users, 1);
    atomic_init(&pool->holds, 1);
    sem_init(&pool->started, 0, 0);
    int error = 0, running = 0;
    for (int i = 0; i < TD_PRIORITIES && !error; i++)
        error = td_ring_init(&pool->rings[i], config->queue_depth);
    for (int i = 0; i < pool->n_workers && !error; i++)
        error = prepare_worker(pool, i, topology);
    for (; running < pool->n_workers && !error; running += !error) {
        atomic_fetch_add(&pool->holds, 1);
        atomic_fetch_add(alive, 1);
        error = start_worker(&pool->workers[running]);
        if (error) {
            atomic_fetch_sub(&pool->holds, 1);
            atomic_fetch_sub(alive, 1);
        }
    }
    for (int i = 0; i < running; i++)
        while (sem_wait(&pool->started))
            ; /* interrupted by a signal */
    if (error)
        td_pool_unref(pool);
    else
        *result = pool;
    return error;
}

void td_pool_stop(struct td_pool *pool)
{
    atomic_store(&pool->stopping, true);
    while (wake_one(pool))
        ;
}

void td_pool_ref(struct td_pool *pool)
{
    atomic_fetch_add(&pool->users, 1);
}

void td_pool_unref(struct td_pool *pool)
{
    if (!pool || atomic_fetch_sub(&pool->users, 1) != 1)
        return;
    td_pool_stop(pool);
    release(pool);
}
