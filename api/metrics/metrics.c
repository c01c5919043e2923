/* Counters and histograms. HTTP threads have counters of their own, others share some; a scrape
 * adds them up, and may see one counter a request ahead of another, which Prometheus allows.
 *
 * What they are counted by is bounded: routes, types of problems and operators are those of the
 * tables; of pools and models, which come and go, the first ones that had a call have counts of
 * their own, for as long as the service lives, and the rest one place together. */
#include "api/metrics/counts.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const int64_t td_bounds_ns[TD_BUCKETS] = {10000,     25000,     50000,      100000,
                                          250000,    1000000,   5000000,    25000000,
                                          100000000, 500000000, 2500000000, 10000000000};

const char *const td_problem_types[TD_PROBLEMS] = {
#define TD_PROBLEM(error, status, type, title) type,
#include "api/request/problems.def"
#undef TD_PROBLEM
};

#define OWN 64 /* threads that have their own counters */

struct names {
    atomic_int n;
    char name[TD_COUNTED][TD_COUNTED_NAME]; /* written once, under the lock, before n counts it */
};

struct td_metrics {
    atomic_int n_own;
    _Atomic(struct td_counts *) own[OWN]; /* of an HTTP thread each */
    struct td_counts *shared;             /* of all others */
    pthread_mutex_t lock;
    struct names pools, models;
    struct td_history *history;
};

static _Thread_local struct {
    const struct td_metrics *of;
    struct td_counts *counts; /* NULL: there were too many threads */
} mine;

static size_t counters(void)
{
    size_t ops = (size_t)td_registry_count() + 1;
    return (sizeof(struct td_counts) + ops * sizeof(struct td_op_counts)) / sizeof(atomic_llong);
}

struct td_metrics *td_metrics_create(void)
{
    struct td_metrics *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    pthread_mutex_init(&m->lock, NULL);
    m->shared = calloc(counters(), sizeof(atomic_llong));
    m->history = td_history_create(td_now_ns());
    if (!m->shared || !m->history) {
        td_metrics_destroy(m);
        return NULL;
    }
    return m;
}

void td_metrics_destroy(struct td_metrics *m)
{
    for (int i = 0; m && i < OWN; i++)
        free(m->own[i]);
    if (m) {
        free(m->shared);
        td_history_destroy(m->history);
    }
    free(m);
}

/* Gives the calling thread counters of its own, while there are. */
static void make_own(struct td_metrics *m)
{
    int i = atomic_fetch_add(&m->n_own, 1);
    mine.of = m;
    mine.counts = i < OWN ? calloc(counters(), sizeof(atomic_llong)) : NULL;
    if (mine.counts)
        atomic_store(&m->own[i], mine.counts);
}

static bool has_own(const struct td_metrics *m)
{
    return mine.of == m && mine.counts;
}

/* A thread's own counter needs no locked instruction, which is most of what counting costs. */
static void bump(atomic_llong *counter, long long n, bool own)
{
    if (own)
        atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                              memory_order_relaxed);
    else
        atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* Adds the first n counters of all threads to total, which may be NULL. */
static struct td_counts *add_up(const struct td_metrics *m, atomic_llong *total, size_t n)
{
    for (int k = -1; total && k < OWN; k++) {
        atomic_llong *part = (atomic_llong *)(k < 0 ? m->shared : m->own[k]);
        for (size_t i = 0; part && i < n; i++)
            bump(&total[i], atomic_load_explicit(&part[i], memory_order_relaxed), true);
    }
    return (struct td_counts *)total;
}

struct td_counts *td_counts_add_up(const struct td_metrics *m, struct td_arena *arena)
{
    return add_up(m, td_arena_zalloc(arena, counters() * sizeof(atomic_llong)), counters());
}

struct td_counts *td_counts_of_service(const struct td_metrics *m)
{
    return add_up(m, calloc(1, sizeof(struct td_counts)),
                  sizeof(struct td_counts) / sizeof(atomic_llong));
}

struct td_history *td_counts_history(const struct td_metrics *m)
{
    return m->history;
}

static void observe(struct td_histogram *h, int64_t ns, bool own)
{
    int i = 0;
    while (i < TD_BUCKETS && ns > td_bounds_ns[i])
        i++;
    bump(&h->bucket[i], 1, own);
    if (ns)
        bump(&h->sum_ns, ns, own);
}

static void count_problem(struct td_counts *counts, const char *type, bool own)
{
    for (int i = 0; i < TD_PROBLEMS; i++)
        if (!strcmp(td_problem_types[i], type))
            bump(&counts->problems[i], 1, own);
}

void td_metrics_request(struct td_metrics *m, int route, const struct td_request *req,
                        int64_t now_ns)
{
    const struct td_response *res = &req->response;
    td_history_look(m->history, m, now_ns);
    if (mine.of != m)
        make_own(m);
    bool own = has_own(m);
    struct td_counts *counts = own ? mine.counts : m->shared;
    struct td_route_counts *of = &counts->route[route < 0 ? TD_ROUTES : route];
    if (res->status < 600)
        bump(&of->requests[res->status / 100], 1, own);
    if (req->body_size)
        bump(&of->in, (long long)req->body_size, own);
    if (res->size && req->method != TD_HEAD)
        bump(&of->out, (long long)res->size, own);
    observe(&of->took, now_ns - req->begin_ns, own);
    if (res->problem)
        count_problem(counts, res->problem, own);
}

/* ---- calls ---- */

static const char *name_at(const struct names *names, int i)
{
    return i < atomic_load(&names->n) ? i < TD_COUNTED - 1 ? names->name[i] : "(others)" : "";
}

const char *td_counts_pool(const struct td_metrics *m, int i)
{
    return name_at(&m->pools, i);
}

const char *td_counts_model(const struct td_metrics *m, int i)
{
    return name_at(&m->models, i);
}

static int find(const struct names *names, const char *name)
{
    int i = 0, n = atomic_load_explicit(&names->n, memory_order_acquire);
    while (i < n && i < TD_COUNTED - 1 && strcmp(names->name[i], name) != 0)
        i++;
    return i;
}

static int place_of(struct td_metrics *m, struct names *names, const char *name)
{
    int i = find(names, name);
    if (i < atomic_load_explicit(&names->n, memory_order_relaxed))
        return i;
    pthread_mutex_lock(&m->lock);
    i = find(names, name); /* somebody may have been faster */
    if (i == atomic_load(&names->n)) {
        strncpy(names->name[i], name, TD_COUNTED_NAME - 1);
        atomic_store(&names->n, i + 1);
    }
    pthread_mutex_unlock(&m->lock);
    return i;
}

static void observe_pool(struct td_metrics *m, struct td_counts *counts, const char *pool,
                         int64_t queue_ns, int64_t compute_ns)
{
    int at = place_of(m, &m->pools, pool);
    observe(&counts->queue[at], queue_ns, has_own(m));
    observe(&counts->compute[at], compute_ns, has_own(m));
}

/* The counter of calls that ran as this one did, which may be a part of a whole that was computed
 * with other parts of it. */
static atomic_llong *calls_of(struct td_op_counts *counts, const struct td_run *run,
                              const struct td_run *whole)
{
    const struct td_impl *rows = run->handle->op->impls;
    const struct td_impl *impl = run->with >= 0 ? whole->impl : run->impl;
    int row = 0;
    if (impl->library)
        return &counts->library[run->isa];
    while (rows[row].run && &rows[row] != impl)
        row++;
    if (!rows[row].run)
        return &(!strcmp(impl->name, "fused") ? counts->fused
                 : !strcmp(impl->name, "jit") ? counts->jit
                                              : counts->composite)[run->isa];
    assert(row < TD_OP_ROWS);
    return &counts->row[row];
}

void td_metrics_call(struct td_metrics *m, const struct td_run *run, const char *pool,
                     int64_t queue_ns, int64_t compute_ns)
{
    const bool one = run->handle->index >= 0; /* else an expression: the calls in it */
    bool own = has_own(m);
    struct td_counts *counts = own ? mine.counts : m->shared;
    for (const struct td_run *part = one ? run : run->parts; part; part = one ? NULL : part->next) {
        bump(calls_of(&counts->op[part->handle->index], part, run), 1, own);
    }
    observe(&counts->op[one ? run->handle->index : td_registry_count()].took, compute_ns, own);
    observe_pool(m, counts, pool, queue_ns, compute_ns);
}

void td_metrics_model(struct td_metrics *m, const char *model, const char *pool, int64_t queue_ns,
                      int64_t compute_ns)
{
    bool own = has_own(m);
    struct td_counts *counts = own ? mine.counts : m->shared;
    observe(&counts->model[place_of(m, &m->models, model)], compute_ns, own);
    observe_pool(m, counts, pool, queue_ns, compute_ns);
}
