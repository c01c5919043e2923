/* GET /metrics: what has been counted and how things are, as Prometheus reads it (text format
 * 0.0.4). Histograms, not summaries, so that instances can be added up. */
#include "api/metrics/counts.h"
#include "api/models/models.h"
#include "api/tasks/tasks.h"
#include "api/tensors/tensors.h"
#include "dispatch/choice/library.h"
#include "dispatch/choice/tune.h"
#include "kernels/trap.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct {
    const char *method, *pattern;
} routes[TD_ROUTES + 1] = {
#define TD_ROUTE(method, pattern, name, body) {#method, pattern},
#include "api/routes.def"
#undef TD_ROUTE
    {"any", "none"},
};

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

/* One of a family's histograms; label: with what follows the others, such as op="add". */
static void histogram(struct text *t, const char *name, const char *label, struct td_histogram *h)
{
    long long n = 0;
    for (int i = 0; i <= TD_BUCKETS; i++)
        n += h->bucket[i];
    if (!n)
        return;
    n = 0;
    for (int i = 0; i < TD_BUCKETS; i++) {
        n += h->bucket[i];
        line(t, "%s_bucket{%s,le=\"%g\"} %lld", name, label, (double)td_bounds_ns[i] * 1e-9, n);
    }
    n += h->bucket[TD_BUCKETS];
    line(t, "%s_bucket{%s,le=\"+Inf\"} %lld", name, label, n);
    line(t, "%s_sum{%s} %.9f", name, label, (double)h->sum_ns * 1e-9);
    line(t, "%s_count{%s} %lld", name, label, n);
}

/* The label of a route, with a buffer's end for more. */
struct label {
    char text[TD_COUNTED_NAME + 32];
};

static struct label route_label(int route)
{
    struct label label;
    snprintf(label.text, sizeof label.text, "method=\"%s\",route=\"%.*s\"", routes[route].method,
             (int)strcspn(routes[route].pattern, "?"), routes[route].pattern);
    return label;
}

static void requests(struct text *t, struct td_counts *m)
{
    family(t, "tensord_http_requests_total", "counter", "Requests answered, by route and status.");
    for (int r = 0; r <= TD_ROUTES; r++)
        for (int s = 1; s < 6; s++)
            if (m->route[r].requests[s])
                line(t, "tensord_http_requests_total{%s,code=\"%dxx\"} %lld", route_label(r).text,
                     s, (long long)m->route[r].requests[s]);
#define ROUTE_FAMILY(metric, field, help)                                                          \
    family(t, metric, "counter", help);                                                            \
    for (int r = 0; r <= TD_ROUTES; r++)                                                           \
        if (m->route[r].field)                                                                     \
            line(t, metric "{%s} %lld", route_label(r).text, (long long)m->route[r].field);
    ROUTE_FAMILY("tensord_http_request_bytes_total", in, "Bytes of requests' bodies.")
    ROUTE_FAMILY("tensord_http_response_bytes_total", out, "Bytes of responses' bodies.")
#undef ROUTE_FAMILY
    family(t, "tensord_request_duration_seconds", "histogram",
           "From a request's head to the end of its reply.");
    for (int r = 0; r <= TD_ROUTES; r++)
        histogram(t, "tensord_request_duration_seconds", route_label(r).text, &m->route[r].took);
    family(t, "tensord_problems_total", "counter", "Errors answered, by type.");
    for (int i = 0; i < TD_PROBLEMS; i++)
        line(t, "tensord_problems_total{type=\"%s\"} %lld", td_problem_types[i],
             (long long)m->problems[i]);
}

static void calls_line(struct text *t, const struct td_handle *handle, const char *kernel,
                       enum td_isa isa, long long n)
{
    if (n)
        line(t, "tensord_op_calls_total{op=\"%s\",kernel=\"%s\",isa=\"%s\"} %lld", handle->full,
             kernel, td_isa_name(isa), n);
}

/* Rows of one name and level, which take different types, are one series; a row counts for the
 * first of them. */
static void row_calls(struct text *t, const struct td_handle *handle, struct td_op_counts *m)
{
    const struct td_impl *rows = handle->op->impls, *library = NULL;
    long long n[TD_OP_ROWS] = {0};
    for (int k = 0; k < TD_OP_ROWS && rows[k].run; k++) {
        int first = 0;
        while (rows[first].isa != rows[k].isa || strcmp(rows[first].name, rows[k].name))
            first++;
        n[first] += m->row[k];
        library = !library && rows[k].library ? &rows[k] : library;
    }
    for (int k = 0; k < TD_OP_ROWS && rows[k].run; k++)
        calls_line(t, handle, rows[k].name, rows[k].isa, n[k]);
    for (enum td_isa isa = 0; isa < TD_ISAS && library; isa++)
        calls_line(t, handle, library->name, isa, m->library[isa]);
}

static void calls(struct text *t, struct td_counts *m)
{
    family(t, "tensord_op_calls_total", "counter", "Operator calls, by kernel and level.");
    for (int i = 0; i < td_registry_count(); i++) {
        row_calls(t, td_registry_at(i), &m->op[i]);
        for (enum td_isa isa = 0; isa < TD_ISAS; isa++) {
            calls_line(t, td_registry_at(i), "composite", isa, m->op[i].composite[isa]);
            calls_line(t, td_registry_at(i), "fused", isa, m->op[i].fused[isa]);
        }
    }
    family(t, "tensord_op_duration_seconds", "histogram",
           "Running the kernel of a call, by operator; whole expressions are eval.");
    for (int i = 0; i <= td_registry_count(); i++) {
        struct label label;
        snprintf(label.text, sizeof label.text, "op=\"%s\"",
                 i < td_registry_count() ? td_registry_at(i)->full : "eval");
        histogram(t, "tensord_op_duration_seconds", label.text, &m->op[i].took);
    }
}

static bool is_one_series(const struct td_trap_count *a, const struct td_trap_count *b)
{
    return a->op == b->op && a->signal == b->signal && !a->impl == !b->impl &&
           (!a->impl || (a->impl->isa == b->impl->isa && !strcmp(a->impl->name, b->impl->name)));
}

/* Rows of one name and level are one series here, too, told where the first of them is. */
static void traps(struct text *t)
{
    struct td_trap_count trap, other;
    family(t, "tensord_kernel_traps_total", "counter",
           "Kernels that the processor has stopped, by operator, kernel, level and signal.");
    for (int i = 0; td_trap_at(i, &trap); i++) {
        bool told = false;
        long long n = 0;
        for (int k = 0; td_trap_at(k, &other); k++) {
            bool same = is_one_series(&trap, &other);
            told = told || (same && k < i);
            n += same ? other.n : 0;
        }
        if (!told)
            line(t,
                 "tensord_kernel_traps_total{op=\"%.*s\",kernel=\"%s\",isa=\"%s\",signal=\"%s\"} "
                 "%lld",
                 (int)strcspn(trap.op->schema, "("), trap.op->schema,
                 trap.impl ? trap.impl->name : "check",
                 td_isa_name(trap.impl ? trap.impl->isa : TD_ISA_default), trap.signal, n);
    }
}

static void waits(struct text *t, struct td_counts *m, const struct td_metrics *metrics)
{
    static const char *const names[] = {"tensord_queue_duration_seconds",
                                        "tensord_compute_duration_seconds"};
    for (int k = 0; k < 2; k++) {
        family(t, names[k], "histogram",
               k ? "Running a kernel, by pool." : "Waiting in a pool's queue.");
        for (int i = 0; i < TD_COUNTED && *td_counts_pool(metrics, i); i++) {
            struct label label;
            snprintf(label.text, sizeof label.text, "pool=\"%s\"", td_counts_pool(metrics, i));
            histogram(t, names[k], label.text, k ? &m->compute[i] : &m->queue[i]);
        }
    }
}

static void models(struct text *t, struct td_counts *m, const struct td_service *service)
{
    family(t, "tensord_models", "gauge", "Models that the server has.");
    line(t, "tensord_models %d", td_models_count(service->models));
    family(t, "tensord_model_duration_seconds", "histogram", "Running a model, by its name.");
    for (int i = 0; i < TD_COUNTED && *td_counts_model(service->metrics, i); i++) {
        struct label label;
        snprintf(label.text, sizeof label.text, "model=\"%s\"",
                 td_counts_model(service->metrics, i));
        histogram(t, "tensord_model_duration_seconds", label.text, &m->model[i]);
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

static int count_hung(const struct td_hung *hung, int n, const char *pool, bool seats)
{
    int found = 0;
    for (int i = 0; i < n; i++)
        found += hung[i].is_seat == seats && !strcmp(hung[i].pool, pool);
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
    POOL_FAMILY("tensord_pool_queue_limit", "gauge", "Jobs that may wait.", "%d",
                stats[i].config.queue_depth)
    POOL_FAMILY("tensord_pool_threads", "gauge", "Threads of the pool.", "%d",
                stats[i].config.threads)
    POOL_FAMILY("tensord_pool_workers", "gauge", "Workers, each with its part of the threads.",
                "%d", stats[i].config.streams)
    POOL_FAMILY("tensord_pool_running_workers", "gauge", "Of these, in a job now.", "%d",
                stats[i].running)
    POOL_FAMILY("tensord_pool_hung_workers", "gauge", "In one call for longer than --watchdog-s.",
                "%d", count_hung(hung, n_hung, stats[i].config.name, false))
    POOL_FAMILY("tensord_pool_hung_http_threads", "gauge", "In one turn for as long.", "%d",
                count_hung(hung, n_hung, stats[i].config.name, true))
    POOL_FAMILY("tensord_pool_jobs_total", "counter", "Jobs done.", "%lld",
                (long long)stats[i].done)
    POOL_FAMILY("tensord_pool_rejected_total", "counter", "Jobs refused: the queue was full.",
                "%lld", (long long)stats[i].rejected)
    POOL_FAMILY("tensord_pool_late_total", "counter", "Jobs whose time was over in the queue.",
                "%lld", (long long)stats[i].late)
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
    line(t, "tensord_memory_kept_bytes %zu", td_memory_kept() + td_library_bytes());
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

static void tuning(struct text *t)
{
    struct td_tuned tuned = td_tuned();
    family(t, "tensord_tuned_kinds", "gauge", "Kinds of calls whose measurements are kept (tune).");
    line(t, "tensord_tuned_kinds %lld", (long long)tuned.kinds);
    family(t, "tensord_tuned_kinds_limit", "gauge", "The most that are.");
    line(t, "tensord_tuned_kinds_limit %lld", (long long)tuned.most);
    family(t, "tensord_tuned_total", "counter",
           "Kinds measured and evicted for others; selections by the rows' order meanwhile.");
    line(t, "tensord_tuned_total{event=\"measured\"} %lld", (long long)tuned.measured);
    line(t, "tensord_tuned_total{event=\"evicted\"} %lld", (long long)tuned.evicted);
    line(t, "tensord_tuned_total{event=\"postponed\"} %lld", (long long)tuned.postponed);
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
    struct td_counts *m = td_counts_add_up(req->service->metrics, req->arena);
    struct text t = {.arena = req->arena, .room = 16384};
    t.at = td_arena_alloc(t.arena, t.room);
    if (!t.at || !m)
        return td_api_problem(req, -ENOMEM, "no memory for the reply");
    requests(&t, m);
    calls(&t, m);
    traps(&t);
    waits(&t, m, req->service->metrics);
    models(&t, m, req->service);
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
    tuning(&t);
    process(&t);
    res->status = 200;
    res->type = "text/plain; version=0.0.4; charset=utf-8";
    res->body = t.at;
    res->size = t.length;
    return 0;
}
