/* The pools: what they are, what they do now, and making and removing them. */
#include "api/handlers.h"

#include <errno.h>
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

static void write_pool(struct td_writer *w, struct td_pool *pool, const char *warning)
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
    td_write_bool(w, "pinned", stats.config.pin);
    td_write_int(w, "depth", stats.depth);
    td_write_int(w, "running", stats.running);
    td_write_int(w, "done", stats.done);
    td_write_int(w, "rejected", stats.rejected);
    td_write_int(w, "late", stats.late);
    td_write_int(w, "busy_us", stats.busy_ns / 1000);
    write_threads(w, &stats);
    td_write_open(w, "warnings", '[');
    if (warning && *warning)
        td_write_str(w, NULL, warning);
    td_write_close(w, ']');
    td_write_close(w, '}');
}

int td_api_pools_list(struct td_request *req, struct td_response *res)
{
    struct td_pool *list[64];
    struct td_writer w;
    int n = td_pools_list(req->service->pools, list, 64);
    td_write_init(&w, req->arena, 2048);
    td_write_open(&w, NULL, '{');
    td_write_open(&w, "pools", '[');
    for (int i = 0; i < n; i++) {
        write_pool(&w, list[i], NULL);
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

static int answer(struct td_request *req, const char *name, int status, const char *warning)
{
    struct td_pool *pool = td_pools_find(req->service->pools, name);
    if (!pool)
        return td_api_problem(req, -ENOENT, "no pool '%.80s'; GET /v1/pools lists them", name);
    struct td_writer w;
    td_write_init(&w, req->arena, 2048);
    write_pool(&w, pool, warning);
    td_pool_unref(pool);
    return td_write_response(&w, &req->response, status);
}

int td_api_pools_get(struct td_request *req, struct td_response *res)
{
    (void)res;
    return answer(req, req->var[0], 200, NULL);
}

/* A member that must be a whole number; absent leaves *value. */
static int read_int(struct td_request *req, const cJSON *root, const char *key, int low, int *value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, key);
    if (!item)
        return 0;
    if (!cJSON_IsNumber(item) || item->valuedouble != item->valueint || item->valueint < low)
        return td_api_problem(req, -EINVAL, "%s: must be a whole number, %d or more", key, low);
    *value = item->valueint;
    return 0;
}

static int read_config(struct td_request *req, struct td_pool_config *config)
{
    static const char *const known[] = {"cpus",    "numa_node",   "threads", "streams",
                                        "spin_us", "queue_depth", "pinned"};
    struct td_json json;
    struct td_problem problem;
    int err =
        td_json_parse(&json, req->body, req->body_size, req->service->limits.json_depth, &problem);
    if (err) {
        td_json_free(&json);
        return td_api_problem(req, -EINVAL, "%s", problem.text);
    }
    const cJSON *item, *cpus = cJSON_GetObjectItemCaseSensitive(json.root, "cpus");
    const cJSON *pin = cJSON_GetObjectItemCaseSensitive(json.root, "pinned");
    if (!cJSON_IsObject(json.root))
        err =
            td_api_problem(req, -EINVAL, "the body: must be an object such as {\"cpus\":\"0-3\"}");
    cJSON_ArrayForEach(item, json.root)
    {
        size_t k = 0;
        while (!err && k < sizeof known / sizeof *known && strcmp(item->string, known[k]))
            k++;
        if (!err && k == sizeof known / sizeof *known)
            err = td_api_problem(req, -EINVAL,
                                 "%.60s: no such field; right are cpus, numa_node, threads, "
                                 "streams, spin_us, queue_depth, pinned",
                                 item->string);
    }
    if (!err && cpus &&
        (!cJSON_IsString(cpus) || !*cpus->valuestring || strlen(cpus->valuestring) >= TD_CPUS_TEXT))
        err = td_api_problem(req, -EINVAL, "cpus: must be a list such as \"0-3,8\"");
    else if (!err && cpus)
        strcpy(config->cpus, cpus->valuestring);
    if (!err && pin && !cJSON_IsBool(pin))
        err = td_api_problem(req, -EINVAL, "pinned: must be true or false");
    else if (!err && pin)
        config->pin = cJSON_IsTrue(pin);
    if (!err && !(err = read_int(req, json.root, "numa_node", 0, &config->numa_node)) &&
        !(err = read_int(req, json.root, "threads", 1, &config->threads)) &&
        !(err = read_int(req, json.root, "streams", 1, &config->streams)) &&
        !(err = read_int(req, json.root, "spin_us", 0, &config->spin_us)))
        err = read_int(req, json.root, "queue_depth", 1, &config->queue_depth);
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
    char problem[400] = "";
    int err = read_config(req, &config);
    if (err)
        return err;
    struct td_pool *old = td_pools_find(req->service->pools, name);
    struct td_pool_stats before;
    if (old)
        td_pool_stats(old, &before);
    td_pool_unref(old);
    if (old && (err = td_pools_remove(req->service->pools, name)))
        return td_api_problem(req, err, "pool %s: the default pool cannot be replaced", name);
    err = td_pools_add(req->service->pools, &config, problem, sizeof problem);
    if (err && old) { /* a replacement that cannot be made leaves the old one */
        char none[400];
        td_pools_add(req->service->pools, &before.config, none, sizeof none);
    }
    if (err)
        return td_api_problem(req, err == -EAGAIN ? -ENOMEM : err, "%s",
                              *problem ? problem : strerror(-err));
    return answer(req, name, old ? 200 : 201, problem);
}

int td_api_pools_delete(struct td_request *req, struct td_response *res)
{
    int err = td_pools_remove(req->service->pools, req->var[0]);
    if (err == -EBUSY)
        return td_api_problem(req, err, "pool %.80s: the default pool stays", req->var[0]);
    if (err)
        return td_api_problem(req, err, "no pool '%.80s'; GET /v1/pools lists them", req->var[0]);
    res->status = 204;
    return 0;
}
