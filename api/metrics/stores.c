/* What is kept in the server, as Prometheus reads it: models, sessions, tasks, memory. */
#include "api/access/access.h"
#include "api/metrics/text.h"
#include "api/models/models.h"
#include "api/sessions/sessions.h"
#include "api/tasks/tasks.h"
#include "api/tensors/tensors.h"
#include "dispatch/choice/library.h"
#include "dispatch/choice/tune.h"
#include "dispatch/graph/cache.h"
#include "kernels/jit/code.h"
#include "kernels/weight.h"

#include <stdio.h>

static void models(struct td_text *t, struct td_counts *m, const struct td_service *service)
{
    td_text_family(t, "tensord_models", "gauge", "Models that the server has.");
    td_text_line(t, "tensord_models %d", td_models_count(service->models));
    td_text_family(t, "tensord_model_duration_seconds", "histogram",
                   "Running a model, by its name.");
    for (int i = 0; i < TD_COUNTED && *td_counts_model(service->metrics, i); i++) {
        struct td_label label;
        snprintf(label.text, sizeof label.text, "model=\"%s\"",
                 td_counts_model(service->metrics, i));
        td_text_histogram(t, "tensord_model_duration_seconds", label.text, &m->model[i]);
    }
}

static void sessions(struct td_text *t, struct td_sessions *sessions)
{
    static const char *const ends[TD_SESSION_ENDS] = {"end", "idle", "oldest", "model"};
    struct td_session_stats stats;
    struct td_session_group *group;
    int n = td_sessions_groups(sessions, t->arena, &group);
    td_sessions_stats(sessions, &stats);
    td_text_family(t, "tensord_sessions", "gauge", "Sessions, by the model that they are of.");
    for (int i = 0; i < n; i++)
        td_text_line(t, "tensord_sessions{model=\"%s\"} %d", group[i].model, group[i].n);
    td_text_family(t, "tensord_session_bytes", "gauge", "What they hold.");
    for (int i = 0; i < n; i++)
        td_text_line(t, "tensord_session_bytes{model=\"%s\"} %zu", group[i].model, group[i].bytes);
    td_text_family(t, "tensord_session_limit_bytes", "gauge",
                   "The most they may hold (session-bytes).");
    td_text_line(t, "tensord_session_limit_bytes %zu", stats.limit);
    td_text_family(t, "tensord_session_steps_total", "counter",
                   "Calls that a session goes on from.");
    td_text_line(t, "tensord_session_steps_total %lld", stats.steps);
    td_text_family(t, "tensord_sessions_ended_total", "counter",
                   "Sessions that are no more, by the reason.");
    for (int i = 0; i < TD_SESSION_ENDS; i++)
        td_text_line(t, "tensord_sessions_ended_total{reason=\"%s\"} %lld", ends[i],
                     stats.ended[i]);
    td_text_family(t, "tensord_session_conflicts_total", "counter",
                   "Calls refused: another was at their session.");
    td_text_line(t, "tensord_session_conflicts_total %lld", stats.conflicts);
}

static void tasks(struct td_text *t, struct td_task_table *table)
{
    struct td_task_stats s;
    td_task_table_stats(table, &s);
    td_text_family(t, "tensord_tasks", "gauge", "Tasks that wait, run, or are done and kept.");
    td_text_line(t, "tensord_tasks{state=\"queued\"} %d", s.queued);
    td_text_line(t, "tensord_tasks{state=\"running\"} %d", s.running);
    td_text_line(t, "tensord_tasks{state=\"done\"} %d", s.results);
    td_text_family(t, "tensord_task_memory_bytes", "gauge",
                   "What results of tasks hold or may come to (task-bytes).");
    td_text_line(t, "tensord_task_memory_bytes %zu", s.bytes);
    td_text_family(t, "tensord_tasks_total", "counter", "What has become of tasks.");
    td_text_line(t, "tensord_tasks_total{event=\"accepted\"} %lld", (long long)s.accepted);
    td_text_line(t, "tensord_tasks_total{event=\"done\"} %lld", (long long)s.done);
    td_text_line(t, "tensord_tasks_total{event=\"cancelled\"} %lld", (long long)s.cancelled);
    td_text_line(t, "tensord_tasks_total{event=\"expired\"} %lld", (long long)s.expired);
    td_text_line(t, "tensord_tasks_total{event=\"refused\"} %lld", (long long)s.refused);
}

static void memory(struct td_text *t, const struct td_budget *store)
{
    td_text_family(
        t, "tensord_memory_bytes", "gauge",
        "What requests, tasks and stored tensors hold, and what is kept for the next ones.");
    td_text_line(t, "tensord_memory_bytes %zu", (size_t)td_memory.used);
    td_text_family(t, "tensord_memory_kept_bytes", "gauge",
                   "Of these, kept for the next requests.");
    td_text_line(t, "tensord_memory_kept_bytes %zu",
                 td_memory_kept() + td_library_bytes() + td_expr_count().bytes);
    td_text_family(t, "tensord_memory_most_bytes", "gauge",
                   "The most that was held since the start.");
    td_text_line(t, "tensord_memory_most_bytes %zu", (size_t)td_memory.most);
    td_text_family(t, "tensord_memory_limit_bytes", "gauge", "The most that may be held (memory).");
    td_text_line(t, "tensord_memory_limit_bytes %zu", (size_t)td_memory.limit);
    td_text_family(t, "tensord_memory_refused_total", "counter",
                   "Allocations refused: it was all in use.");
    td_text_line(t, "tensord_memory_refused_total %zu", (size_t)td_memory.refused);
    td_text_family(t, "tensord_store_bytes", "gauge",
                   "What of it stored tensors hold, with their forms.");
    td_text_line(t, "tensord_store_bytes %zu", (size_t)store->used);
    td_text_family(t, "tensord_store_limit_bytes", "gauge",
                   "The most that these may hold (store-bytes).");
    td_text_line(t, "tensord_store_limit_bytes %zu", (size_t)store->limit);
    td_text_family(t, "tensord_store_refused_total", "counter",
                   "Tensors and forms of tensors that the store had no room for.");
    td_text_line(t, "tensord_store_refused_total %zu", (size_t)store->refused);
}

static void forms(struct td_text *t)
{
    struct td_packed all = td_packed();
    td_text_family(t, "tensord_packed_bytes", "gauge",
                   "What forms of stored tensors and models' constants hold that are packed for "
                   "kernels (weight-prepack).");
    td_text_line(t, "tensord_packed_bytes %lld", all.bytes);
    td_text_family(
        t, "tensord_packed_total", "counter",
        "Forms packed: a tensor's first one, and further ones for calls of other kinds.");
    td_text_line(t, "tensord_packed_total{form=\"first\"} %lld", all.first);
    td_text_line(t, "tensord_packed_total{form=\"further\"} %lld", all.further);
}

static void tuning(struct td_text *t)
{
    struct td_tuned tuned = td_tuned();
    td_text_family(t, "tensord_tuned_kinds", "gauge",
                   "Kinds of calls whose measurements are kept (tune).");
    td_text_line(t, "tensord_tuned_kinds %lld", (long long)tuned.kinds);
    td_text_family(t, "tensord_tuned_kinds_limit", "gauge", "The most that are.");
    td_text_line(t, "tensord_tuned_kinds_limit %lld", (long long)tuned.most);
    td_text_family(
        t, "tensord_tuned_total", "counter",
        "Kinds measured and evicted for others; selections by the rows' order meanwhile.");
    td_text_line(t, "tensord_tuned_total{event=\"measured\"} %lld", (long long)tuned.measured);
    td_text_line(t, "tensord_tuned_total{event=\"evicted\"} %lld", (long long)tuned.evicted);
    td_text_line(t, "tensord_tuned_total{event=\"postponed\"} %lld", (long long)tuned.postponed);
}

static void loops(struct td_text *t)
{
    struct td_loops all = td_loops();
    td_text_family(
        t, "tensord_generated_loops", "gauge",
        "Patterns of pointwise calls whose generated loop is kept, or why there is none.");
    td_text_line(t, "tensord_generated_loops %d", all.kept);
    td_text_family(t, "tensord_generated_loops_limit", "gauge", "The most that are.");
    td_text_line(t, "tensord_generated_loops_limit %d", TD_LOOP_KEPT);
    td_text_family(t, "tensord_generated_code_bytes", "gauge", "Instructions of these loops.");
    td_text_line(t, "tensord_generated_code_bytes %zu", all.bytes);
    td_text_family(t, "tensord_generated_total", "counter",
                   "Loops made; patterns that can have none; runs by rows since no more are kept.");
    td_text_line(t, "tensord_generated_total{event=\"made\"} %lld", all.made);
    td_text_line(t, "tensord_generated_total{event=\"none\"} %lld", all.none);
    td_text_line(t, "tensord_generated_total{event=\"full\"} %lld", all.full);
    td_text_family(
        t, "tensord_not_generated_total", "counter",
        "Pointwise calls computed together, and steps of plans made, without a generated "
        "loop, by why.");
    for (int i = 0; i < TD_REASONS; i++)
        td_text_line(t, "tensord_not_generated_total{reason=\"%s\"} %lld", td_loop_reasons[i],
                     td_loop_refusals((enum td_loop_reason)i));
}

void td_text_models(struct td_text *t, struct td_counts *m, const struct td_service *service)
{
    models(t, m, service);
    sessions(t, service->sessions);
}

static void tokens(struct td_text *t, const struct td_service *service)
{
    struct td_access_stats s = {0};
    if (service->access)
        td_access_stats(service->access, &s);
    td_text_family(t, "tensord_insecure", "gauge",
                   "1: others than this machine may reach the server, and need no token.");
    td_text_line(t, "tensord_insecure %d", service->insecure);
    td_text_family(t, "tensord_sandbox", "gauge",
                   "1: the process has let go of the files and addresses, the system calls that it "
                   "does not need.");
    td_text_line(t, "tensord_sandbox{part=\"files\"} %d", service->sandbox.files);
    td_text_line(t, "tensord_sandbox{part=\"system_calls\"} %d", service->sandbox.calls);
    if (service->certificate_ends) {
        td_text_family(
            t, "tensord_tls_certificate_ends_seconds", "gauge",
            "When the server's certificate is no longer valid, in seconds of the clock.");
        td_text_line(t, "tensord_tls_certificate_ends_seconds %lld",
                     (long long)service->certificate_ends);
    }
    td_text_family(t, "tensord_tokens", "gauge", "Tokens that clients may have (tokens).");
    td_text_line(t, "tensord_tokens %d", s.tokens);
    td_text_family(t, "tensord_tokens_read_total", "counter",
                   "Readings of their file; after one that is refused the old tokens hold.");
    td_text_line(t, "tensord_tokens_read_total{result=\"taken\"} %lld", (long long)s.read);
    td_text_line(t, "tensord_tokens_read_total{result=\"refused\"} %lld", (long long)s.not_read);
    td_text_family(t, "tensord_access_refused_total", "counter",
                   "Requests refused for their token, or for a limit of it, by the reason.");
    td_text_line(t, "tensord_access_refused_total{why=\"missing\"} %lld", (long long)s.missing);
    td_text_line(t, "tensord_access_refused_total{why=\"unknown\"} %lld", (long long)s.unknown);
    td_text_line(t, "tensord_access_refused_total{why=\"expired\"} %lld", (long long)s.expired);
    td_text_line(t, "tensord_access_refused_total{why=\"scope\"} %lld", (long long)s.lacking);
    td_text_line(t, "tensord_access_refused_total{why=\"limit\"} %lld", (long long)s.limited);
}

void td_text_stores(struct td_text *t, const struct td_service *service)
{
    tokens(t, service);
    tasks(t, service->tasks);
    memory(t, td_tensors_budget(service->tensors));
    forms(t);
    tuning(t);
    loops(t);
}
