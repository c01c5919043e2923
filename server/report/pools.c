/* NUM-9: the same calls on pools of other shapes: one task after another or two at once, a team or
 * a batch that is split, threads bound or free. */
#include "server/report/pools.h"
#include "server/bench/bench.h"
#include "server/bench/model.h"
#include "server/commands/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct work {
    const char *what;
    struct td_network network;
} works[] = {
    {"convolution 64 to 128 channels, 3 x 3, stride 2, of 64 x 64 x 3 x 3",
     {"pools", "convolution", "x=[64,64,3,3]",
      "a = Conv(x, [128,64,3,3], [128]) strides=[2,2] pads=[1,1,1,1]; y = Flatten(a)"}},
    {"softmax of 100 x 8276", {"pools", "softmax", "x=[100,8276]", "y = Softmax(x) axis=-1"}},
};
#define WORKS (sizeof works / sizeof *works)

enum shape { ONE, TEAM, TWO, SPLIT, SHAPES };

static const struct shape_text {
    const char *name, *what;
} shapes[SHAPES] = {
    [ONE] = {"one thread", "one task after another, on one thread"},
    [TEAM] = {"team", "one task after another, on a team of all threads"},
    [TWO] = {"two workers", "two tasks at once, on half of the threads each"},
    [SPLIT] = {"two streams", "one task after another, its batch split over two workers"},
};

struct entry {
    struct td_setting setting;
    enum shape shape;
    bool pinned;
    double rate[TD_REPORT_ROUNDS];
};

struct pools {
    struct td_report *r;
    const struct work *work;
    struct td_arena *arena; /* of one work */
    struct entry entry[2 * SHAPES];
    int n;
};

static const char *pool_of(enum shape shape, bool pinned)
{
    static const char *const names[SHAPES][2] = {[ONE] = {"one-free", "one"},
                                                 [TEAM] = {"all-free", "all"},
                                                 [TWO] = {"two-free", "two"},
                                                 [SPLIT] = {"two-free", "two"}};
    return names[shape][pinned];
}

int td_report_pool_configs(struct td_pool_config *configs, int cpus)
{
    int n = 0;
    for (int pinned = 1; pinned >= 0; pinned--)
        for (enum shape shape = ONE; shape < SPLIT; shape++) {
            if (shape != ONE && cpus < 2)
                continue;
            configs[n] = td_pool_config_default(pool_of(shape, pinned));
            configs[n].threads = shape == ONE ? 1 : shape == TWO ? cpus / 2 * 2 : cpus;
            configs[n].streams = shape == TWO ? 2 : 1;
            configs[n++].pinned = pinned;
        }
    return n;
}

int td_report_first_pools(int cpus)
{
    return cpus < 2 ? 1 : 2;
}

static int add_pools(struct td_report *r)
{
    struct td_pool_config configs[TD_REPORT_POOLS];
    int n = td_report_pool_configs(configs, r->cpus), err = 0;
    char problem[320];
    for (int i = td_report_first_pools(r->cpus); i < n && !err; i++)
        err = td_pools_add(r->once.service.pools, &configs[i], problem, sizeof problem);
    return err ? td_once_fail(&r->once, problem) : 0;
}

/* ---- calls ---- */

static struct pools *pools_at_work;

/* On a worker: the model and its input are stored, and calls for each entry written. */
static int prepare(struct td_once *once)
{
    struct pools *p = pools_at_work;
    struct td_answer said = {NULL};
    struct td_json json = {0};
    struct td_writer inputs;
    const char *wrong;
    size_t size;
    char *bytes = td_network_file(&p->work->network, p->arena, &size, &wrong);
    int failed =
        bytes ? td_once_put_bytes(once, "/v1/models/model", p->arena, bytes, size, NULL, NULL)
              : td_once_fail(once, wrong ? wrong : "out of memory");
    failed = failed || td_once_describe(once, "/v1/models/model", &said, &json);
    td_write_init(&inputs, p->arena, 1024);
    once->n_numbers = 0;
    once->eager = once->explains = false;
    failed = failed || td_once_store(once, &inputs, td_json_member(json.root, "inputs"));
    for (int i = 0; i < p->n && !failed; i++) {
        struct entry *e = &p->entry[i];
        td_write_init(&e->setting.call, p->arena, 1024);
        once->streams = e->shape == SPLIT ? 2 : 0;
        failed = td_once_write_call(once, &e->setting.call, &inputs, e->setting.pool);
    }
    once->streams = 0;
    td_json_free(&json);
    td_once_forget(&said);
    return failed;
}

static void make_entries(struct pools *p)
{
    int cpus = p->r->cpus;
    p->n = 0;
    for (enum shape shape = ONE; shape < SHAPES; shape++)
        for (int pinned = 1; pinned >= 0; pinned--) {
            struct entry *e = &p->entry[p->n];
            if (shape != ONE && cpus < 2)
                continue;
            p->n++;
            *e = (struct entry){.shape = shape, .pinned = pinned};
            e->setting.workers = shape == TWO ? 2 : 1; /* that make calls */
            e->setting.threads = shape == ONE ? 1 : shape == TEAM ? cpus : cpus / 2;
            snprintf(e->setting.pool, sizeof e->setting.pool, "%s", pool_of(shape, pinned));
        }
}

static int measure(struct pools *p)
{
    int failed = 0;
    for (int round = 0; round < TD_REPORT_ROUNDS; round++)
        for (int i = 0; i < p->n && !failed; i++) {
            struct entry *e = &p->entry[i];
            td_progress((round + (double)i / p->n) / TD_REPORT_ROUNDS, p->work->what);
            failed = td_bench_lanes(&p->r->once, &e->setting, p->r->o.quick ? 0.02 : 0.4);
            e->rate[round] = e->setting.rate;
        }
    td_progress_clear();
    return failed;
}

/* ---- what came of it ---- */

static void write_entry(struct pools *p, struct entry *e)
{
    struct td_writer *w = td_report_data(p->r, 9);
    const struct td_times *times = &e->setting.times;
    td_bench_sort(e->rate, TD_REPORT_ROUNDS);
    td_write_open(w, NULL, '{');
    td_write_str(w, "shape", shapes[e->shape].name);
    td_write_str(w, "what", shapes[e->shape].what);
    td_write_bool(w, "pinned", e->pinned);
    td_write_int(w, "tasks_at_once", e->setting.workers);
    td_write_int(w, "threads_a_task",
                 e->shape == SPLIT ? 2 * e->setting.threads : e->setting.threads);
    td_write_num(w, "rate", td_report_digits(e->rate[TD_REPORT_ROUNDS / 2]));
    td_write_num(w, "rate_least", td_report_digits(e->rate[0]));
    td_write_num(w, "rate_most", td_report_digits(e->rate[TD_REPORT_ROUNDS - 1]));
    td_write_num(w, "least_us", td_report_digits(td_times_within(times, 0)));
    td_write_num(w, "p50_us", td_report_digits(td_times_within(times, 0.5)));
    td_write_num(w, "p99_us", td_report_digits(td_times_within(times, 0.99)));
    td_write_close(w, '}');
}

static double rate_of(const struct pools *p, enum shape shape)
{
    for (int i = 0; i < p->n; i++)
        if (p->entry[i].shape == shape && p->entry[i].pinned)
            return p->entry[i].rate[TD_REPORT_ROUNDS / 2];
    return 0;
}

static void say_ratio(struct pools *p, const char *what, double part, double whole)
{
    char name[160];
    if (part <= 0 || whole <= 0)
        return;
    snprintf(name, sizeof name, "%s: %s", p->work->network.name, what);
    td_report_say(p->r, 9, name, "times", part / whole);
}

static void try_work(struct pools *p)
{
    struct td_report *r = p->r;
    struct td_writer *w = td_report_data(r, 9);
    p->arena = td_arena_create();
    make_entries(p);
    *r->why = 0;
    int failed = !p->arena || td_once_on_pool(&r->once, "one", prepare) || measure(p);
    if (failed) {
        td_report_miss(r, 9, p->work->what, "%s", *r->why ? r->why : "out of memory");
    } else {
        td_write_open(w, NULL, '{');
        td_write_str(w, "work", p->work->network.name);
        td_write_str(w, "what", p->work->what);
        td_write_open(w, "settings", '[');
        for (int i = 0; i < p->n; i++)
            write_entry(p, &p->entry[i]);
        td_write_close(w, ']');
        td_write_close(w, '}');
        say_ratio(p, "rate of two tasks at once divided by that of one after another on one thread",
                  rate_of(p, TWO), rate_of(p, ONE));
        say_ratio(p, "rate of two tasks at once divided by that of one after another on a team",
                  rate_of(p, TWO), rate_of(p, TEAM));
        say_ratio(p, "rate of a batch split over two workers divided by that on a team",
                  rate_of(p, SPLIT), rate_of(p, TEAM));
    }
    for (int i = 0; i < p->n; i++)
        td_times_free(&p->entry[i].setting.times);
    td_arena_destroy(p->arena);
}

void td_report_pools(struct td_report *r)
{
    struct pools *p = calloc(1, sizeof *p);
    *r->why = 0;
    if (!p || add_pools(r)) {
        td_report_miss(r, 9, "all pools", "%s", *r->why ? r->why : "out of memory");
        free(p);
        return;
    }
    p->r = r;
    pools_at_work = p;
    struct td_writer *w = td_report_data(r, 9);
    td_write_open(w, "works", '[');
    for (size_t i = 0; i < WORKS; i++) {
        p->work = &works[i];
        try_work(p);
    }
    td_write_close(w, ']');
    if (r->cpus < 2)
        td_report_miss(r, 9, "more than one thread", "this process may use one CPU");
    pools_at_work = NULL;
    free(p);
}
