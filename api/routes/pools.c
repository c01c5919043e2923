/* The pools: what they are, what they do now, and making and removing them. */
#include "api/access/access.h"
#include "api/request/request.h"
#include "dispatch/choice/peaks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void write_threads(struct td_writer *w, const struct td_pool_stats *stats)
{
    int n = stats->n_threads < 64 ? stats->n_threads : 64;
    td_write_open(w, "thread_list", '[');
    for (int i = 0; i < n; i++) {
        td_write_open(w, NULL, '{');
        td_write_int(w, "tid", stats->threads[i].tid);
        td_write_int(w, "cpu", stats->threads[i].cpu);
        td_write_bool(w, "ok", stats->threads[i].ok);
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

/* What memory its workers' requests get, and whether a block is there. */
static void write_memory(struct td_writer *w, struct td_pool *pool)
{
    struct td_pool_memory memory[64];
    int n = td_pool_memory(pool, memory, 64);
    td_write_open(w, "membind", '[');
    for (int i = 0; i < n; i++) {
        bool fits = memory[i].numa_node < 0 || memory[i].numa_node == memory[i].found;
        td_write_open(w, NULL, '{');
        td_write_int(w, "worker", i);
        td_write_int(w, "numa_node", memory[i].numa_node);
        td_write_int(w, "found", memory[i].found);
        td_write_bool(w, "ok", memory[i].found >= 0 && fits);
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

/* In units of 1e9 a second; null: there is no such instruction or cache. */
static void write_peaks(struct td_writer *w, int threads)
{
    struct td_peaks peaks;
    if (!td_peaks_of(threads, &peaks)) {
        td_write_str(w, "peaks", NULL);
        return;
    }
    td_write_open(w, "peaks", '{');
    for (int p = 0; p < TD_PEAKS; p++) {
        char name[32];
        snprintf(name, sizeof name, "%s_%s", td_peak_name((enum td_peak)p),
                 p < TD_PEAK_l1 ? "gflop_s" : "gb_s");
        if (peaks.rate[p] > 0)
            td_write_num(w, name, peaks.rate[p] * 1e-9);
        else
            td_write_str(w, name, NULL);
    }
    td_write_close(w, '}');
}

static void write_pool(struct td_writer *w, struct td_pool *pool)
{
    struct td_pool_stats stats;
    td_pool_stats(pool, &stats);
    td_write_open(w, NULL, '{');
    td_write_str(w, "name", td_pool_name(pool));
    td_write_str(w, "requested", stats.requested);
    td_write_str(w, "cpus", stats.config.cpus);
    td_write_int(w, "numa_node", stats.config.numa_node);
    td_write_int(w, "threads", stats.config.threads);
    td_write_int(w, "streams", stats.config.streams);
    td_write_int(w, "spin_us", stats.config.spin_us);
    td_write_int(w, "queue_depth", stats.config.queue_depth);
    td_write_bool(w, "pinned", stats.config.pinned);
    td_write_int(w, "depth", stats.depth);
    td_write_int(w, "running", stats.running);
    td_write_int(w, "done", stats.done);
    td_write_int(w, "rejected", stats.rejected);
    td_write_int(w, "late", stats.late);
    td_write_int(w, "busy_us", stats.busy_ns / 1000);
    write_threads(w, &stats);
    write_memory(w, pool);
    write_peaks(w, stats.config.threads);
    td_write_open(w, "warnings", '[');
    if (*stats.warning)
        td_write_str(w, NULL, stats.warning);
    td_write_close(w, ']');
    td_write_close(w, '}');
}

int td_api_pools_list(struct td_request *req, struct td_response *res)
{
    struct td_pool *list[TD_MAX_POOLS];
    struct td_writer w;
    int n = td_pools_list(req->service->pools, list, TD_MAX_POOLS);
    td_write_init(&w, req->arena, 2048);
    td_write_open(&w, NULL, '{');
    td_write_open(&w, "pools", '[');
    for (int i = 0; i < n; i++) {
        write_pool(&w, list[i]);
        td_pool_unref(list[i]);
    }
    td_write_close(&w, ']');
    struct td_runtime_facts facts;
    td_runtime_facts(&facts);
    td_write_open(&w, "runtime_ext", '{');
    td_write_bool(&w, "enabled", facts.enabled);
    td_write_str(&w, "backend", facts.backend);
    td_write_str(&w, "openmp", facts.openmp);
    td_write_close(&w, '}');
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

/* Takes the reference. */
static int answer(struct td_request *req, struct td_pool *pool, int status)
{
    struct td_writer w;
    td_write_init(&w, req->arena, 2048);
    write_pool(&w, pool);
    td_pool_unref(pool);
    return td_write_response(&w, &req->response, status);
}

static int answer_by_name(struct td_request *req)
{
    struct td_pool *pool = td_pools_find(req->service->pools, req->var[0]);
    if (!pool)
        return td_api_problem(req, -ENOENT, "no pool '%.80s'; GET /v1/pools lists them",
                              req->var[0]);
    return answer(req, pool, 200);
}

int td_api_pools_get(struct td_request *req, struct td_response *res)
{
    (void)res;
    return answer_by_name(req);
}

/* A member as the text that td_pool_config_set takes, when it is of the right kind. */
static int set_member(struct td_request *req, struct td_pool_config *config, const cJSON *item)
{
    char text[TD_CPUS_TEXT + 8], problem[256];
    const char *key = item->string;
    bool is_cpus = !strcmp(key, "cpus"), is_pin = !strcmp(key, "pinned") || !strcmp(key, "pin");
    if (is_cpus && (!cJSON_IsString(item) || !*item->valuestring))
        return td_api_problem(req, -EINVAL, "cpus: must be a list such as \"0-3,8\"");
    if (is_pin && !cJSON_IsBool(item))
        return td_api_problem(req, -EINVAL, "%s: must be true or false", key);
    if (is_cpus)
        snprintf(text, sizeof text, "%s", item->valuestring);
    else if (cJSON_IsNumber(item))
        snprintf(text, sizeof text, "%.17g", item->valuedouble);
    else
        snprintf(text, sizeof text, "%s",
                 cJSON_IsBool(item) && cJSON_IsTrue(item) ? "true" : "false");
    int err = td_pool_config_set(config, key, text, problem, sizeof problem);
    return err ? td_api_problem(req, err, "%s", problem) : 0;
}

static int read_config(struct td_request *req, struct td_pool_config *config)
{
    struct td_json json;
    struct td_problem problem;
    int err =
        td_json_parse(&json, req->body, req->body_size, req->service->limits.json_depth, &problem);
    if (err)
        td_api_problem(req, err, "%s", problem.text);
    else if (!cJSON_IsObject(json.root))
        err =
            td_api_problem(req, -EINVAL, "the body: must be an object such as {\"cpus\":\"0-3\"}");
    const cJSON *item = err ? NULL : json.root->child;
    for (; item && !err; item = item->next)
        err = set_member(req, config, item);
    td_json_free(&json);
    return err;
}

int td_api_pools_put(struct td_request *req, struct td_response *res)
{
    (void)res;
    const char *name = req->var[0];
    if (strlen(name) >= TD_POOL_NAME)
        return td_api_problem(req, -EINVAL, "the pool's name: at most %d letters",
                              TD_POOL_NAME - 1);
    struct td_pool_config config = td_pool_config_default(name);
    char problem[TD_POOL_WARNING];
    int err = read_config(req, &config);
    if (err)
        return err;
    int noted = td_access_pool(req, name);
    if (noted < 0)
        return noted;
    struct td_pool *pool;
    int result = td_pools_put(req->service->pools, &config, &pool, problem, sizeof problem);
    if (result && noted) /* it is no new one */
        td_access_pool_gone(req, name);
    if (result < 0)
        return td_api_problem(req, result == -EAGAIN ? -ENOMEM : result, "%s", problem);
    return answer(req, pool, result ? 200 : 201);
}

int td_api_pools_delete(struct td_request *req, struct td_response *res)
{
    int err = td_pools_remove(req->service->pools, req->var[0]);
    if (err == -EBUSY)
        return td_api_problem(req, err, "pool %.80s: the default pool stays", req->var[0]);
    if (err)
        return td_api_problem(req, err, "no pool '%.80s'; GET /v1/pools lists them", req->var[0]);
    td_access_pool_gone(req, req->var[0]);
    res->status = 204;
    return 0;
}

/* On a worker of the pool and with its team, as the calls that the peaks are for. */
int td_api_pools_measure(struct td_request *req, struct td_response *res)
{
    struct td_peaks peaks;
    struct td_problem problem = {""};
    (void)res;
    if (!req->worker) {
        struct td_pool *pool = td_pools_find(req->service->pools, req->var[0]);
        return pool ? td_api_hand_over_to(req, pool) : answer_by_name(req);
    }
    td_peaks_measure(td_worker_threads(req->worker), &peaks);
    td_api_keep_choices(req->service, &problem); /* what cannot be written now may be at the end */
    return answer_by_name(req);
}
