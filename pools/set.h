/* The set of pools from the inside: what set.c and watch.c share. */
#ifndef TD_SET_H
#define TD_SET_H

#include "pools/pool.h"

#include <pthread.h>

struct td_seat { /* a thread that is no worker, on the first CPU of a part of a pool's */
    pid_t tid;
    int part, parts;
    char pool[TD_POOL_NAME];
    struct td_busy *busy; /* borrowed */
};

struct td_pools {
    struct td_topology *topology;
    pthread_mutex_t lock, adding;
    struct td_cpus io;     /* CPUs of threads that serve HTTP; guarded by adding */
    struct td_seat *seats; /* read with adding or lock held, changed with both, as n_seats */
    int n_seats;
    atomic_int alive; /* workers */
    int n;
    struct td_pool *pools[TD_MAX_POOLS]; /* the default one first; each holds a reference */
    /* The thread of watch.c, if there is one; lock guards these but hung_ns. */
    pthread_t watcher;
    bool watched, unwatch;
    pthread_cond_t enough; /* unwatch has been set */
    void (*say)(const char *sentence);
    atomic_llong hung_ns;
};

/* With adding held: the pool for asked; in problem what is otherwise, or why there is none. As
 * td_pools_add. */
int td_pools_make(struct td_pools *pools, const struct td_pool_config *asked, struct td_pool **pool,
                  char *problem, size_t problem_size);
/* With adding held: puts the pool at a place of the list; what was there runs out. */
void td_pools_place(struct td_pools *pools, int i, struct td_pool *pool);
/* With adding held: threads that sit on a pool's CPUs follow it. */
void td_pools_reseat(struct td_pools *pools);

#endif
