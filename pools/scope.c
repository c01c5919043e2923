/* A thread that is not a worker, on a pool's CPUs for a while.
 *
 * This is the pool without its queue: the thread itself leads a team on the pool's CPUs, next to
 * the workers, and gets its former mask and OpenMP settings back at the end. Scopes of a thread
 * form a stack. Entering the innermost pool again changes nothing and is only counted. */
#include "pools/machine/runtime.h"
#include "pools/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct td_scope {
    struct td_scope *outer;
    struct td_pool *pool;
    struct td_cpus before; /* the thread's mask */
    struct td_team team;
    int entered; /* times */
};

static _Thread_local struct td_scope *innermost;

/* Undoes what has been done of enter. */
static int leave(struct td_scope *scope)
{
    td_team_close(&scope->team, &scope->before);
    int error = td_runtime_bind(&scope->before);
    innermost = scope->outer;
    td_team_fini(&scope->team);
    td_cpus_fini(&scope->before);
    td_pool_unref(scope->pool);
    free(scope);
    return error;
}

int td_scope_enter(struct td_pool *pool, struct td_scope **result)
{
    if (innermost && innermost->pool == pool) {
        innermost->entered++;
        *result = innermost;
        return 0;
    }
    if (pool->binding == TD_BIND_none)
        return -ENOSYS;
    struct td_scope *scope = calloc(1, sizeof *scope);
    struct td_cpus cpus = {0};
    int error = scope ? td_cpus_copy(&cpus, pool->cpus.cpu, pool->cpus.n) : -ENOMEM;
    if (!error)
        error = td_affinity_get(0, &scope->before);
    if (!error)
        error = td_team_init(&scope->team, pool->config.threads, pool->binding, &cpus);
    if (error) {
        td_cpus_fini(&cpus);
        if (scope)
            td_cpus_fini(&scope->before);
        free(scope);
        return error;
    }
    scope->outer = innermost;
    scope->pool = pool;
    scope->entered = 1;
    td_pool_ref(pool);
    innermost = scope;
    error = td_team_open(&scope->team);
    if (error)
        leave(scope);
    else
        *result = scope;
    return error;
}

int td_scope_leave(struct td_scope *scope)
{
    if (!scope || scope != innermost)
        return -EINVAL;
    if (--scope->entered)
        return 0;
    return leave(scope);
}
