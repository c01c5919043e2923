/* The pools of the process, found by name.
 *
 * `lock` guards the list; it is held for a few instructions. `adding` is held while a pool is made,
 * which takes as long as its threads take to start, so that lookups need not wait and two pools of
 * one name cannot both be made. Worker threads are detached and count themselves out at their end,
 * which is what destroy waits for. Threads that are no workers may have a seat at a pool. */
#include "pools/set.h"

#include "pools/futex.h"
#include "pools/machine/runtime.h"
#include "pools/machine/topology.h"
#include "pools/memory/buffer.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int td_pools_create(struct td_pools **result, struct td_topology *topology)
{
    struct td_pools *pools = calloc(1, sizeof *pools);
    if (!pools)
        return -ENOMEM;
    td_runtime(); /* looked up here, by the main thread */
    td_buffers_init(topology);
    pools->topology = topology;
    pthread_mutex_init(&pools->lock, NULL);
    pthread_mutex_init(&pools->adding, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&pools->enough, &clock);
    pthread_condattr_destroy(&clock);
    *result = pools;
    return 0;
}

void td_pools_destroy(struct td_pools *pools)
{
    if (!pools)
        return;
    assert(!pools->watched);
    for (int i = 0; i < pools->n; i++) { /* even where a caller still holds a reference */
        td_pool_stop(pools->pools[i]);
        td_pool_unref(pools->pools[i]);
    }
    for (int alive; (alive = atomic_load(&pools->alive));)
        td_futex_wait(&pools->alive, alive, -1);
    pthread_cond_destroy(&pools->enough);
    pthread_mutex_destroy(&pools->adding);
    pthread_mutex_destroy(&pools->lock);
    td_cpus_fini(&pools->io);
    free(pools->seats);
    free(pools);
    td_buffers_fini();
}

int td_pools_set_io_cpus(struct td_pools *pools, const char *cpus, char *problem,
                         size_t problem_size)
{
    struct td_cpus io = {0};
    int error = *cpus ? td_cpus_parse(&io, cpus, problem, problem_size) : 0;
    if (error)
        return error;
    pthread_mutex_lock(&pools->adding);
    td_cpus_fini(&pools->io);
    pools->io = io;
    pthread_mutex_unlock(&pools->adding);
    return 0;
}

/* The index of the pool; -1 when there is none. lock is held. */
static int index_of(const struct td_pools *pools, const char *name)
{
    if (!name || !*name)
        return pools->n ? 0 : -1;
    for (int i = 0; i < pools->n; i++)
        if (!strcmp(td_pool_name(pools->pools[i]), name))
            return i;
    return -1;
}

/* ---- seats ---- */

static int reseat(struct td_pools *pools, const struct td_seat *seat)
{
    struct td_pool *pool = td_pools_find(pools, seat->pool);
    int cpu = pool ? td_pool_cpu(pool, seat->part, seat->parts) : -1, error = 0;
    struct td_cpus cpus = {0};
    td_pool_unref(pool);
    if (!td_topology_can_bind(pools->topology))
        return 0;
    error = cpu < 0 ? td_topology_cpus(pools->topology, -1, &cpus) : td_cpus_append(&cpus, cpu);
    if (!error)
        error = td_affinity_set(seat->tid, &cpus);
    td_cpus_fini(&cpus);
    return error;
}

void td_pools_reseat(struct td_pools *pools)
{
    for (int i = 0; i < pools->n_seats; i++)
        reseat(pools, &pools->seats[i]);
}

int td_pools_seat(struct td_pools *pools, const char *name, int part, int parts,
                  struct td_busy *busy)
{
    struct td_seat seat = {.tid = gettid(), .part = part, .parts = parts, .busy = busy};
    snprintf(seat.pool, sizeof seat.pool, "%s", name);
    pthread_mutex_lock(&pools->adding);
    pthread_mutex_lock(&pools->lock);
    struct td_seat *more = realloc(pools->seats, (pools->n_seats + 1) * sizeof *more);
    if (more) {
        pools->seats = more;
        pools->seats[pools->n_seats++] = seat;
    }
    pthread_mutex_unlock(&pools->lock);
    int error = more ? reseat(pools, &seat) : -ENOMEM;
    pthread_mutex_unlock(&pools->adding);
    return error;
}

/* ---- making pools ---- */

int td_pools_make(struct td_pools *pools, const struct td_pool_config *asked, struct td_pool **pool,
                  char *problem, size_t problem_size)
{
    struct td_pool_config effective = *asked;
    struct td_cpus cpus = {0};
    int error = td_pool_config_resolve(&effective, pools->topology, &pools->io, &cpus, problem,
                                       problem_size);
    if (!error) {
        error =
            td_pool_create(pool, &pools->alive, pools->topology, &effective, asked, &cpus, problem);
        if (error)
            snprintf(problem, problem_size, "no memory or no thread to be had: %s",
                     strerror(-error));
    }
    td_cpus_fini(&cpus);
    return error;
}

void td_pools_place(struct td_pools *pools, int i, struct td_pool *pool)
{
    pthread_mutex_lock(&pools->lock);
    struct td_pool *old = i < pools->n ? pools->pools[i] : NULL;
    pools->pools[i] = pool;
    pools->n += !old;
    pthread_mutex_unlock(&pools->lock);
    td_pool_unref(old);
    td_pools_reseat(pools);
}

/* With adding held. */
static int add(struct td_pools *pools, const struct td_pool_config *config, bool replace,
               char *problem, size_t problem_size)
{
    pthread_mutex_lock(&pools->lock);
    int i = config->name[0] ? index_of(pools, config->name) : -1, last = pools->n;
    pthread_mutex_unlock(&pools->lock);
    if (i >= 0 && !replace) {
        snprintf(problem, problem_size, "name: there is a pool '%s' already", config->name);
        return -EEXIST;
    }
    if (i == 0) {
        snprintf(problem, problem_size, "pool %s: the default pool cannot be replaced",
                 config->name);
        return -EBUSY;
    }
    if (i < 0 && last == TD_MAX_POOLS) {
        snprintf(problem, problem_size, "there are %d pools already, and that is the most",
                 TD_MAX_POOLS);
        return -EINVAL;
    }
    if (last && !strcmp(td_runtime()->backend, "none")) {
        snprintf(problem, problem_size,
                 "no pools but the default one: threads are not bound here (pin backend none)");
        return -ENOSYS;
    }
    struct td_pool *pool;
    int error = td_pools_make(pools, config, &pool, problem, problem_size);
    if (!error)
        td_pools_place(pools, i < 0 ? last : i, pool);
    return error ? error : i >= 0;
}

int td_pools_add(struct td_pools *pools, const struct td_pool_config *config, char *problem,
                 size_t problem_size)
{
    pthread_mutex_lock(&pools->adding);
    int error = add(pools, config, false, problem, problem_size);
    pthread_mutex_unlock(&pools->adding);
    return error;
}

int td_pools_put(struct td_pools *pools, const struct td_pool_config *config, struct td_pool **pool,
                 char *problem, size_t problem_size)
{
    pthread_mutex_lock(&pools->adding);
    int result = add(pools, config, true, problem, problem_size);
    if (result >= 0)
        *pool = td_pools_find(pools, config->name);
    pthread_mutex_unlock(&pools->adding);
    return result;
}

int td_pools_remove(struct td_pools *pools, const char *name)
{
    struct td_pool *pool = NULL;
    pthread_mutex_lock(&pools->adding);
    pthread_mutex_lock(&pools->lock);
    int i = index_of(pools, name);
    if (i > 0) {
        pool = pools->pools[i];
        pools->n--;
        memmove(pools->pools + i, pools->pools + i + 1, (pools->n - i) * sizeof *pools->pools);
    }
    pthread_mutex_unlock(&pools->lock);
    if (pool)
        td_pools_reseat(pools);
    pthread_mutex_unlock(&pools->adding);
    td_pool_unref(pool);
    return i < 0 ? -ENOENT : i == 0 ? -EBUSY : 0;
}

struct td_pool *td_pools_find(struct td_pools *pools, const char *name)
{
    pthread_mutex_lock(&pools->lock);
    int i = index_of(pools, name);
    struct td_pool *pool = i < 0 ? NULL : pools->pools[i];
    if (pool)
        td_pool_ref(pool);
    pthread_mutex_unlock(&pools->lock);
    return pool;
}

int td_pools_list(struct td_pools *pools, struct td_pool **list, int max)
{
    pthread_mutex_lock(&pools->lock);
    int n = pools->n < max ? pools->n : max;
    for (int i = 0; i < n; i++) {
        list[i] = pools->pools[i];
        td_pool_ref(list[i]);
    }
    pthread_mutex_unlock(&pools->lock);
    return n;
}
