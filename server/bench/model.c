/* `tensord bench MODEL`: what a model takes here, over threads and over workers that run it at
 * once, and which operators take it. It is loaded and called as `tensord run` does, on a pool for
 * each setting. */
#include "server/bench/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define WARM 50  /* runs before it is looked */
#define LOOKS 20 /* at what each operator takes, of which the quickest run counts */

static struct td_model_bench *of(struct td_once *once)
{
    return (struct td_model_bench *)once;
}

/* ---- settings ---- */

static void add_setting(struct td_model_bench *b, int workers, int threads)
{
    if (b->n_settings == TD_BENCH_SETTINGS)
        return;
    struct td_setting *s = &b->setting[b->n_settings++];
    *s = (struct td_setting){.workers = workers, .threads = threads};
    snprintf(s->pool, sizeof s->pool, "w%dt%d", workers, threads);
}

/* One worker with 1, 2, 4 and so on of the CPUs, then more workers that share all of them. */
static void make_settings(struct td_model_bench *b, int threads)
{
    int cpus = td_bound_cpus();
    for (int t = threads ? threads : 1;; t = 2 * t < cpus ? 2 * t : cpus) {
        add_setting(b, 1, t);
        if (threads || t == cpus)
            break;
    }
    int most = threads ? cpus / threads : cpus;
    for (int w = 2; w <= most; w = 2 * w < most || w == most ? 2 * w : most)
        add_setting(b, w, threads ? threads : cpus / w);
}

/* ---- load, first answer ---- */

static double ms_since(int64_t begin_ns)
{
    return (double)(td_now_ns() - begin_ns) * 1e-6;
}

/* On a worker of the first setting. */
static int prepare(struct td_once *once)
{
    struct td_model_bench *b = of(once);
    struct td_times times = {0};
    struct td_writer list;
    int64_t begin = td_now_ns();
    int failed = td_once_put(once, "/v1/models/model", once->model, NULL);
    b->load_ms = ms_since(begin);
    failed = failed || td_once_describe(once, "/v1/models/model", &b->said, &b->json);
    td_write_init(&list, b->arena, 4096);
    if (!failed)
        failed = td_once_store(once, &list, td_json_member(b->json.root, "inputs"));
    for (int i = 0; i < b->n_settings && !failed; i++) {
        td_write_init(&b->setting[i].call, b->arena, 4096);
        failed = td_once_write_call(once, &b->setting[i].call, &list, b->setting[i].pool);
    }
    begin = td_now_ns();
    failed = failed || td_once_time(once, once->worker, &b->setting[0].call, &times);
    b->first_ms = ms_since(begin);
    td_times_free(&times);
    return failed;
}

/* ---- operators ---- */

static struct td_share *find_share(struct td_model_bench *b, const char *name, const cJSON *step)
{
    const char *kernel = td_json_member(step, "kernel")->valuestring;
    const char *isa = td_json_member(step, "isa")->valuestring;
    int i = 0;
    while (i < b->n_shares && (strcmp(b->share[i].op, name) || strcmp(b->share[i].kernel, kernel) ||
                               strcmp(b->share[i].isa, isa)))
        i++;
    if (i == TD_BENCH_SHARES)
        return NULL;
    struct td_share *share = &b->share[i];
    if (i == b->n_shares) {
        b->n_shares++;
        *share = (struct td_share){.calls = 0};
        snprintf(share->op, sizeof share->op, "%s", name);
        snprintf(share->kernel, sizeof share->kernel, "%s", kernel);
        snprintf(share->isa, sizeof share->isa, "%s", isa);
    }
    return share;
}

static int number_of(const cJSON *object, const char *key, int otherwise)
{
    const cJSON *item = td_json_member(object, key);
    return cJSON_IsNumber(item) ? item->valueint : otherwise;
}

/* Steps that are computed together are one call, which the last of them has the time of. */
static void add_steps(struct td_model_bench *b, const cJSON *steps, int turns)
{
    char name[sizeof b->share[0].op] = "";
    const cJSON *step;
    cJSON_ArrayForEach(step, steps)
    {
        int at = number_of(step, "step", 0), last = number_of(step, "with", at);
        size_t n = strlen(name);
        snprintf(name + n, sizeof name - n, "%s%s", n ? " + " : "",
                 td_json_member(step, "operator")->valuestring);
        if (last > at)
            continue;
        struct td_share *share = find_share(b, name, step);
        if (share) {
            share->calls += turns;
            share->us += td_json_member(step, "us")->valuedouble;
        }
        *name = 0;
    }
}

static int by_time(const void *a, const void *b)
{
    double x = ((const struct td_share *)a)->us, y = ((const struct td_share *)b)->us;
    return (x < y) - (x > y);
}

/* What the operators of the last run took. */
static int read_shares(struct td_once *once)
{
    struct td_model_bench *b = of(once);
    struct td_answer answer = {NULL};
    struct td_json json = {0};
    const cJSON *plan;
    int failed = td_once_describe(once, "/v1/models/model/plan", &answer, &json);
    b->n_shares = 0;
    cJSON_ArrayForEach(plan, td_json_member(json.root, "plans"))
    {
        const cJSON *why = td_json_member(plan, "op_by_op");
        if (cJSON_IsString(why))
            snprintf(b->why, sizeof b->why, "%s", why->valuestring);
        add_steps(b, td_json_member(plan, "steps"), number_of(plan, "turns", 1));
    }
    td_json_free(&json);
    td_once_forget(&answer);
    return failed;
}

/* On a worker of the first setting, before there are plans for others. */
static int look(struct td_once *once)
{
    struct td_model_bench *b = of(once);
    struct td_times times = {0};
    struct td_share *best = calloc(1, sizeof b->share);
    int failed = best ? 0 : td_once_fail(once, "out of memory"), n = 0;
    double least = 0;
    for (int i = 0; i < WARM + LOOKS && !failed; i++) {
        failed = td_once_time(once, once->worker, &b->setting[0].call, &times) ||
                 (i >= WARM && read_shares(once));
        if (failed || i < WARM || (i > WARM && td_model_bench_us(b) >= least))
            continue;
        memcpy(best, b->share, sizeof b->share);
        least = td_model_bench_us(b);
        n = b->n_shares;
    }
    if (!failed) {
        memcpy(b->share, best, sizeof b->share);
        b->n_shares = n;
        qsort(b->share, (size_t)n, sizeof *b->share, by_time);
    }
    free(best);
    td_times_free(&times);
    return failed;
}

/* What the model has by now, and the process had at most. */
static int weigh(struct td_once *once)
{
    struct td_model_bench *b = of(once);
    struct td_answer answer = {NULL};
    struct td_json json = {0};
    struct rusage usage;
    int failed = td_once_describe(once, "/v1/models/model", &answer, &json);
    if (!failed)
        b->model_bytes = td_json_member(json.root, "bytes")->valuedouble;
    if (!getrusage(RUSAGE_SELF, &usage))
        b->process_bytes = (double)usage.ru_maxrss * 1024;
    td_json_free(&json);
    td_once_forget(&answer);
    return failed;
}

static int on_machine(struct td_once *once)
{
    struct td_model_bench *b = of(once);
    const char *first = b->setting[0].pool;
    int failed = td_once_on_pool(once, first, prepare) || td_once_on_pool(once, first, look);
    for (int i = 0; i < b->n_settings && !failed; i++)
        failed = td_bench_lanes(&b->once, &b->setting[i], b->seconds);
    if (!failed)
        failed = td_once_on_pool(once, first, weigh);
    if (!failed)
        td_model_bench_show(b);
    td_json_free(&b->json);
    td_once_forget(&b->said);
    return failed;
}

int td_bench_model(struct td_model_bench *b, int threads)
{
    struct td_pool_config configs[TD_BENCH_SETTINGS];
    b->arena = td_arena_create();
    if (!b->arena)
        return td_once_fail(&b->once, "out of memory");
    make_settings(b, threads);
    for (int i = 0; i < b->n_settings; i++) {
        configs[i] = td_pool_config_default(b->setting[i].pool);
        configs[i].streams = b->setting[i].workers;
        configs[i].threads = b->setting[i].workers * b->setting[i].threads;
    }
    int failed = td_once_on_machine(&b->once, configs, b->n_settings, on_machine);
    for (int i = 0; i < b->n_settings; i++)
        td_times_free(&b->setting[i].times);
    td_arena_destroy(b->arena);
    return failed;
}
