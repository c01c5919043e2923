/* What a pool and a worker say about themselves. Figures are read one by one while the pool works,
 * so they need not belong to one moment; affinities are read back from the kernel at each call. */
#include "pools/pool.h"

#include "pools/memory/buffer.h"

#include <math.h>
#include <string.h>

void td_pool_stats(struct td_pool *pool, struct td_pool_stats *stats)
{
    *stats = (struct td_pool_stats){.config = pool->config,
                                    .depth = atomic_load(&pool->waiting),
                                    .running = atomic_load(&pool->running),
                                    .rejected = atomic_load(&pool->rejected),
                                    .late = atomic_load(&pool->late)};
    memcpy(stats->requested, pool->asked.cpus, sizeof stats->requested);
    memcpy(stats->warning, pool->warning, sizeof stats->warning);
    const int max = sizeof stats->threads / sizeof *stats->threads;
    for (int i = 0; i < pool->n_workers; i++) {
        const struct td_worker *worker = &pool->workers[i];
        stats->done += atomic_load(&worker->done);
        stats->busy_ns += atomic_load(&worker->busy_ns);
        for (int k = 0; k < worker->team.n; k++) {
            if (stats->n_threads < max)
                td_team_look(&worker->team, k, &stats->threads[stats->n_threads++]);
        }
    }
}

int td_pool_memory(struct td_pool *pool, struct td_pool_memory *memory, int max)
{
    int n = pool->n_workers < max ? pool->n_workers : max;
    for (int i = 0; i < n; i++)
        td_buffers_look(pool->workers[i].numa_node, &memory[i]);
    return n;
}

void td_pool_inherit(struct td_pool *pool, const struct td_pool *before)
{
    for (int i = 0; i < before->n_workers; i++) {
        atomic_fetch_add(&pool->workers[0].done, before->workers[i].done);
        atomic_fetch_add(&pool->workers[0].busy_ns, before->workers[i].busy_ns);
    }
    atomic_fetch_add(&pool->rejected, before->rejected);
    atomic_fetch_add(&pool->late, before->late);
}

bool td_pool_mend(struct td_pool *pool)
{
    bool any = false;
    for (int i = 0; i < pool->n_workers && pool->binding != TD_BIND_none; i++)
        any = td_team_rebind(&pool->workers[i].team) || any;
    return any;
}

#define HANDOVER_SECONDS 40e-6 /* wake-ups of a worker, its team and the caller again */

double td_pool_worth_seconds(const struct td_pool *pool)
{
    double team = pool->config.threads / pool->n_workers;
    int busy = atomic_load_explicit(&pool->running, memory_order_relaxed) +
               atomic_load_explicit(&pool->waiting, memory_order_relaxed);
    return team < 2 || busy >= pool->n_workers ? (double)INFINITY
                                               : HANDOVER_SECONDS * team / (team - 1);
}

const char *td_pool_name(const struct td_pool *pool)
{
    return pool->config.name;
}

int td_pool_threads(const struct td_pool *pool)
{
    return pool->config.threads;
}

int td_pool_streams(const struct td_pool *pool)
{
    return pool->n_workers;
}

int td_pool_cpu(const struct td_pool *pool, int part, int parts)
{
    if (pool->binding != TD_BIND_each)
        return -1;
    return pool->cpus.cpu[(int64_t)pool->cpus.n * part / parts];
}

int td_worker_threads(const struct td_worker *worker)
{
    return td_team_threads(&worker->team);
}

int td_worker_numa_node(const struct td_worker *worker)
{
    return worker->numa_node;
}

int td_pool_home_node(const struct td_pool *pool)
{
    return pool->workers[0].numa_node;
}

struct td_pool *td_worker_pool(const struct td_worker *worker)
{
    return worker->pool;
}

void td_worker_note(struct td_worker *worker, const char *what, int64_t due_ns)
{
    atomic_store_explicit(&worker->busy.due_ns, due_ns, memory_order_relaxed);
    atomic_store_explicit(&worker->busy.what, what, memory_order_relaxed);
}
