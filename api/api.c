/* From a request's head to its handler: match the route, judge method and lengths; and what all
 * requests share, made and taken down. Entered by every HTTP thread; holds no state but the const
 * route table. */
#include "api/api.h"

#include "api/access/access.h"
#include "api/metrics/metrics.h"
#include "api/models/models.h"
#include "api/openapi/openapi.h"
#include "api/request/request.h"
#include "api/routes/routes.h"
#include "api/sessions/sessions.h"
#include "api/shm/shm.h"
#include "api/tasks/tasks.h"
#include "api/tensors/tensors.h"
#include "dispatch/choice/library.h"
#include "dispatch/graph/cache.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_BODY ((size_t)64 << 10)

const struct td_route td_routes[] = {
#define TD_ROUTE(method, pattern, name, body, scope)                                               \
    {TD_##method, pattern, TD_BODY_##body, TD_SCOPE_##scope, td_api_##name},
#include "api/routes.def"
#undef TD_ROUTE
    {0},
};

static const char *const method_names[TD_METHODS + 1] = {"GET",  "POST",    "PUT",        "DELETE",
                                                         "HEAD", "OPTIONS", "this method"};

/* ---- routes ---- */

/* Whether path has the form of the pattern, up to its '?'; the variables' places are noted. */
static bool matches(const char *pattern, const char *path, const char *var[TD_MAX_VARS],
                    size_t var_size[TD_MAX_VARS])
{
    int n = 0;
    while (*pattern && *pattern != '?') {
        if (*pattern != '{') {
            if (*pattern++ != *path++)
                return false;
            continue;
        }
        const char *close = strchr(pattern, '}');
        size_t size = close[-1] == '*' ? strlen(path) : strcspn(path, "/");
        if (!size)
            return false;
        var[n] = path;
        var_size[n++] = size;
        path += size;
        pattern = close + 1;
    }
    return !*path;
}

static int no_route(struct td_request *req, const char *path)
{
    char allow[64] = "";
    bool eval = false;
    for (const struct td_route *route = td_routes; route->handler; route++) {
        const char *var[TD_MAX_VARS];
        size_t size[TD_MAX_VARS], at = strlen(allow);
        if (matches(route->pattern, path, var, size))
            snprintf(allow + at, sizeof allow - at, "%s%s%s", at ? ", " : "",
                     method_names[route->method], route->method == TD_GET ? ", HEAD" : "");
        eval = eval || (strlen(allow) > at && route->handler == td_api_eval);
    }
    if (!*allow) {
        const char *near = td_nearest_route(req->arena, path);
        td_api_problem(req, -ENOENT, "no route '%.200s'; %s%s%sGET /openapi.yaml lists them",
                       req->path, near ? "the nearest is " : "", near ? near : "",
                       near ? "; " : "");
        return -1;
    }
    td_api_problem(req, -ENOTSUP, "%s is not allowed on %.200s; right are: %s%s",
                   method_names[req->method], req->path, allow,
                   eval ? ", with a body such as {\"expr\":\"2 + 3\"}" : "");
    req->response.header[0] =
        (struct td_header){"Allow", td_arena_strdup(req->arena, allow, strlen(allow))};
    return -1;
}

static int find_route(struct td_request *req)
{
    const char *path = req->path;
    size_t n = strlen(path);
    if (n > 1 && path[n - 1] == '/') /* /v2/ is /v2 */
        path = td_arena_strdup(req->arena, path, n - 1);
    if (!path)
        return td_api_problem(req, -ENOMEM, "no memory for the request");
    enum td_method method = req->method == TD_HEAD ? TD_GET : req->method;
    for (const struct td_route *route = td_routes; route->handler; route++) {
        const char *var[TD_MAX_VARS];
        size_t size[TD_MAX_VARS] = {0};
        if (route->method != method || !matches(route->pattern, path, var, size))
            continue;
        req->route = route;
        for (int i = 0; i < TD_MAX_VARS && size[i]; i++) {
            req->var[i] = td_api_unescape(req->arena, var[i], size[i]);
            if (!req->var[i]) {
                td_api_problem(req, -EINVAL, "the path holds a malformed escape");
                return -1;
            }
        }
        return 0;
    }
    return no_route(req, path);
}

/* Whether the route is one of our own that run something: its query has parameters of the call. */
static bool is_call(const struct td_request *req)
{
    return req->route->handler == td_api_ops_run || req->route->handler == td_api_models_run ||
           req->route->handler == td_api_eval;
}

/* Whether it tells of what a POST to the same path computes. */
static bool is_told(const struct td_request *req)
{
    return req->route->handler == td_api_ops_get || req->route->handler == td_api_models_get;
}

/* Whether the query has another parameter with the name of n bytes that begins at name. */
static bool is_repeated(const char *name, size_t n)
{
    const char *next = strchr(name, '&');
    while (next && (strncmp(next + 1, name, n) || !strchr("=&", next[1 + n])))
        next = strchr(next + 1, '&');
    return next;
}

/* The query has the parameters that follow the '?' of the route's pattern, and pretty. */
static int judge_query(struct td_request *req)
{
    const char *right = strchr(req->route->pattern, '?');
    bool pretty; /* api/web/finish.c obeys it */
    if (is_call(req))
        return *req->query ? td_api_query_flag(req, "pretty", &pretty) : 0;
    for (const char *at = req->query; *at; at += strcspn(at, "&"), at += *at == '&') {
        size_t n = strcspn(at, "=&");
        const char *name = right ? right + 1 : "";
        if (n && is_repeated(at, n))
            return td_api_problem(req, -EINVAL, "query: '%.*s' is given twice",
                                  n < 60 ? (int)n : 60, at);
        while (*name && (strcspn(name, "&") != n || memcmp(name, at, n)))
            name += strcspn(name, "&") + (name[strcspn(name, "&")] == '&');
        if (!*name && n && (n != 6 || memcmp(at, "pretty", n) != 0))
            return td_api_problem(
                req, -EINVAL, "query: '%.*s' is no parameter here; %s%s%s", n < 60 ? (int)n : 60,
                at, right ? "right are: " : "this route has none", right ? right + 1 : "",
                req->method == TD_POST ? "; a call's own go into the body's \"parameters\""
                : is_told(req)         ? "; POST computes it, with its arguments in a JSON body"
                                       : "");
    }
    return *req->query ? td_api_query_flag(req, "pretty", &pretty) : 0;
}

/* Inference-Header-Content-Length: bytes of JSON before the binary tensors. */
static int read_json_length(struct td_request *req)
{
    const char *text = req->json_length_text;
    req->json_length = -1;
    if (!text)
        return 0;
    char *end;
    errno = 0;
    long long n = isdigit((unsigned char)*text) ? strtoll(text, &end, 10) : -1;
    if (n >= 0)
        end += strspn(end, " \t"); /* blanks behind a value are no part of it */
    if (n < 0 || errno || *end ||
        (req->content_length != UINT64_MAX && (uint64_t)n > req->content_length)) {
        td_api_problem(req, -EINVAL,
                       "Inference-Header-Content-Length: '%.40s' is wrong; it is the JSON's length "
                       "in bytes, at most the body's",
                       text);
        return -1;
    }
    req->json_length = n;
    return 0;
}

static int judge_type(struct td_request *req)
{
    bool npy = td_api_is_type(req, "application/x-npy") && is_call(req) &&
               req->route->handler != td_api_eval;
    if (npy || td_api_is_json(req) ||
        req->route->handler == td_api_tensors_put /* which take more */ ||
        req->route->handler == td_api_models_put || req->route->handler == td_api_sessions_put)
        return 0;
    return td_api_problem(
        req, -EPROTONOSUPPORT,
        "Content-Type: '%.60s' is not understood; right are application/json, and "
        "application/octet-stream for JSON with binary tensors behind it",
        req->content_type);
}

int td_api_begin(struct td_request *req)
{
    if (find_route(req) || td_access_judge(req) || judge_query(req) || judge_type(req) ||
        read_json_length(req))
        return -1;
    if (atomic_load_explicit(&req->service->front.draining, memory_order_relaxed) &&
        req->method == TD_PUT) {
        td_api_problem(req, -ESHUTDOWN, "the server is draining and keeps nothing new");
        return -1;
    }
    if (req->content_length != UINT64_MAX && req->content_length > td_api_body_limit(req)) {
        td_api_problem(req, -EMSGSIZE, "the body has %llu bytes; at most %zu are taken here",
                       (unsigned long long)req->content_length, td_api_body_limit(req));
        return -1;
    }
    return 0;
}

size_t td_api_body_limit(const struct td_request *req)
{
    size_t most = req->service->limits.body;
    return req->route && req->route->body == TD_BODY_small && most > SMALL_BODY ? SMALL_BODY : most;
}

/* Of the body behind the begin of its block. */
static size_t shift_of(const struct td_request *req)
{
    return req->json_length > 0 ? (size_t)(-req->json_length & 63) : 0;
}

char *td_api_body(struct td_request *req, size_t size)
{
    size_t shift = shift_of(req);
    char *room = td_arena_reserve(req->arena, size + shift + 1);
    return room ? room + shift : NULL;
}

int td_api_body_fill(struct td_request *req, char *body, size_t size)
{
    size_t shift = shift_of(req);
    return td_arena_fill(req->arena, body - shift, size + shift + 1);
}

void td_api_body_drop(struct td_request *req, char *body)
{
    td_arena_drop(req->arena, body - shift_of(req));
}

int td_api_handle(struct td_request *req)
{
    if (req->json_length > 0 && (size_t)req->json_length > req->body_size) {
        td_api_problem(req, -EINVAL,
                       "Inference-Header-Content-Length: %lld is beyond the body's "
                       "%zu bytes",
                       (long long)req->json_length, req->body_size);
        return 0;
    }
    return td_api_run(req);
}

void td_api_end(struct td_request *req, int64_t now_ns)
{
    if (req->response.status)
        td_metrics_request(req->service->metrics, req->route ? (int)(req->route - td_routes) : -1,
                           req, now_ns);
    if (req->release_)
        req->release_(req);
    td_access_leave(req);
}

/* ---- the service ---- */

void td_service_fini(struct td_service *service)
{
    td_sessions_destroy(service->sessions);
    td_models_destroy(service->models);
    td_tensors_destroy(service->tensors);
    td_metrics_destroy(service->metrics);
    td_shm_destroy(service->shm);
    td_task_table_destroy(service->tasks);
    td_json_cache_destroy(service->json_cache);
    td_expr_forget();
    td_fixed_destroy(service);
    td_openapi_fini(service);
    td_access_destroy(service->access);
    service->access = NULL;
}

int td_service_guard(struct td_service *service, const char *tokens, struct td_problem *problem)
{
    return td_access_create(&service->access, service, td_tensors_budget(service->tensors), tokens,
                            problem);
}

int td_service_init(struct td_service *service)
{
    td_library_count();
    td_expr_watch_memory();
    service->tensors = td_tensors_create(service->limits.store_bytes);
    service->models =
        service->tensors ? td_models_create(service->tensors, service->topology) : NULL;
    service->sessions = service->models
                            ? td_sessions_create(service->models, service->limits.session_bytes,
                                                 service->limits.session_ttl_s)
                            : NULL;
    service->metrics = td_metrics_create();
    service->shm = td_shm_create();
    service->tasks = td_task_table_create(service);
    service->json_cache = td_json_cache_create(service->limits.json_depth);
    if (!service->tensors || !service->models || !service->sessions || !service->metrics ||
        !service->shm || !service->tasks || !service->json_cache || td_fixed_create(service)) {
        td_service_fini(service);
        return -ENOMEM;
    }
    return 0;
}
