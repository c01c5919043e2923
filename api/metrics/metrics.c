/* Counters and histograms, as Prometheus reads them (text format 0.0.4). HTTP threads have
 * counters of their own, others share some; a scrape adds them up, and may see one counter a
 * request ahead of another, which Prometheus allows. Histograms, not summaries, so that instances
 * can be added up. */
#include "api/metrics/metrics.h"
#include "api/tasks/tasks.h"
#include "api/tensors/tensors.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUCKETS 12
static const int64_t bounds_ns[BUCKETS] = {10000,     25000,     50000,      100000,
                                           250000,    1000000,   5000000,    25000000,
                                           100000000, 500000000, 2500000000, 10000000000};

struct histogram {
    atomic_llong bucket[BUCKETS + 1], sum_ns;
};

static const struct {
    const char *method, *pattern;
} routes[] = {
#define TD_ROUTE(method, pattern, name) {#method, pattern},
#include "api/routes.def"
#undef TD_ROUTE
};
#define ROUTES (sizeof routes / sizeof *routes)
#define OWN 64  /* threads that have their own counters */
#define ROWS 16 /* of an operator; the last one counts calls without a row: composite ones */

struct counts {                       /* nothing but counters, so that these can be added up */
    atomic_llong requests[ROUTES][6]; /* by route and status class */
    struct histogram request, queue, compute;
    atomic_llong calls[]; /* by operator and implementation: index * ROWS + row */
};

struct td_metrics {
    atomic_int n_own;
    _Atomic(struct counts *) own[OWN]; /* of an HTTP thread each */
    struct counts *shared;             /* of all others */
};

static _Thread_local struct {
    const struct td_metrics *of;
    struct counts *counts; /* NULL: there were too many threads */
} mine;

static size_t counters(void)
{
    return offsetof(struct counts, calls) / sizeof(atomic_llong) +
           (size_t)td_registry_count() * ROWS;
}

struct td_metrics *td_metrics_create(void)
{
    struct td_metrics *m = calloc(1, sizeof *m);
    if (m && !(m->shared = calloc(counters(), sizeof(atomic_llong)))) {
        free(m);
        return NULL;
    }
    return m;
}

void td_metrics_destroy(struct td_metrics *m)
{
    for (int i = 0; m && i < OWN; i++)
        free(m->own[i]);
    if (m)
        free(m->shared);
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

/* All that has been counted; NULL: no memory. */
static struct counts *add_up(const struct td_metrics *m, struct td_arena *arena)
{
    atomic_llong *total = td_arena_zalloc(arena, counters() * sizeof *total);
    for (int k = -1; total && k < OWN; k++) {
        atomic_llong *part = (atomic_llong *)(k < 0 ? m->shared : m->own[k]);
        for (size_t i = 0; part && i < counters(); i++)
            bump(&total[i], atomic_load_explicit(&part[i], memory_order_relaxed), true);
    }
    return (struct counts *)total;
}

static void observe(struct histogram *h, int64_t ns, bool own)
{
    int i = 0;
    while (i < BUCKETS && ns > bounds_ns[i])
        i++;
    bump(&h->bucket[i], 1, own);
    if (ns)
        bump(&h->sum_ns, ns, own);
}

void td_metrics_request(struct td_metrics *m, int route, const struct td_request *req,
                        int64_t now_ns)
{
    int status = req->response.status / 100;
    if (mine.of != m)
        make_own(m);
    bool own = has_own(m);
    struct counts *counts = own ? mine.counts : m->shared;
    if (status < 6)
        bump(&counts->requests[route][status], 1, own);
    observe(&counts->request, now_ns - req->begin_ns, own);
}

static int row_of(const struct td_op *op, const struct td_impl *impl)
{
    int row = 0;
    while (row < ROWS - 1 && op->impls[row].run && &op->impls[row] != impl)
        row++;
    return op->impls[row].run ? row : ROWS - 1;
}

void td_metrics_call(struct td_metrics *m, const struct td_run *run, int64_t queue_ns,
                     int64_t compute_ns)
{
    const bool one = run->handle->index >= 0; /* else an expression: the calls in it */
    bool own = has_own(m);
    struct counts *counts = own ? mine.counts : m->shared;
    for (const struct td_run *part = one ? run : run->parts; part; part = one ? NULL : part->next)
        bump(&counts->calls[part->handle->index * ROWS + row_of(part->handle->op, part->impl)], 1,
             own);
    observe(&counts->queue, queue_ns, own);
    observe(&counts->compute, compute_ns, own);
}

/* ---- the text ---- */

struct text {
    struct td_arena *arena;
    char *at;
    size_t length, room;
};

static void __attribute__((format(printf, 2, 3))) line(struct text *t, const char *format, ...)
{
    if (t->room - t->length < 512) {
        char *more = td_arena_alloc(t->arena, 2 * t->room);
        if (!more)
            return;
        t->at = memcpy(more, t->at, t->length);
        t->room *= 2;
    }
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->at + t->length, 511, format, args);
    va_end(args);
    t->length += (size_t)(n < 510 ? n : 510);
    t->at[t->length++] = '\n';
}

static void family(struct text *t, const char *name, const char *type, const char *help)
{
    line(t, "# HELP %s %s", name, help);
    line(t, "# TYPE %s %s", name, type);
}

static void histogram(struct text *t, const char *name, const char *help, struct histogram *h)
{
    long long n = 0;
    family(t, name, "histogram", help);
    for (int i = 0; i < BUCKETS; i++) {
        n += h->bucket[i];
        line(t, "%s_bucket{le=\"%g\"} %lld", name, (double)bounds_ns[i] * 1e-9, n);
    }
    n += h->bucket[BUCKETS];
    line(t, "%s_bucket{le=\"+Inf\"} %lld", name, n);
    line(t, "%s_sum %.9f", name, (double)h->sum_ns * 1e-9);
    line(t, "%s_count %lld", name, n);
}

static void requests(struct text *t, struct counts *m)
{
    family(t, "tensord_http_requests_total", "counter", "Requests answered, by route and status.");
    for (size_t r = 0; r < ROUTES; r++)
        for (int s = 1; s < 6; s++)
            if (m->requests[r][s])
                line(t,
                     "tensord_http_requests_total{method=\"%s\",route=\"%.*s\",code=\"%dxx\"} %lld",
                     routes[r].method, (int)strcspn(routes[r].pattern, "?"), routes[r].pattern, s,
                     (long long)m->requests[r][s]);
}

static void calls(struct text *t, struct counts *m)
{
    static const struct td_impl composite = {.name = "composite"};
    family(t, "tensord_op_calls_total", "counter", "Operator calls, by kernel and level.");
    for (int i = 0; i < td_registry_count(); i++) {
        const struct td_handle *handle = td_registry_at(i);
        for (int k = 0; k < ROWS; k++) {
            long long n = m->calls[i * ROWS + k];
            if (!n)
                continue;
            const struct td_impl *impl = k < ROWS - 1 ? &handle->op->impls[k] : &composite;
            line(t, "tensord_op_calls_total{op=\"%s\",kernel=\"%s\",isa=\"%s\"} %lld", handle->full,
                 impl->name, td_isa_name(td_impl_isa(impl)), n);
        }
    }
}

static void texts(struct text *t, struct td_json_cache *cache)
{
    long long hits, misses;
    td_json_cache_counts(cache, &hits, &misses);
    family(t, "tensord_json_texts_total", "counter",
           "JSON of calls, up to 2 KiB, by whether the same text had come before.");
    line(t, "tensord_json_texts_total{known=\"yes\"} %lld", hits);
    line(t, "tensord_json_texts_total{known=\"no\"} %lld", misses);
}

static int count_hung(const struct td_hung *hung, int n, const char *pool)
{
    int found = 0;
    for (int i = 0; i < n; i++)
        found += !hung[i].is_seat && !strcmp(hung[i].pool, pool);
    return found;
}

static void pools(struct text *t, struct td_pools *set)
{
    struct td_hung hung[64];
    int n_hung = td_pools_hung(set, hung, 64);
    struct td_pool *list[TD_MAX_POOLS];
    struct td_pool_stats stats[TD_MAX_POOLS];
    int n = td_pools_list(set, list, TD_MAX_POOLS);
    for (int i = 0; i < n; i++) {
        td_pool_stats(list[i], &stats[i]);
        td_pool_unref(list[i]);
    }
#define POOL_FAMILY(metric, type, help, format, value)                                             \
    family(t, metric, type, help);                                                                 \
    for (int i = 0; i < n; i++)                                                                    \
        line(t, metric "{pool=\"%s\"} " format, stats[i].config.name, value);
    POOL_FAMILY("tensord_pool_queue_depth", "gauge", "Jobs waiting.", "%d", stats[i].depth)
    POOL_FAMILY("tensord_pool_threads", "gauge", "Threads of the pool.", "%d",
                stats[i].config.threads)
    POOL_FAMILY("tensord_pool_hung_workers", "gauge", "In one call for longer than --watchdog-s.",
                "%d", count_hung(hung, n_hung, stats[i].config.name))
    POOL_FAMILY("tensord_pool_jobs_total", "counter", "Jobs done.", "%lld",
                (long long)stats[i].done)
    POOL_FAMILY("tensord_pool_rejected_total", "counter", "Jobs refused: the queue was full.",
                "%lld", (long long)stats[i].rejected)
    POOL_FAMILY("tensord_pool_busy_seconds_total", "counter", "Time spent in jobs.", "%.6f",
                (double)stats[i].busy_ns * 1e-9)
#undef POOL_FAMILY
}

static void tasks(struct text *t, struct td_task_table *table)
{
    struct td_task_stats s;
    td_task_table_stats(table, &s);
    family(t, "tensord_tasks", "gauge", "Tasks that wait, run, or are done and kept.");
    line(t, "tensord_tasks{state=\"queued\"} %d", s.queued);
    line(t, "tensord_tasks{state=\"running\"} %d", s.running);
    line(t, "tensord_tasks{state=\"done\"} %d", s.results);
    family(t, "tensord_task_memory_bytes", "gauge",
           "What results of tasks hold or may come to (task-bytes).");
    line(t, "tensord_task_memory_bytes %zu", s.bytes);
    family(t, "tensord_tasks_total", "counter", "What has become of tasks.");
    line(t, "tensord_tasks_total{event=\"accepted\"} %lld", (long long)s.accepted);
    line(t, "tensord_tasks_total{event=\"done\"} %lld", (long long)s.done);
    line(t, "tensord_tasks_total{event=\"cancelled\"} %lld", (long long)s.cancelled);
    line(t, "tensord_tasks_total{event=\"expired\"} %lld", (long long)s.expired);
    line(t, "tensord_tasks_total{event=\"refused\"} %lld", (long long)s.refused);
}

static void memory(struct text *t, const struct td_budget *store)
{
    family(t, "tensord_memory_bytes", "gauge",
           "What requests, tasks and stored tensors hold, and what is kept for the next ones.");
    line(t, "tensord_memory_bytes %zu", (size_t)td_memory.used);
    family(t, "tensord_memory_kept_bytes", "gauge", "Of these, kept for the next requests.");
    line(t, "tensord_memory_kept_bytes %zu", td_memory_kept());
    family(t, "tensord_memory_most_bytes", "gauge", "The most that was held since the start.");
    line(t, "tensord_memory_most_bytes %zu", (size_t)td_memory.most);
    family(t, "tensord_memory_limit_bytes", "gauge", "The most that may be held (memory).");
    line(t, "tensord_memory_limit_bytes %zu", (size_t)td_memory.limit);
    family(t, "tensord_memory_refused_total", "counter", "Allocations refused: it was all in use.");
    line(t, "tensord_memory_refused_total %zu", (size_t)td_memory.refused);
    family(t, "tensord_store_bytes", "gauge", "What of it stored tensors hold, with their forms.");
    line(t, "tensord_store_bytes %zu", (size_t)store->used);
    family(t, "tensord_store_limit_bytes", "gauge", "The most that these may hold (store-bytes).");
    line(t, "tensord_store_limit_bytes %zu", (size_t)store->limit);
    family(t, "tensord_store_refused_total", "counter",
           "Tensors and forms of tensors that the store had no room for.");
    line(t, "tensord_store_refused_total %zu", (size_t)store->refused);
}

static void process(struct text *t)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    struct timespec cpu = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    family(t, "process_cpu_seconds_total", "counter", "CPU time spent, of user and system.");
    line(t, "process_cpu_seconds_total %lld.%06ld", (long long)cpu.tv_sec, cpu.tv_nsec / 1000);
    family(t, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.");
    line(t, "process_resident_memory_bytes %lld", (long long)resident * sysconf(_SC_PAGESIZE));
    family(t, "tensord_build_info", "gauge", "Version and ISA level; always 1.");
    line(t, "tensord_build_info{version=\"" TD_VERSION "\",isa=\"%s\",onednn=\"%s\"} 1",
         td_isa_name(td_cpu()->current), td_onednn_version());
}

int td_api_metrics_get(struct td_request *req, struct td_response *res)
{
    struct counts *m = add_up(req->service->metrics, req->arena);
    struct text t = {.arena = req->arena, .room = 16384};
    t.at = td_arena_alloc(t.arena, t.room);
    if (!t.at || !m)
        return td_api_problem(req, -ENOMEM, "no memory for the reply");
    requests(&t, m);
    histogram(&t, "tensord_request_duration_seconds", "From a request's head to its reply.",
              &m->request);
    histogram(&t, "tensord_queue_duration_seconds", "Waiting in a pool's queue.", &m->queue);
    histogram(&t, "tensord_compute_duration_seconds", "Running a kernel.", &m->compute);
    calls(&t, m);
    texts(&t, req->service->json_cache);
    pools(&t, req->service->pools);
    family(&t, "tensord_requests_in_flight", "gauge", "Requests begun and not answered yet.");
    line(&t, "tensord_requests_in_flight %d", (int)req->service->front.in_flight);
    family(&t, "tensord_io_waits_total", "counter",
           "Waits of HTTP threads for requests, by what they did when one came.");
    line(&t, "tensord_io_waits_total{how=\"poll\"} %llu",
         (unsigned long long)req->service->front.io_polls);
    line(&t, "tensord_io_waits_total{how=\"sleep\"} %llu",
         (unsigned long long)req->service->front.io_sleeps);
    family(&t, "tensord_log_dropped_total", "counter",
           "Requests that the log has left out for their number, and lines that nobody took.");
    line(&t, "tensord_log_dropped_total{why=\"rate\"} %llu",
         (unsigned long long)req->service->front.log_skipped);
    line(&t, "tensord_log_dropped_total{why=\"reader\"} %llu",
         (unsigned long long)req->service->front.log_lost);
    tasks(&t, req->service->tasks);
    memory(&t, td_tensors_budget(req->service->tensors));
    process(&t);
    res->status = 200;
    res->type = "text/plain; version=0.0.4; charset=utf-8";
    res->body = t.at;
    res->size = t.length;
    return 0;
}
