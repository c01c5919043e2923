/* What changes under the pools while they work: the CPUs and the time that the process may use,
 * where its threads are, and threads that do not come back.
 *
 * A container's CPUs move when a kubelet hands them out anew or by `docker update`. The kernel then
 * moves every thread at once, wherever it was bound, and tells nobody, so one thread looks twice a
 * second, which takes it 0.4 ms. It makes affected pools anew from what they were asked to be
 * instead of moving their threads: a pool that has lost CPUs must also have fewer threads. Calls
 * that hold the old one still run there, and it ends with the last of them.
 *
 * A thread cannot be interrupted in a kernel; that it has been in one job for too long can only be
 * said. Workers, and threads with a seat, note what they are in and since when; whoever asks
 * compares with the clock. */
#include "pools/set.h"

#include "pools/machine/topology.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_NS INT64_C(500000000)

/* ---- looking ---- */

/* The pool once more, for the machine as it is now. */
static int remake(struct td_pools *pools, const struct td_pool *old, struct td_pool **pool)
{
    char problem[TD_POOL_WARNING] = "", none[TD_POOL_WARNING] = "";
    int error = td_pools_make(pools, &old->asked, pool, problem, sizeof problem);
    if (error != -EINVAL)
        return error;
    struct td_pool_config anywhere = old->asked; /* none of its CPUs is left */
    anywhere.cpus[0] = 0;
    anywhere.numa_node = -1;
    anywhere.threads = anywhere.streams = anywhere.pinned = 0;
    error = td_pools_make(pools, &anywhere, pool, none, sizeof none);
    if (!error) {
        (*pool)->asked = old->asked;
        snprintf((*pool)->warning, TD_POOL_WARNING, "%.280s; not pinned, until they are", problem);
    }
    return error;
}

static bool is_alike(const struct td_pool *a, const struct td_pool *b)
{
    return a->config.threads == b->config.threads && a->config.streams == b->config.streams &&
           a->config.pinned == b->config.pinned && td_cpus_equal(&a->cpus, &b->cpus) &&
           !strcmp(a->warning, b->warning);
}

static int look_at(struct td_pools *pools, int i)
{
    struct td_pool *old = pools->pools[i], *pool;
    int error = remake(pools, old, &pool);
    if (error)
        return error;
    if (is_alike(old, pool)) {
        td_pool_unref(pool);
        return 0;
    }
    td_pool_inherit(pool, old);
    td_pools_place(pools, i, pool);
    return 1;
}

int td_pools_look(struct td_pools *pools)
{
    pthread_mutex_lock(&pools->adding);
    int changed = td_topology_refresh(pools->topology), made = 0, error = changed < 0 ? changed : 0;
    for (int i = 0; i < pools->n && changed > 0; i++) {
        int result = look_at(pools, i);
        if (result < 0)
            error = result;
        else
            made += result;
    }
    for (int i = 0; i < pools->n; i++)
        td_pool_mend(pools->pools[i]);
    if (changed > 0)
        td_pools_reseat(pools);
    pthread_mutex_unlock(&pools->adding);
    return error ? error : made;
}

/* ---- hung threads ---- */

/* Fills hung's what and for_ns when the thread has been in that for longer than limit_ns, and for
 * longer than it may: a call that computes within its own time is long, and not hung. */
static bool is_hung(struct td_busy *busy, int64_t limit_ns, struct td_hung *hung)
{
    int64_t since = atomic_load(&busy->since_ns), for_ns = td_now_ns() - since;
    int64_t due = atomic_load(&busy->due_ns), over_ns = for_ns - (due > since ? due - since : 0);
    const char *what = atomic_load(&busy->what);
    if (!since || over_ns <= limit_ns || atomic_load(&busy->since_ns) != since)
        return false;
    hung->what = what ? what : "a job";
    hung->for_ns = for_ns;
    return true;
}

static bool is_worker_hung(struct td_worker *worker, int64_t limit_ns, struct td_hung *hung)
{
    *hung = (struct td_hung){.index = worker->index};
    snprintf(hung->pool, sizeof hung->pool, "%s", worker->pool->config.name);
    return is_hung(&worker->busy, limit_ns, hung);
}

static bool is_seat_hung(const struct td_seat *seat, int64_t limit_ns, struct td_hung *hung)
{
    *hung = (struct td_hung){.is_seat = true, .index = seat->part};
    memcpy(hung->pool, seat->pool, sizeof hung->pool);
    return is_hung(seat->busy, limit_ns, hung);
}

void td_hung_describe(const struct td_hung *hung, char *text, size_t size)
{
    snprintf(text, size, "pool %s: %s %d has been in %.80s for %lld s", hung->pool,
             hung->is_seat ? "HTTP thread" : "worker", hung->index, hung->what,
             (long long)(hung->for_ns / 1000000000));
}

int td_pools_hung(struct td_pools *pools, struct td_hung *hung, int max)
{
    struct td_pool *list[TD_MAX_POOLS];
    int64_t limit_ns = atomic_load(&pools->hung_ns);
    int n = limit_ns ? td_pools_list(pools, list, TD_MAX_POOLS) : 0, found = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < list[i]->n_workers && found < max; k++)
            found += is_worker_hung(&list[i]->workers[k], limit_ns, &hung[found]);
        td_pool_unref(list[i]);
    }
    pthread_mutex_lock(&pools->lock);
    for (int i = 0; i < pools->n_seats && limit_ns && found < max; i++)
        found += is_seat_hung(&pools->seats[i], limit_ns, &hung[found]);
    pthread_mutex_unlock(&pools->lock);
    return found;
}

/* ---- the thread ---- */

static void say_changes(struct td_pools *pools, int result, int *hung_before)
{
    struct td_hung hung;
    char text[256], who[200];
    int n_hung = td_pools_hung(pools, &hung, 1);
    if (result < 0) {
        snprintf(text, sizeof text, "a pool could not be made anew: %s", strerror(-result));
        pools->say(text);
    } else if (result > 0) {
        struct td_machine_facts facts;
        td_topology_facts(pools->topology, &facts);
        snprintf(text, sizeof text, "what this process may use has changed: CPUs %.100s; %.100s",
                 facts.allowed, facts.decision);
        pools->say(text);
    }
    if (n_hung && !*hung_before) {
        td_hung_describe(&hung, who, sizeof who);
        snprintf(text, sizeof text, "%s: not ready", who);
        pools->say(text);
    } else if (!n_hung && *hung_before) {
        pools->say("nothing hangs any more: ready");
    }
    *hung_before = n_hung;
}

static void *watch(void *arg)
{
    struct td_pools *pools = arg;
    int hung_before = 0;
    pthread_mutex_lock(&pools->lock);
    while (!pools->unwatch) {
        int64_t at = td_now_ns() + LOOK_NS;
        struct timespec until = {at / 1000000000, at % 1000000000};
        if (!pthread_cond_timedwait(&pools->enough, &pools->lock, &until))
            continue;
        pthread_mutex_unlock(&pools->lock);
        say_changes(pools, td_pools_look(pools), &hung_before);
        pthread_mutex_lock(&pools->lock);
    }
    pthread_mutex_unlock(&pools->lock);
    return NULL;
}

int td_pools_watch(struct td_pools *pools, int64_t hung_ns, void (*say)(const char *sentence))
{
    sigset_t all, before;
    sigfillset(&all);
    pools->say = say;
    atomic_store(&pools->hung_ns, hung_ns);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pools->watched = !pthread_create(&pools->watcher, NULL, watch, pools);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pools->watched)
        pthread_setname_np(pools->watcher, "td watch");
    return pools->watched ? 0 : -EAGAIN;
}

void td_pools_unwatch(struct td_pools *pools)
{
    if (pools->watched) {
        pthread_mutex_lock(&pools->lock);
        pools->unwatch = true;
        pthread_cond_signal(&pools->enough);
        pthread_mutex_unlock(&pools->lock);
        pthread_join(pools->watcher, NULL);
        pools->watched = false;
    }
    pthread_mutex_lock(&pools->adding);
    pthread_mutex_lock(&pools->lock);
    free(pools->seats);
    pools->seats = NULL;
    pools->n_seats = 0;
    pthread_mutex_unlock(&pools->lock);
    pthread_mutex_unlock(&pools->adding);
}
