/* Heads that come again. A client sends the same head with every call over a connection, so the
 * last one that was taken is kept with it: a request whose head has the same bytes is the same
 * request but for its body, and what was made of it holds. Walking, judging and routing a head was
 * a tenth of the server's own part of a small call.
 *
 * libmicrohttpd writes zero bytes over the ends of names and lines, so what it leaves could come
 * from another head, which has zero bytes there itself, and ends elsewhere. So what is behind the
 * request line is compared when that line alone has been read, and as it must have come: colons and
 * CR LF are put back in what is kept. It is looked for where it lay the last time, in the
 * connection's own memory, which is as long as it was then; a head that has not come whole by then,
 * or that lies elsewhere, is judged anew.
 *
 * Kept are heads without a query, of which libmicrohttpd leaves other bytes than came; and of those
 * alone that were found right, and that no page has sent, for what is refused may change. A head
 * with a token is known again as long as the tokens are those by which it was judged. */
#include "server/http/threads.h"

#include <stdlib.h>
#include <string.h>

#define LONGEST 512

struct td_http_repeat {
    size_t size, line; /* bytes: of all, and of the request line with what ends it */
    const char *target;
    struct made {
        enum td_method method;
        const struct td_route *route;
        struct td_token *token; /* a reference, or NULL */
        bool local;
        int64_t json_length;
        uint64_t content_length;
        ptrdiff_t type, prefer, id, trace; /* where the values lie behind the method; -1: none */
        char var[TD_MAX_VARS][TD_NAME_SIZE];
    } made;
    char head[LONGEST]; /* the request line as libmicrohttpd leaves it, the rest as it came */
};

static const char *value(ptrdiff_t place, const char *head)
{
    return place < 0 ? NULL : head + place;
}

static ptrdiff_t place(const char *value, const char *head)
{
    return value ? value - head : -1;
}

struct fields { /* a walk over a head that is being put back */
    const char *begin;
    char *head;
    const char *next; /* where the next line must begin; NULL: that cannot be told */
};

/* MHD_KeyValueIteratorN */
static enum MHD_Result put_back(void *cls, enum MHD_ValueKind kind, const char *name,
                                size_t name_size, const char *value, size_t value_size)
{
    struct fields *f = cls;
    (void)kind;
    if (name != f->next || !value) {
        f->next = NULL;
        return MHD_NO;
    }
    f->head[name + name_size - f->begin] = ':';
    memcpy(f->head + (value + value_size - f->begin), "\r\n", 2);
    f->next = value + value_size + 2;
    return MHD_YES;
}

/* The head as it came, but for its request line. False: a line of it ends in another way. */
static bool copy_raw(struct td_http_repeat *r, struct MHD_Connection *connection,
                     const struct td_http_line *line)
{
    struct fields f = {line->method, r->head, line->method + r->line};
    memcpy(r->head, line->method, r->size);
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, put_back, &f);
    if (!f.next || f.next + 2 != line->end)
        return false;
    memcpy(r->head + r->size - 2, "\r\n", 2);
    return true;
}

void td_http_repeat_keep(struct td_http_repeat **repeat, struct MHD_Connection *connection,
                         const struct td_http_line *line, const struct td_request *req,
                         const struct td_http_head *head)
{
    size_t size = (size_t)(line->end - line->method);
    size_t first = (size_t)(line->version - line->method) + strlen(line->version) + 2;
    if (size > LONGEST || first + 2 > size || *req->query || req->path != line->target)
        return;
    for (int i = 0; i < TD_MAX_VARS; i++)
        if (req->var[i] && strlen(req->var[i]) >= TD_NAME_SIZE)
            return;
    struct td_http_repeat *r = *repeat ? *repeat : malloc(sizeof *r);
    if (!r)
        return;
    if (*repeat)
        td_http_repeat_forget(r);
    *repeat = r;
    r->size = size;
    r->line = first;
    r->target = line->target;
    r->made.token = NULL;
    if (!copy_raw(r, connection, line)) {
        r->size = 0;
        return;
    }
    r->made = (struct made){req->method,
                            req->route,
                            td_token_ref(req->token),
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
}

void td_http_repeat_forget(struct td_http_repeat *repeat)
{
    if (!repeat)
        return;
    repeat->size = 0;
    td_token_unref(repeat->made.token);
    repeat->made.token = NULL;
}

bool td_http_repeat_is(const struct td_http_repeat *repeat, const char *target)
{
    const struct td_http_repeat *r = repeat;
    if (!r || !r->size || target != r->target)
        return false;
    const char *begin = target - (strlen(r->head) + 1);
    return !memcmp(begin, r->head, r->line) &&
           !memcmp(begin + r->line, r->head + r->line, r->size - r->line);
}

bool td_http_repeat_take(const struct td_http_repeat *repeat, const struct td_http_line *line,
                         struct td_request *req, struct td_http_head *head)
{
    size_t size = (size_t)(line->end - line->method);
    if (repeat->size != size || *req->query ||
        line->method + strlen(repeat->head) + 1 != line->target)
        return false;
    const struct made *made = &repeat->made;
    if (!td_access_take(req, made->token))
        return false;
    for (int i = 0; i < TD_MAX_VARS && *made->var[i]; i++) {
        req->var[i] = td_arena_strdup(req->arena, made->var[i], strlen(made->var[i]));
        if (!req->var[i]) {
            td_access_leave(req);
            return false;
        }
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
