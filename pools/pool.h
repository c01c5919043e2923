/* One pool from the inside; inside pools/ only. */
#ifndef TD_POOL_H
#define TD_POOL_H

#include "pools/pools.h"
#include "pools/ring.h"
#include "pools/team.h"

#include <semaphore.h>

#define TD_PRIORITIES 7 /* classes, for priorities -3..3 */

struct td_worker {
    struct td_pool *pool;
    int index;
    int numa_node; /* of its CPUs; -1: of several, or there is one only */
    struct td_team team;
    struct td_future *waits_for; /* without a time limit; with walk guarded by future.c */
    uint64_t walk;
    _Alignas(64) atomic_llong done, busy_ns; /* written by the worker only, as is busy */
    struct td_busy busy;
    int64_t idle_ns; /* how long it has lately been without work between two jobs; see pool.c */
};

struct td_pool {
    struct td_pool_config config, asked; /* as effective, and as asked for */
    char warning[TD_POOL_WARNING];
    struct td_cpus cpus;
    enum td_binding binding; /* of all its workers */
    atomic_int *alive;       /* workers of all pools, borrowed; slept on until there are none */
    atomic_int users; /* references of callers and of the set: the pool stops when they are gone */
    atomic_int holds; /* workers alive, and one for all users: the memory goes when they are gone */
    sem_t started;
    struct td_ring rings[TD_PRIORITIES]; /* most urgent first */
    _Alignas(64) atomic_int waiting;     /* jobs from before their put until after their take */
    _Alignas(64) atomic_int idle;        /* workers asleep whom nobody is waking yet */
    atomic_int tokens;                   /* wake-ups given and not yet used; slept on */
    atomic_llong trimmed_ns;             /* when kept memory was last looked at */
    atomic_bool stopping;
    _Alignas(64) atomic_int running;
    atomic_llong rejected, late;
    int n_workers;
    struct td_worker workers[];
};

/* Starts a pool of config.streams workers on cpus (taken over; shares are cut in their order).
 * asked: what config was made from. -ENOMEM, -EAGAIN. */
int td_pool_create(struct td_pool **pool, atomic_int *alive, const struct td_topology *topology,
                   const struct td_pool_config *config, const struct td_pool_config *asked,
                   struct td_cpus *cpus, const char *warning);
void td_pool_ref(struct td_pool *pool);
/* Lets the workers leave once what is queued has run; refuses further jobs. Does not wait. */
void td_pool_stop(struct td_pool *pool);

struct td_worker *td_worker_current(void); /* NULL on a thread that is no worker */

/* Takes over what the pool before it has counted. */
void td_pool_inherit(struct td_pool *pool, const struct td_pool *before);
/* Binds members anew that are not where they belong; true if there were any. Any thread. */
bool td_pool_mend(struct td_pool *pool);

/* config.c */
/* Checks config against the machine, fills in its counts and its CPUs (text and list). 0, perhaps
 * with a warning in problem, or -EINVAL, -ENOMEM with the sentence there. */
int td_pool_config_resolve(struct td_pool_config *config, const struct td_topology *topology,
                           const struct td_cpus *io, struct td_cpus *cpus, char *problem,
                           size_t problem_size);

#endif
