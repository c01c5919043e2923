/* GET /metrics: what has been counted and how things are, as Prometheus reads it (text format
 * 0.0.4). Histograms, not summaries, so that instances can be added up. */
#include "api/metrics/text.h"
#include "dispatch/graph/cache.h"
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
#define TD_ROUTE(method, pattern, name, body, scope) {#method, pattern},
#include "api/routes.def"
#undef TD_ROUTE
    {"any", "none"},
};

void td_text_line(struct td_text *t, const char *format, ...)
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

void td_text_family(struct td_text *t, const char *name, const char *type, const char *help)
{
    td_text_line(t, "# HELP %s %s", name, help);
    td_text_line(t, "# TYPE %s %s", name, type);
}

/* One of a family's histograms; label: with what follows the others, such as op="add". */
void td_text_histogram(struct td_text *t, const char *name, const char *label,
                       struct td_histogram *h)
{
    long long n = 0;
    for (int i = 0; i <= TD_BUCKETS; i++)
        n += h->bucket[i];
    if (!n)
        return;
    n = 0;
    for (int i = 0; i < TD_BUCKETS; i++) {
        n += h->bucket[i];
        td_text_line(t, "%s_bucket{%s,le=\"%g\"} %lld", name, label, (double)td_bounds_ns[i] * 1e-9,
                     n);
    }
    n += h->bucket[TD_BUCKETS];
    td_text_line(t, "%s_bucket{%s,le=\"+Inf\"} %lld", name, label, n);
    td_text_line(t, "%s_sum{%s} %.9f", name, label, (double)h->sum_ns * 1e-9);
    td_text_line(t, "%s_count{%s} %lld", name, label, n);
}

/* The label of a route, with a buffer's end for more. */
static struct td_label route_label(int route)
{
    struct td_label label;
    snprintf(label.text, sizeof label.text, "method=\"%s\",route=\"%.*s\"", routes[route].method,
             (int)strcspn(routes[route].pattern, "?"), routes[route].pattern);
    return label;
}

static void requests(struct td_text *t, struct td_counts *m)
{
    td_text_family(t, "tensord_http_requests_total", "counter",
                   "Requests answered, by route and status.");
    for (int r = 0; r <= TD_ROUTES; r++)
        for (int s = 1; s < 6; s++)
            if (m->route[r].requests[s])
                td_text_line(t, "tensord_http_requests_total{%s,code=\"%dxx\"} %lld",
                             route_label(r).text, s, (long long)m->route[r].requests[s]);
#define ROUTE_FAMILY(metric, field, help)                                                          \
    td_text_family(t, metric, "counter", help);                                                    \
    for (int r = 0; r <= TD_ROUTES; r++)                                                           \
        if (m->route[r].field)                                                                     \
            td_text_line(t, metric "{%s} %lld", route_label(r).text, (long long)m->route[r].field);
    ROUTE_FAMILY("tensord_http_request_bytes_total", in, "Bytes of requests' bodies.")
    ROUTE_FAMILY("tensord_http_response_bytes_total", out, "Bytes of responses' bodies.")
#undef ROUTE_FAMILY
    td_text_family(t, "tensord_request_duration_seconds", "histogram",
                   "From a request's head to the end of its reply.");
    for (int r = 0; r <= TD_ROUTES; r++)
        td_text_histogram(t, "tensord_request_duration_seconds", route_label(r).text,
                          &m->route[r].took);
    td_text_family(t, "tensord_problems_total", "counter", "Errors answered, by type.");
    for (int i = 0; i < TD_PROBLEMS; i++)
        td_text_line(t, "tensord_problems_total{type=\"%s\"} %lld", td_problem_types[i],
                     (long long)m->problems[i]);
}

static void calls_line(struct td_text *t, const struct td_handle *handle, const char *kernel,
                       enum td_isa isa, long long n)
{
    if (n)
        td_text_line(t, "tensord_op_calls_total{op=\"%s\",kernel=\"%s\",isa=\"%s\"} %lld",
                     handle->full, kernel, td_isa_name(isa), n);
}

/* Rows of one name and level, which take different types, are one series; a row counts for the
 * first of them. */
static void row_calls(struct td_text *t, const struct td_handle *handle, struct td_op_counts *m)
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

static void calls(struct td_text *t, struct td_counts *m)
{
    td_text_family(t, "tensord_op_calls_total", "counter", "Operator calls, by kernel and level.");
    for (int i = 0; i < td_registry_count(); i++) {
        row_calls(t, td_registry_at(i), &m->op[i]);
        for (enum td_isa isa = 0; isa < TD_ISAS; isa++) {
            calls_line(t, td_registry_at(i), "composite", isa, m->op[i].composite[isa]);
            calls_line(t, td_registry_at(i), "fused", isa, m->op[i].fused[isa]);
            calls_line(t, td_registry_at(i), "jit", isa, m->op[i].jit[isa]);
        }
    }
    td_text_family(t, "tensord_op_duration_seconds", "histogram",
                   "Running the kernel of a call, by operator; whole expressions are eval.");
    for (int i = 0; i <= td_registry_count(); i++) {
        struct td_label label;
        snprintf(label.text, sizeof label.text, "op=\"%s\"",
                 i < td_registry_count() ? td_registry_at(i)->full : "eval");
        td_text_histogram(t, "tensord_op_duration_seconds", label.text, &m->op[i].took);
    }
}

static bool is_one_series(const struct td_trap_count *a, const struct td_trap_count *b)
{
    return a->op == b->op && a->signal == b->signal && !a->impl == !b->impl &&
           (!a->impl || (a->impl->isa == b->impl->isa && !strcmp(a->impl->name, b->impl->name)));
}

/* Rows of one name and level are one series here, too, told where the first of them is. */
static void traps(struct td_text *t)
{
    struct td_trap_count trap, other;
    td_text_family(
        t, "tensord_kernel_traps_total", "counter",
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
            td_text_line(
                t,
                "tensord_kernel_traps_total{op=\"%.*s\",kernel=\"%s\",isa=\"%s\",signal=\"%s\"} "
                "%lld",
                (int)strcspn(trap.op->schema, "("), trap.op->schema,
                trap.impl ? trap.impl->name : "check",
                td_isa_name(trap.impl ? trap.impl->isa : TD_ISA_default), trap.signal, n);
    }
}

static void waits(struct td_text *t, struct td_counts *m, const struct td_metrics *metrics)
{
    static const char *const names[] = {"tensord_queue_duration_seconds",
                                        "tensord_compute_duration_seconds"};
    for (int k = 0; k < 2; k++) {
        td_text_family(t, names[k], "histogram",
                       k ? "Running a kernel, by pool." : "Waiting in a pool's queue.");
        for (int i = 0; i < TD_COUNTED && *td_counts_pool(metrics, i); i++) {
            struct td_label label;
            snprintf(label.text, sizeof label.text, "pool=\"%s\"", td_counts_pool(metrics, i));
            td_text_histogram(t, names[k], label.text, k ? &m->compute[i] : &m->queue[i]);
        }
    }
}

static void texts(struct td_text *t, struct td_json_cache *cache)
{
    long long hits, misses;
    td_json_cache_counts(cache, &hits, &misses);
    td_text_family(t, "tensord_json_texts_total", "counter",
                   "JSON of calls, up to 2 KiB, by whether the same text had come before.");
    td_text_line(t, "tensord_json_texts_total{known=\"yes\"} %lld", hits);
    td_text_line(t, "tensord_json_texts_total{known=\"no\"} %lld", misses);
}

static void expressions(struct td_text *t)
{
    struct td_expr_counts counts = td_expr_count();
    td_text_family(t, "tensord_expressions_total", "counter",
                   "Expressions of /v1/eval: found bound, bound anew, evicted from the cache.");
    td_text_line(t, "tensord_expressions_total{event=\"hit\"} %lld", counts.hits);
    td_text_line(t, "tensord_expressions_total{event=\"miss\"} %lld", counts.misses);
    td_text_line(t, "tensord_expressions_total{event=\"evicted\"} %lld", counts.evicted);
}

static int count_hung(const struct td_hung *hung, int n, const char *pool, bool seats)
{
    int found = 0;
    for (int i = 0; i < n; i++)
        found += hung[i].is_seat == seats && !strcmp(hung[i].pool, pool);
    return found;
}

static void pools(struct td_text *t, struct td_pools *set)
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
    td_text_family(t, metric, type, help);                                                         \
    for (int i = 0; i < n; i++)                                                                    \
        td_text_line(t, metric "{pool=\"%s\"} " format, stats[i].config.name, value);
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

static void process(struct td_text *t)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    struct timespec cpu = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    td_text_family(t, "process_cpu_seconds_total", "counter",
                   "CPU time spent, of user and system.");
    td_text_line(t, "process_cpu_seconds_total %lld.%06ld", (long long)cpu.tv_sec,
                 cpu.tv_nsec / 1000);
    td_text_family(t, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.");
    td_text_line(t, "process_resident_memory_bytes %lld",
                 (long long)resident * sysconf(_SC_PAGESIZE));
    td_text_family(t, "tensord_build_info", "gauge", "Version and ISA level; always 1.");
    td_text_line(t, "tensord_build_info{version=\"" TD_VERSION "\",isa=\"%s\",onednn=\"%s\"} 1",
                 td_isa_name(td_cpu()->current), td_onednn_version());
}

int td_api_metrics_get(struct td_request *req, struct td_response *res)
{
    struct td_counts *m = td_counts_add_up(req->service->metrics, req->arena);
    struct td_text t = {.arena = req->arena, .room = 16384};
    t.at = td_arena_alloc(t.arena, t.room);
    if (!t.at || !m)
        return td_api_problem(req, -ENOMEM, "no memory for the reply");
    requests(&t, m);
    calls(&t, m);
    traps(&t);
    waits(&t, m, req->service->metrics);
    td_text_models(&t, m, req->service);
    texts(&t, req->service->json_cache);
    expressions(&t);
    pools(&t, req->service->pools);
    td_text_family(&t, "tensord_requests_in_flight", "gauge",
                   "Requests begun and not answered yet.");
    td_text_line(&t, "tensord_requests_in_flight %d", (int)req->service->front.in_flight);
    td_text_family(&t, "tensord_io_waits_total", "counter",
                   "Waits of HTTP threads for requests, by what they did when one came.");
    td_text_line(&t, "tensord_io_waits_total{how=\"poll\"} %llu",
                 (unsigned long long)req->service->front.io_polls);
    td_text_line(&t, "tensord_io_waits_total{how=\"sleep\"} %llu",
                 (unsigned long long)req->service->front.io_sleeps);
    td_text_family(
        &t, "tensord_log_dropped_total", "counter",
        "Requests that the log has left out for their number, and lines that nobody took.");
    td_text_line(&t, "tensord_log_dropped_total{why=\"rate\"} %llu",
                 (unsigned long long)req->service->front.log_skipped);
    td_text_line(&t, "tensord_log_dropped_total{why=\"reader\"} %llu",
                 (unsigned long long)req->service->front.log_lost);
    td_text_stores(&t, req->service);
    process(&t);
    res->status = 200;
    res->type = "text/plain; version=0.0.4; charset=utf-8";
    res->body = t.at;
    res->size = t.length;
    return 0;
}
