/* Where the bench computes: a pool of one pinned worker, as requests have it. */
#include "server/bench/bench.h"

#include <errno.h>

int td_bench_pool_open(struct td_bench_pool *pool, int threads, struct td_problem *problem)
{
    struct td_pool_config config = td_pool_config_default("bench");
    config.threads = threads;
    *pool = (struct td_bench_pool){NULL, NULL, NULL};
    if (td_topology_create(&pool->topology) || td_pools_create(&pool->pools, pool->topology))
        return td_problem_set(problem, ENOMEM, "the machine cannot be read");
    int err = td_pools_add(pool->pools, &config, problem->text, sizeof problem->text);
    pool->pool = err ? NULL : td_pools_find(pool->pools, NULL);
    return err;
}

void td_bench_pool_close(struct td_bench_pool *pool)
{
    if (pool->pool)
        td_pool_unref(pool->pool);
    td_pools_destroy(pool->pools);
    td_topology_destroy(pool->topology);
}
