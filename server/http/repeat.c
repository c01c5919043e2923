/* Heads that come again. A client sends the same head with every call over a connection, so the
 * last one that was taken is kept with it: a request whose head has the same bytes, as
 * libmicrohttpd has left them in its buffer, is the same request but for its body, and what was
 * made of it holds. Walking, judging and routing a head was a tenth of the server's own part of a
 * small call.
 *
 * Kept are heads without a query, of which libmicrohttpd leaves other bytes than came; and of those
 * alone that were found right, and that no page has sent, for what is refused may change. */
#include "server/http/threads.h"

#include <stdlib.h>
#include <string.h>

#define LONGEST 512

struct td_http_repeat {
    size_t size;
    struct made {
        enum td_method method;
        const struct td_route *route;
        bool local;
        int64_t json_length;
        uint64_t content_length;
        ptrdiff_t type, prefer, id, trace; /* where the values lie behind the method; -1: none */
        char var[TD_MAX_VARS][TD_NAME_SIZE];
    } made;
    char head[LONGEST];
};

static const char *value(ptrdiff_t place, const char *head)
{
    return place < 0 ? NULL : head + place;
}

static ptrdiff_t place(const char *value, const char *head)
{
    return value ? value - head : -1;
}

void td_http_repeat_keep(struct td_http_repeat **repeat, const struct td_http_line *line,
                         const struct td_request *req, const struct td_http_head *head)
{
    size_t size = (size_t)(line->end - line->method);
    if (size > LONGEST || *req->query || req->path != line->target)
        return;
    for (int i = 0; i < TD_MAX_VARS; i++)
        if (req->var[i] && strlen(req->var[i]) >= TD_NAME_SIZE)
            return;
    struct td_http_repeat *r = *repeat ? *repeat : malloc(sizeof *r);
    if (!r)
        return;
    *repeat = r;
    r->size = size;
    r->made = (struct made){req->method,
                            req->route,
                            req->local,
                            req->json_length,
                            req->content_length,
                            place(req->content_type, line->method),
                            place(req->prefer, line->method),
                            place(head->id, line->method),
                            place(head->trace, line->method),
                            {""}};
    for (int i = 0; i < TD_MAX_VARS; i++)
        if (req->var[i])
            strcpy(r->made.var[i], req->var[i]);
    memcpy(r->head, line->method, size);
}

bool td_http_repeat_take(const struct td_http_repeat *repeat, const struct td_http_line *line,
                         struct td_request *req, struct td_http_head *head)
{
    size_t size = (size_t)(line->end - line->method);
    if (!repeat || repeat->size != size || *req->query || memcmp(repeat->head, line->method, size))
        return false;
    const struct made *made = &repeat->made;
    for (int i = 0; i < TD_MAX_VARS && *made->var[i]; i++) {
        req->var[i] = td_arena_strdup(req->arena, made->var[i], strlen(made->var[i]));
        if (!req->var[i])
            return false;
    }
    req->method = made->method;
    req->route = made->route;
    req->local = made->local;
    req->json_length = made->json_length;
    req->content_length = made->content_length;
    req->content_type = value(made->type, line->method);
    req->prefer = value(made->prefer, line->method);
    head->id = value(made->id, line->method);
    head->trace = value(made->trace, line->method);
    return true;
}
