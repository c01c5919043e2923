/* What a generation is asked for: {"input_ids":[1,2],"parameters":{"max_tokens":64,...}}. */
#include "api/generate/generate.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>

static int refuse(struct td_problem *problem, const char *who, const char *what)
{
    return td_problem_set(problem, EINVAL, "%s: %s", who, what);
}

static int read_whole(const cJSON *item, int64_t least, int64_t most, int64_t *value,
                      struct td_problem *problem)
{
    __int128 whole;
    if (!cJSON_IsNumber(item) || td_json_is_float(item) || !td_json_whole(item, &whole) ||
        whole < least || whole > most)
        return td_problem_set(problem, EINVAL, "%s: must be a whole number from %lld to %lld",
                              item->string, (long long)least, (long long)most);
    *value = (int64_t)whole;
    return 0;
}

static int read_real(const cJSON *item, double least, double most, double *value,
                     struct td_problem *problem)
{
    double v = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    if (!(v >= least && v <= most))
        return td_problem_set(problem, EINVAL, "%s: must be a number from %g to %g", item->string,
                              least, most);
    *value = v;
    return 0;
}

/* A list of tokens. */
static int read_tokens(struct td_generation *g, const cJSON *list, const char *who, int64_t **token,
                       int64_t *n, struct td_problem *problem)
{
    const cJSON *item;
    *n = 0;
    if (!cJSON_IsArray(list))
        return refuse(problem, who, "must be a list of token ids, as in [1,2,3]");
    *token = td_arena_alloc(g->req->arena, sizeof **token * (size_t)cJSON_GetArraySize(list) + 1);
    if (!*token)
        return td_problem_set(problem, ENOMEM, "no memory for the request");
    cJSON_ArrayForEach(item, list)
    {
        __int128 whole;
        if (!cJSON_IsNumber(item) || td_json_is_float(item) || !td_json_whole(item, &whole) ||
            whole < 0 || whole > INT32_MAX)
            return refuse(problem, who, "must hold whole numbers, none of them below 0");
        (*token)[(*n)++] = (int64_t)whole;
    }
    return 0;
}

static int read_text(struct td_generation *g, const cJSON *item, const char **text,
                     struct td_problem *problem)
{
    if (!cJSON_IsString(item))
        return refuse(problem, item->string, "must be a text");
    *text = td_arena_strdup(g->req->arena, item->valuestring, strlen(item->valuestring));
    return *text ? 0 : td_problem_set(problem, ENOMEM, "no memory for the request");
}

static int read_flag(const cJSON *item, bool *flag, struct td_problem *problem)
{
    if (!cJSON_IsBool(item))
        return refuse(problem, item->string, "must be true or false");
    *flag = cJSON_IsTrue(item);
    return 0;
}

static int read_parameter(struct td_generation *g, const cJSON *item, struct td_problem *problem)
{
    static const char *const right[] = {
        "max_tokens",    "temperature", "top_k",    "top_p",   "repetition_penalty",
        "seed",          "stop",        "logprobs", "session", "pool",
        "session_start", "timeout_ms",  "priority"};
    const char *key = item->string;
    int64_t whole = 0;
    int err;
    if (!strcmp(key, "max_tokens"))
        return read_whole(item, 1, TD_GENERATE_MOST, &g->most, problem);
    if (!strcmp(key, "temperature"))
        return read_real(item, 0, 1e6, &g->how.temperature, problem);
    if (!strcmp(key, "top_k"))
        return read_whole(item, 0, INT32_MAX, &g->how.top_k, problem);
    if (!strcmp(key, "top_p"))
        return read_real(item, 0, 1, &g->how.top_p, problem);
    if (!strcmp(key, "repetition_penalty"))
        return read_real(item, 1e-3, 1e3, &g->how.repetition_penalty, problem);
    if (!strcmp(key, "seed")) {
        err = read_whole(item, 0, INT64_MAX, &whole, problem);
        g->how.seed = (uint64_t)whole;
        return err;
    }
    if (!strcmp(key, "stop"))
        return read_tokens(g, item, key, &g->stop, &g->n_stop, problem);
    if (!strcmp(key, "logprobs")) {
        err = read_whole(item, 0, 1, &whole, problem);
        g->logprobs = whole;
        return err;
    }
    if (!strcmp(key, "session"))
        return read_text(g, item, &g->session, problem);
    if (!strcmp(key, "session_start"))
        return read_flag(item, &g->start, problem);
    if (!strcmp(key, "pool"))
        return read_text(g, item, &g->pool_name, problem);
    if (!strcmp(key, "timeout_ms"))
        return read_whole(item, 0, 1000000000, &g->timeout_ms, problem);
    if (!strcmp(key, "priority")) {
        err = read_whole(item, 0, 1000000000, &whole, problem);
        g->priority = whole && whole < 4 ? 4 - (int)whole : 0;
        return err;
    }
    const char *near = td_nearest(key, right, sizeof right / sizeof *right);
    return td_problem_set(problem, EINVAL,
                          "%.60s: is no parameter of a generation; %s%s%sGET "
                          "/openapi.yaml lists them",
                          key, near ? "the nearest is " : "", near ? near : "", near ? "; " : "");
}

static int read_body(struct td_generation *g, const cJSON *root, struct td_problem *problem)
{
    static const char *const members[] = {"input_ids", "parameters", "id", NULL};
    int err = td_json_members(root, "the body", members, problem);
    const cJSON *parameters = td_json_member(root, "parameters"), *item,
                *id = td_json_member(root, "id");
    if (!err && (!cJSON_IsObject(root) || !td_json_member(root, "input_ids")))
        err = refuse(problem, "the body", "must be an object with input_ids");
    if (!err && parameters && !cJSON_IsObject(parameters))
        err = refuse(problem, "parameters", "must be an object");
    if (!err && id)
        err = read_text(g, id, &g->id, problem);
    if (!err)
        err = read_tokens(g, td_json_member(root, "input_ids"), "input_ids", &g->prompt,
                          &g->n_prompt, problem);
    if (!err && !g->n_prompt)
        err = refuse(problem, "input_ids", "is empty; a generation goes on from a token");
    cJSON_ArrayForEach(item, parameters)
    {
        if (!err)
            err = read_parameter(g, item, problem);
    }
    if (!err && g->session && !*g->session)
        g->session = NULL;
    if (!err && g->session && !td_sessions_name_is_right(g->session))
        err = refuse(problem, "session",
                     "a session's name is letters, digits and . _ -, at most "
                     "200");
    if (!err && g->start && !g->session)
        err = refuse(problem, "session_start", "there is no session");
    return err;
}

int td_generate_read(struct td_generation *g, struct td_problem *problem)
{
    struct td_request *req = g->req;
    struct td_json json;
    g->most = 64;
    g->how = (struct td_sampling){.repetition_penalty = 1, .top_p = 1};
    g->timeout_ms = req->service->limits.timeout_ms;
    if (getrandom(&g->how.seed, sizeof g->how.seed, 0) != sizeof g->how.seed)
        return td_problem_set(problem, EIO, "no random numbers for a seed");
    if (!req->body_size)
        return refuse(problem, "the body", "is empty; it must be an object with input_ids");
    int err =
        td_json_parse(&json, req->body, req->body_size, req->service->limits.json_depth, problem);
    err = err ? err : read_body(g, json.root, problem);
    td_json_free(&json);
    return err;
}
