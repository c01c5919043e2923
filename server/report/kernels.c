/* NUM-4 and NUM-5: which kernels are vectorised, and what is said of those that are not. Plans are
 * read as GET /v1/models/{name}/plan shows them; backward operators are asked by their samples. */
#include "server/bench/bench.h"
#include "server/report/suites.h"

#include <stdio.h>
#include <string.h>

#define ELEMENTS 4096 /* of a backward operator's sample */

void td_suites_reason(struct td_suites *s, const char *kind, const char *text)
{
    int i = 0;
    while (i < s->n_reasons && (strcmp(s->reason[i].kind, kind) || strcmp(s->reason[i].text, text)))
        i++;
    if (i == TD_REPORT_REASONS)
        return;
    struct td_reason *reason = &s->reason[i];
    if (i == s->n_reasons) {
        s->n_reasons++;
        *reason = (struct td_reason){.times = 0};
        snprintf(reason->kind, sizeof reason->kind, "%s", kind);
        snprintf(reason->text, sizeof reason->text, "%s", text);
    }
    reason->times++;
    for (int k = 0; s->at && k < TD_REPORT_SUITES; k++)
        reason->by_suite[k] += !strcmp(s->at->suite, td_suites[k]);
}

static double number_of(const cJSON *object, const char *key, double otherwise)
{
    const cJSON *item = td_json_member(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : otherwise;
}

/* Steps that are computed together are one kernel, for which the last of them stands. A view, which
 * computes nothing, has none. */
static void count_kernel(struct td_suites *s, const cJSON *step)
{
    struct td_tried *t = s->at;
    const char *kernel = td_report_word(step, "kernel");
    char name[80];
    snprintf(name, sizeof name, "%.40s@%.30s", kernel, td_report_word(step, "isa"));
    if (!*kernel || !strcmp(kernel, "view"))
        return;
    td_suites_reason(s, "kernel", name);
    if (!strcmp(kernel, "onednn")) {
        t->library++;
        return;
    }
    t->kernels++;
    t->vectors += strcmp(kernel, "ref") != 0 && strcmp(td_report_word(step, "isa"), "DEFAULT") != 0;
}

static void read_plan(struct td_suites *s, const cJSON *plan)
{
    const cJSON *step, *pass, *refused;
    s->at->plan_bytes = number_of(plan, "memory_bytes", 0) + number_of(plan, "scratch_bytes", 0);
    cJSON_ArrayForEach(step, td_json_member(plan, "steps"))
    {
        double at = number_of(step, "step", 0);
        if (number_of(step, "with", at) > at)
            continue;
        count_kernel(s, step);
        if (*td_report_word(step, "not_generated"))
            td_suites_reason(s, "generated", td_report_word(step, "not_generated"));
    }
    cJSON_ArrayForEach(pass, td_json_member(plan, "passes"))
    {
        cJSON_ArrayForEach(refused, td_json_member(pass, "why"))
            td_suites_reason(s, "fused", td_report_word(refused, "why"));
    }
}

int td_suites_look(struct td_suites *s)
{
    struct td_once *once = &s->r->once;
    struct td_answer answer = {NULL};
    struct td_json json = {0};
    int failed = td_once_describe(once, "/v1/models/model/plan", &answer, &json);
    const cJSON *plans = td_json_member(json.root, "plans");
    if (!failed && plans && plans->child) {
        const char *why = td_report_word(plans->child, "op_by_op");
        if (*why)
            td_suites_reason(s, "planned", why);
        read_plan(s, plans->child);
    }
    td_json_free(&json);
    td_once_forget(&answer);
    return failed;
}

/* ---- backward operators ---- */

static bool is_backward(const struct td_handle *handle)
{
    return strstr(handle->schema.name, "_backward") && handle->op->dtypes & TD_f32;
}

/* The reference computes it: what the others say, each once. */
static void ask_rows(struct td_suites *s, const struct td_run *run)
{
    struct td_why why[32];
    int n = td_run_explain(run, why, 32);
    for (int i = 0; i < n; i++)
        if (why[i].impl != run->impl && why[i].impl->isa == td_cpu()->current)
            td_suites_reason(s, "backward", why[i].reason);
}

static void look_sample(struct td_suites *s, const struct td_handle *handle, const char *sample)
{
    struct td_bench_cell cell = {.handle = handle, .sample = sample, .dtype = TD_f32};
    size_t scratch;
    if (td_bench_cell_begin(&cell, ELEMENTS))
        return;
    if (!td_run_select(&cell.run, &scratch)) {
        bool vector = cell.run.impl->library ||
                      (cell.run.impl->isa != TD_ISA_default && cell.run.impl[1].run);
        s->backward++;
        s->backward_vectors += vector;
        if (!vector)
            ask_rows(s, &cell.run);
        td_run_release(&cell.run);
    }
    td_bench_cell_end(&cell);
}

void td_suites_look_backward(struct td_suites *s)
{
    for (int i = 0; i < td_registry_count(); i++) {
        const struct td_handle *handle = td_registry_at(i);
        const char *const *sample = is_backward(handle) ? handle->op->samples : NULL;
        for (; sample && *sample; sample++)
            look_sample(s, handle, *sample);
    }
}
