/* What there is to ask for: the routes as a list, beside the page for people, and the one that was
 * likely meant by a path that is none. */
#include "api/routes/routes.h"
#include "api/web/web.h"

#include <string.h>

/* The list alone, without the handlers: these are among them. */
static const struct td_route routes[] = {
#define TD_ROUTE(method, pattern, name, body, scope)                                               \
    {TD_##method, pattern, TD_BODY_##body, TD_SCOPE_##scope, NULL},
#include "api/routes.def"
#undef TD_ROUTE
};
#define ROUTES ((int)(sizeof routes / sizeof *routes))

static const char *const methods[TD_METHODS] = {"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"};

static size_t path_size(const struct td_route *route)
{
    return strcspn(route->pattern, "?");
}

static bool same_path(const struct td_route *a, const struct td_route *b)
{
    return path_size(a) == path_size(b) && !memcmp(a->pattern, b->pattern, path_size(a));
}

static void write_path(struct td_writer *w, struct td_arena *arena, const struct td_route *route)
{
    td_write_open(w, NULL, '{');
    td_write_str(w, "path", td_arena_strdup(arena, route->pattern, path_size(route)));
    td_write_open(w, "methods", '[');
    for (int i = 0; i < ROUTES; i++)
        if (same_path(&routes[i], route))
            td_write_str(w, NULL, methods[routes[i].method]);
    td_write_close(w, ']');
    td_write_close(w, '}');
}

void td_write_routes(struct td_writer *w, struct td_arena *arena, const char *under)
{
    td_write_open(w, "routes", '[');
    for (int i = 0; i < ROUTES; i++) {
        int first = 0;
        while (!same_path(&routes[first], &routes[i]))
            first++;
        if (first == i && !strncmp(routes[i].pattern, under, strlen(under)))
            write_path(w, arena, &routes[i]);
    }
    td_write_close(w, ']');
}

static int answer(struct td_request *req, struct td_response *res, const char *under)
{
    struct td_writer w;
    td_write_init(&w, req->arena, 4096);
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "name", "tensord");
    td_write_str(&w, "version", TD_VERSION);
    td_write_str(&w, "description", "/openapi.json");
    td_write_routes(&w, req->arena, under);
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

int td_api_v1_list(struct td_request *req, struct td_response *res)
{
    return answer(req, res, "/v1");
}

int td_api_root_get(struct td_request *req, struct td_response *res)
{
    if (td_asks_for(req, "Accept", "application/json") && !td_asks_for(req, "Accept", "text/html"))
        return answer(req, res, "/");
    return td_asset_send(req, res, td_asset_find("index.html"));
}

/* The same page, which begins with the reference there. */
int td_api_docs_get(struct td_request *req, struct td_response *res)
{
    return td_asset_send(req, res, td_asset_find("index.html"));
}

/* ---- what was meant ---- */

/* The pattern, {variables} replaced by what stands at their place in the path. */
static const char *as_meant(struct td_arena *arena, const struct td_route *route, const char *path)
{
    size_t size = strlen(route->pattern) + strlen(path) + 1, n = 0;
    char *text = td_arena_alloc(arena, size);
    for (const char *p = route->pattern; text && *p && *p != '?'; p++) {
        size_t segment = strcspn(path, "/");
        if (*p == '{') {
            const char *close = strchr(p, '}');
            segment = close[-1] == '*' ? strlen(path) : segment;
            memcpy(text + n, path, segment);
            n += segment;
            p = close;
        } else {
            text[n++] = *p;
        }
        if (*p == '/') /* on to the path's next segment */
            path += segment + (path[segment] == '/');
    }
    if (text)
        text[n] = 0;
    return text;
}

/* Whether both begin with the same segment, as "/v1/eval" and "/v1/evaluate" do. A client's path
 * may be empty: "GET ?a=1". */
static bool same_prefix(const char *path, const char *pattern)
{
    if (*path != '/')
        return false;
    size_t n = strcspn(path + 1, "/") + 1;
    return !strncmp(path, pattern, n) && (pattern[n] == '/' || !pattern[n]);
}

const char *td_nearest_route(struct td_arena *arena, const char *path)
{
    const char *meant[ROUTES] = {NULL}, *like[ROUTES], *near;
    int n = 0;
    for (int i = 0; i < ROUTES; i++) {
        if (!(meant[i] = as_meant(arena, &routes[i], path)))
            return NULL;
        if (same_prefix(path, routes[i].pattern))
            like[n++] = meant[i];
    }
    near = td_nearest(path, like, n);
    near = near ? near : td_nearest(path, meant, ROUTES);
    for (int i = 0; i < ROUTES; i++) /* or the first whose path goes on, or begins, with it */
        if (near ? near == meant[i] : strlen(path) > 2 && strstr(routes[i].pattern, path))
            return td_arena_strdup(arena, routes[i].pattern, path_size(&routes[i]));
    return NULL;
}
