/* NUM-11: requests a second and latency, by what a request carries and how, over how many
 * connections, on pinned pools and others. The server is a process of its own; the client is this
 * one's main thread, on the last CPU, which the server has as well. */
#include "server/bench/bench.h"
#include "server/commands/terminal.h"
#include "server/report/client.h"
#include "server/report/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct body {
    const char *name;
    int64_t elements; /* of each of two tensors; 0: there is nothing to compute */
} bodies[] = {{"none", 0}, {"tiny", 4}, {"medium", 16384}, {"large", 262144}};

static const int crowds[] = {1, 8, 64};
static const char *const forms[] = {"json", "binary"};

#define BODIES (sizeof bodies / sizeof *bodies)
#define CROWDS (sizeof crowds / sizeof *crowds)
#define MOST_POINTS 64

struct point {
    const struct body *body;
    const char *form;
    int connections;
    bool pinned;
    char *request;
    size_t size;
    double rate[TD_REPORT_ROUNDS];
    struct td_times times;
    long errors;
    int failed; /* a negative errno */
};

struct service {
    struct td_report *r;
    struct td_child child[2]; /* 1: with pinned pools */
    struct point point[MOST_POINTS];
    int n, cpu;
};

/* ---- requests ---- */

static void write_input(struct td_writer *w, const char *name, const struct td_tensor *t,
                        bool binary)
{
    td_write_open(w, NULL, '{');
    td_write_str(w, "name", name);
    td_write_str(w, "datatype", "FP32");
    td_write_shape(w, t);
    if (binary) {
        td_write_open(w, "parameters", '{');
        td_write_int(w, "binary_data_size", (int64_t)td_nbytes(t));
        td_write_close(w, '}');
    } else {
        td_write_data(w, t);
    }
    td_write_close(w, '}');
}

/* An addition of two tensors, in the report's arena. */
static char *make_request(struct td_report *r, const struct body *body, bool binary, size_t *size)
{
    struct td_tensor t = {.dtype = TD_f32, .rank = 1, .shape = {body->elements}};
    struct td_question q = {"GET", "/v2/health/live", NULL, NULL, 0, 0};
    struct td_writer w;
    if (!body->elements)
        return td_question_bytes(r->arena, &q, size);
    if (td_bench_fill(r->arena, &t))
        return NULL;
    td_write_init(&w, r->arena, 4096);
    td_write_open(&w, NULL, '{');
    td_write_open(&w, "inputs", '[');
    write_input(&w, "self", &t, binary);
    write_input(&w, "other", &t, binary);
    td_write_close(&w, ']');
    if (binary) {
        td_write_open(&w, "parameters", '{');
        td_write_bool(&w, "binary_data_output", true);
        td_write_close(&w, '}');
    }
    td_write_close(&w, '}');
    size_t head = w.length;
    for (int i = 0; i < 2 && binary; i++) {
        char *room = td_write_room(&w, td_nbytes(&t));
        if (room) {
            memcpy(room, t.data, td_nbytes(&t));
            td_write_took(&w, td_nbytes(&t));
        }
    }
    q = (struct td_question){
        "POST", "/v1/ops/add", binary ? "application/octet-stream" : "application/json",
        w.text, w.length,      binary ? head : 0};
    return w.failed ? NULL : td_question_bytes(r->arena, &q, size);
}

/* Pools that are not pinned are seen with some connections alone, what is large without many.
 * Quick: the smaller ones, on the fewest connections and the most of pinned pools. */
static bool is_wanted(const struct service *s, const struct point *p)
{
    if (s->r->o.quick)
        return p->body->elements <= 16384 && p->pinned && p->connections != 8;
    return (p->pinned || p->connections == 8) && p->body->elements * p->connections < 4 << 20;
}

static void make_points(struct service *s)
{
    for (size_t b = 0; b < BODIES; b++)
        for (size_t f = 0; f < (bodies[b].elements ? 2 : 1); f++) {
            size_t size;
            char *request = make_request(s->r, &bodies[b], f, &size);
            for (size_t c = 0; c < CROWDS; c++)
                for (int pinned = 1; pinned >= 0 && s->n < MOST_POINTS; pinned--) {
                    struct point *p = &s->point[s->n];
                    *p = (struct point){.body = &bodies[b],
                                        .form = bodies[b].elements ? forms[f] : "none",
                                        .connections = crowds[c],
                                        .pinned = pinned,
                                        .request = request,
                                        .size = size};
                    s->n += request && is_wanted(s, p);
                }
        }
}

/* ---- measuring ---- */

static void run_point(struct service *s, struct point *p, int round)
{
    const struct td_load load = {.request = p->request,
                                 .size = p->size,
                                 .connections = p->connections,
                                 .cpu = s->cpu,
                                 .seconds = s->r->o.quick ? 0.05 : 0.3};
    struct td_load_result result;
    if (p->failed)
        return;
    p->failed = td_load_run(&s->child[p->pinned], &load, &result);
    p->rate[round] = result.rate;
    p->errors += result.errors;
    td_times_join(&p->times, &result.times);
    td_times_free(&result.times);
}

static void write_point(struct service *s, struct point *p)
{
    struct td_writer *w = td_report_data(s->r, 11);
    char name[100];
    snprintf(name, sizeof name, "%s %s, %d connections, %s", p->body->name, p->form, p->connections,
             p->pinned ? "pinned" : "not pinned");
    if (p->failed || p->errors || !p->times.n) {
        td_report_miss(s->r, 11, name, "%s",
                       p->failed   ? strerror(-p->failed)
                       : p->errors ? "some requests were not answered with 200"
                                   : "no reply came in time");
        return;
    }
    td_times_sort(&p->times);
    td_bench_sort(p->rate, TD_REPORT_ROUNDS);
    td_write_open(w, NULL, '{');
    td_write_str(w, "body", p->body->name);
    td_write_int(w, "request_bytes", (int64_t)p->size);
    td_write_str(w, "form", p->form);
    td_write_int(w, "connections", p->connections);
    td_write_bool(w, "pinned", p->pinned);
    td_write_num(w, "rate", td_report_digits(p->rate[TD_REPORT_ROUNDS / 2]));
    td_write_num(w, "rate_least", td_report_digits(p->rate[0]));
    td_write_num(w, "rate_most", td_report_digits(p->rate[TD_REPORT_ROUNDS - 1]));
    td_write_num(w, "p50_us", td_report_digits(td_times_within(&p->times, 0.5)));
    td_write_num(w, "p99_us", td_report_digits(td_times_within(&p->times, 0.99)));
    td_write_num(w, "least_us", td_report_digits(td_times_within(&p->times, 0)));
    td_write_close(w, '}');
}

/* Of the points, those that say most. */
static void say_some(struct service *s)
{
    for (int i = 0; i < s->n; i++) {
        const struct point *p = &s->point[i];
        char name[120];
        if (p->failed || p->errors || !p->times.n || !p->pinned || p->body->elements > 4)
            continue;
        const char *what = p->body->elements ? "an addition of four floats" : "no work (health)";
        snprintf(name, sizeof name, "%s, %s: requests a second over %d connection%s", what, p->form,
                 p->connections, p->connections > 1 ? "s" : "");
        td_report_add(s->r, 11,
                      &(struct td_report_figure){name, "1/s", p->rate[TD_REPORT_ROUNDS / 2],
                                                 p->rate[0], p->rate[TD_REPORT_ROUNDS - 1]});
        if (p->connections > 1 || !td_report_wants(s->r, 10))
            continue;
        snprintf(name, sizeof name, "the same over HTTP, one connection, %s, half of them within",
                 p->body->elements ? p->form : "no operator at all");
        td_report_say(s->r, 10, name, "ns", td_times_within(&p->times, 0.5) * 1e3);
    }
}

static void measure(struct service *s)
{
    for (int round = 0; round < TD_REPORT_ROUNDS; round++)
        for (int i = 0; i < s->n; i++) {
            td_progress((round + (double)i / s->n) / TD_REPORT_ROUNDS, "requests");
            run_point(s, &s->point[i], round);
        }
    td_progress_clear();
    td_bind_allowed(s->r->once.service.topology);
    struct td_writer *w = td_report_data(s->r, 11);
    td_write_open(w, "client", '{');
    td_write_int(w, "cpu", s->cpu);
    td_write_int(w, "threads", 1);
    td_write_bool(w, "shares_cpus_with_server", true);
    td_write_close(w, '}');
    td_write_open(w, "points", '[');
    for (int i = 0; i < s->n; i++)
        write_point(s, &s->point[i]);
    td_write_close(w, ']');
    say_some(s);
    for (int i = 0; i < s->n; i++)
        td_times_free(&s->point[i].times);
}

static int start(struct service *s, const char *cpus, struct td_problem *problem)
{
    for (int pinned = 0; pinned < 2; pinned++) {
        char pool[TD_CPUS_TEXT + 40];
        const char *const options[] = {"--pool", pool, NULL};
        snprintf(pool, sizeof pool, "default=%s:pinned=%d", cpus, pinned);
        int err = td_child_start(&s->child[pinned], options, problem);
        if (err)
            return err;
    }
    return 0;
}

void td_report_service(struct td_report *r)
{
    struct service *s = calloc(1, sizeof *s);
    struct td_problem problem = {"out of memory"};
    struct td_machine_facts facts;
    if (!s) {
        td_report_miss(r, 11, "all requests", "out of memory");
        return;
    }
    s->r = r;
    s->child[0] = s->child[1] = (struct td_child){.pid = -1, .log = -1, .to = -1};
    td_topology_facts(r->once.service.topology, &facts);
    for (int i = 0; i < facts.n_pus; i++)
        if (facts.pus[i].allowed && facts.pus[i].cpu > s->cpu)
            s->cpu = facts.pus[i].cpu;
    if (start(s, facts.allowed, &problem)) {
        td_report_miss(r, 11, "all requests", "%s", problem.text);
    } else {
        make_points(s);
        measure(s);
    }
    td_child_stop(&s->child[0]);
    td_child_stop(&s->child[1]);
    free(s);
}
