/* NUM-1 to NUM-5 as rows: what was found of each network, each suite, and all. */
#include "server/report/suites.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_in(const struct td_tried *t, const char *suite)
{
    return !suite || !strcmp(t->suite, suite);
}

static const char *source(const struct td_tried *t)
{
    return t->own ? "composed" : "file";
}

/* ---- NUM-1 ---- */

static void write_network(struct td_writer *w, const struct td_tried *t)
{
    td_write_open(w, NULL, '{');
    td_write_str(w, "name", t->name);
    td_write_str(w, "suite", t->suite);
    td_write_str(w, "source", source(t));
    td_write_bool(w, "passed", t->passed);
    if (t->judged)
        td_write_num(w, "worst", isfinite(t->worst) ? td_report_digits(t->worst) : INFINITY);
    if (*t->why)
        td_write_str(w, "why", t->why);
    td_write_close(w, '}');
}

static void count_suite(const struct td_suites *s, const char *suite, int *all, int *passed)
{
    *all = *passed = 0;
    for (int i = 0; i < s->n; i++) {
        *all += is_in(&s->tried[i], suite);
        *passed += is_in(&s->tried[i], suite) && s->tried[i].passed;
    }
}

static void write_passing(struct td_suites *s)
{
    struct td_writer *w = td_report_data(s->r, 1);
    int all, passed;
    td_write_open(w, "suites", '[');
    for (const char *const *suite = td_suites; *suite; suite++) {
        char *name;
        count_suite(s, *suite, &all, &passed);
        if (!all)
            continue;
        td_write_open(w, NULL, '{');
        td_write_str(w, "suite", *suite);
        td_write_int(w, "networks", all);
        td_write_int(w, "passed", passed);
        td_write_int(w, "percent", (int64_t)(100.0 * passed / all + 0.5));
        td_write_close(w, '}');
        if (asprintf(&name, "%s: right answers", *suite) < 0)
            continue;
        td_report_say(s->r, 1, name, "share", (double)passed / all);
        free(name);
    }
    td_write_close(w, ']');
    td_write_open(w, "networks", '[');
    for (int i = 0; i < s->n; i++) {
        const struct td_tried *t = &s->tried[i];
        write_network(w, t);
        if (!t->passed && !t->judged)
            td_report_miss(s->r, 1, t->name, "%s",
                           *t->why                ? t->why
                           : s->reference.pid < 0 ? s->no_reference.text
                                                  : "it was not judged");
    }
    td_write_close(w, ']');
}

/* ---- NUM-2 and NUM-3 ---- */

struct mean { /* geometric, over the networks that pass */
    double log, log_clipped, round[TD_REPORT_ROUNDS];
    int n;
};

static double speed_up(const struct td_tried *t, int team)
{
    return t->eager[team].least / t->plan[team].least;
}

static struct mean mean_of(const struct td_suites *s, const char *suite, int team)
{
    struct mean m = {.n = 0};
    for (int i = 0; i < s->n; i++) {
        const struct td_tried *t = &s->tried[i];
        if (!is_in(t, suite) || !t->passed || team >= t->n_teams)
            continue;
        double up = speed_up(t, team);
        m.n++;
        m.log += log(up);
        m.log_clipped += up > 1 ? log(up) : 0;
        for (int k = 0; k < TD_REPORT_ROUNDS; k++)
            m.round[k] += log(t->eager[team].round[k] / t->plan[team].round[k]);
    }
    return m;
}

static void write_mean(struct td_suites *s, int row, const char *suite, int team)
{
    struct td_writer *w = td_report_data(s->r, row);
    struct mean m = mean_of(s, suite, team);
    char name[80];
    if (!m.n)
        return;
    snprintf(name, sizeof name, "%s: geometric mean of speed-ups", suite ? suite : "all suites");
    struct td_report_figure f = {
        .name = name, .unit = "times", .value = exp(m.log / m.n), .least = INFINITY, .most = 0};
    for (int k = 0; k < TD_REPORT_ROUNDS; k++) {
        f.least = fmin(f.least, exp(m.round[k] / m.n));
        f.most = fmax(f.most, exp(m.round[k] / m.n));
    }
    td_report_add(s->r, row, &f);
    td_write_open(w, NULL, '{');
    td_write_str(w, "suite", suite ? suite : "all");
    td_write_int(w, "networks", m.n);
    td_write_num(w, "geomean", td_report_digits(f.value));
    td_write_num(w, "least", td_report_digits(f.least));
    td_write_num(w, "most", td_report_digits(f.most));
    td_write_num(w, "geomean_clipped", td_report_digits(exp(m.log_clipped / m.n)));
    td_write_close(w, '}');
}

static void write_timed(struct td_writer *w, const struct td_suites *s, const struct td_tried *t,
                        int team)
{
    td_write_open(w, NULL, '{');
    td_write_str(w, "name", t->name);
    td_write_str(w, "suite", t->suite);
    td_write_num(w, "eager_us", td_report_digits(t->eager[team].least));
    td_write_num(w, "plan_us", td_report_digits(t->plan[team].least));
    td_write_num(w, "eager_median_us", td_report_digits(t->eager[team].median));
    td_write_num(w, "plan_median_us", td_report_digits(t->plan[team].median));
    td_write_num(w, "speed_up", td_report_digits(speed_up(t, team)));
    if (team == TD_ONE_THREAD) {
        td_write_num(w, "load_ms", td_report_digits(t->load_ms));
        td_write_num(w, "first_ms", td_report_digits(t->first_ms));
        td_write_num(w, "eager_bytes", t->eager_bytes);
        td_write_num(w, "plan_bytes", t->plan_bytes);
    }
    td_suites_write_peer_times(w, s, t, team);
    td_write_close(w, '}');
}

static void write_speed(struct td_suites *s, int row, int team)
{
    struct td_writer *w = td_report_data(s->r, row);
    if (team == TD_ALL_THREADS && s->r->cpus < 2) {
        td_report_miss(s->r, row, "all threads", "this process may use one CPU");
        return;
    }
    td_write_int(w, "threads", team == TD_ONE_THREAD ? 1 : s->r->cpus);
    td_write_open(w, "suites", '[');
    for (const char *const *suite = td_suites; *suite; suite++)
        write_mean(s, row, *suite, team);
    write_mean(s, row, NULL, team);
    td_write_close(w, ']');
    td_write_open(w, "networks", '[');
    for (int i = 0; i < s->n; i++)
        if (s->tried[i].passed && team < s->tried[i].n_teams)
            write_timed(w, s, &s->tried[i], team);
    td_write_close(w, ']');
    td_suites_write_peers(s, row, team);
}

/* What a plan costs: in means over the networks that pass. */
static void write_costs(struct td_suites *s)
{
    double plan_ms = 0, bytes = 0;
    int n = 0, weighed = 0;
    for (int i = 0; i < s->n; i++) {
        const struct td_tried *t = &s->tried[i];
        if (!t->passed)
            continue;
        n++;
        plan_ms += t->first_ms - t->plan[TD_ONE_THREAD].least * 1e-3;
        if (t->eager_bytes > 0 && t->plan_bytes > 0) {
            weighed++;
            bytes += log(t->eager_bytes / t->plan_bytes);
        }
    }
    if (n)
        td_report_say(s->r, 3, "a plan is made in, on average", "ms", plan_ms / n);
    if (weighed)
        td_report_say(s->r, 3, "memory of a run call by call divided by the plan's, geometric mean",
                      "times", exp(bytes / weighed));
}

/* ---- NUM-4 and NUM-5 ---- */

static void write_kernels(struct td_writer *w, const struct td_suites *s, const char *suite,
                          long *all, long *vectors)
{
    long library = 0;
    *all = *vectors = 0;
    for (int i = 0; i < s->n; i++) {
        const struct td_tried *t = &s->tried[i];
        if (!is_in(t, suite))
            continue;
        *all += t->kernels;
        *vectors += t->vectors;
        library += t->library;
    }
    if (!*all)
        return;
    td_write_open(w, NULL, '{');
    td_write_str(w, "suite", suite ? suite : "all");
    td_write_int(w, "kernels", *all);
    td_write_int(w, "vectorised", *vectors);
    td_write_num(w, "share", td_report_digits((double)*vectors / (double)*all));
    td_write_int(w, "library", library);
    td_write_close(w, '}');
}

static void write_vectorised(struct td_suites *s)
{
    struct td_writer *w = td_report_data(s->r, 4);
    long all = 0, vectors = 0;
    td_write_open(w, "inference", '[');
    for (const char *const *suite = td_suites; *suite; suite++)
        write_kernels(w, s, *suite, &all, &vectors);
    write_kernels(w, s, NULL, &all, &vectors);
    td_write_close(w, ']');
    if (all)
        td_report_say(s->r, 4, "inference: vectorised kernels of plans", "share",
                      (double)vectors / (double)all);
    td_write_open(w, "training", '{');
    td_write_int(w, "kernels", s->backward);
    td_write_int(w, "vectorised", s->backward_vectors);
    td_write_num(w, "share",
                 s->backward ? td_report_digits((double)s->backward_vectors / (double)s->backward)
                             : 0);
    td_write_close(w, '}');
    if (s->backward)
        td_report_say(s->r, 4, "training: vectorised kernels of backward operators", "share",
                      (double)s->backward_vectors / (double)s->backward);
    else
        td_report_miss(s->r, 4, "training", "no backward operator has a sample in FP32");
}

static int by_times(const void *a, const void *b)
{
    const struct td_reason *x = a, *y = b;
    return x->times != y->times ? (x->times < y->times) - (x->times > y->times)
                                : strcmp(x->text, y->text);
}

/* Kernels, or reasons; how many there are. */
static int write_said(struct td_suites *s, struct td_writer *w, bool kernels)
{
    int n = 0;
    for (int i = 0; i < s->n_reasons; i++) {
        const struct td_reason *reason = &s->reason[i];
        if (!strcmp(reason->kind, "kernel") != kernels)
            continue;
        n++;
        td_write_open(w, NULL, '{');
        if (!kernels)
            td_write_str(w, "of", reason->kind);
        td_write_str(w, kernels ? "kernel" : "reason", reason->text);
        td_write_int(w, "times", reason->times);
        for (int k = 0; k < TD_REPORT_SUITES && !kernels; k++)
            td_write_int(w, td_suites[k], reason->by_suite[k]);
        td_write_close(w, '}');
    }
    return n;
}

static void write_reasons(struct td_suites *s)
{
    struct td_writer *w = td_report_data(s->r, 4);
    qsort(s->reason, (size_t)s->n_reasons, sizeof *s->reason, by_times);
    td_write_open(w, "kernels", '[');
    write_said(s, w, true);
    td_write_close(w, ']');
    w = td_report_data(s->r, 5);
    td_write_open(w, "reasons", '[');
    td_report_say(s->r, 5, "different reasons", "", write_said(s, w, false));
    td_write_close(w, ']');
}

void td_suites_write(struct td_suites *s)
{
    write_passing(s);
    td_suites_write_peers(s, 1, TD_ONE_THREAD);
    write_speed(s, 2, TD_ALL_THREADS);
    write_speed(s, 3, TD_ONE_THREAD);
    write_costs(s);
    write_vectorised(s);
    write_reasons(s);
}
