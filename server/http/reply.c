/* A response as libmicrohttpd wants it.
 *
 * Each carries the request's id, in a header that it would take 100 ns to add. A reply that never
 * changes is made once a thread and kept, and the id of the next request is written over the last
 * one: libmicrohttpd copies all headers into the connection's own memory before it turns to another
 * connection of the thread. */
#include "server/http/exchange.h"

#include <string.h>

static bool add(struct MHD_Response *r, const char *name, const char *value)
{
    return MHD_add_response_header(r, name, value) == MHD_YES;
}

/* The page that sent it may read the reply. */
static bool allow_origin(struct td_exchange *x, struct MHD_Response *r)
{
    return add(r, "Access-Control-Allow-Origin", x->head.origin) &&
           add(r, "Access-Control-Expose-Headers", "*") && add(r, "Vary", "Origin");
}

static struct MHD_Response *make(struct td_exchange *x, bool close_after)
{
    const struct td_response *res = &x->req.response;
    struct MHD_Response *r = td_http_body(x->thread, x->connection, &x->req);
    bool right = r && (!res->type || add(r, "Content-Type", res->type));
    for (int i = 0; right && i < TD_MAX_HEADERS && res->header[i].name; i++)
        right = add(r, res->header[i].name, res->header[i].value);
    right = right && add(r, TD_ID_HEADER, x->head.id) &&
            (!x->head.trace || add(r, TD_TRACE_HEADER, x->head.trace)) &&
            (!x->head.origin || allow_origin(x, r)) &&
            (!close_after || add(r, "Connection", "close"));
    if (right)
        return r;
    if (r)
        MHD_destroy_response(r);
    return NULL;
}

/* The thread's own of a constant body, with the id of this request; or NULL. */
static struct MHD_Response *take_kept(struct td_exchange *x)
{
    for (struct td_http_kept *k = x->thread->kept; k < x->thread->kept + TD_HTTP_KEPT; k++) {
        if (k->response && k->body != x->req.response.body)
            continue;
        if (!k->response && (k->response = make(x, false))) {
            k->body = x->req.response.body;
            k->id = (char *)(uintptr_t)MHD_get_response_header(k->response, TD_ID_HEADER);
        }
        if (k->response)
            memcpy(k->id, x->made, TD_ID_SIZE);
        return k->response;
    }
    return NULL;
}

/* While the server drains, each response is its connection's last: else clients that never pause
 * would keep it from ending. */
enum MHD_Result td_http_send(struct td_exchange *x)
{
    const struct td_response *res = &x->req.response;
    if (res->problem || *x->req.query)
        td_api_finish(&x->req);
    bool close = x->head.must_close ||
                 atomic_load_explicit(&x->req.service->front.draining, memory_order_relaxed);
    bool usual = !close && !x->head.origin && !x->head.trace && x->head.id == x->made;
    struct MHD_Response *kept = res->constant && usual ? take_kept(x) : NULL;
    struct MHD_Response *r = kept ? kept : make(x, close);
    if (!r)
        return MHD_NO;
    td_http_hold_reply(x);
    td_watch_phase(&x->thread->watch, x->client, TD_PHASE_sends, x->thread->now_ns);
    enum MHD_Result result = MHD_queue_response(x->connection, (unsigned)res->status, r);
    if (!kept)
        MHD_destroy_response(r);
    return result;
}

void td_http_drop_kept(struct td_http_thread *thread)
{
    for (int i = 0; i < TD_HTTP_KEPT; i++)
        if (thread->kept[i].response)
            MHD_destroy_response(thread->kept[i].response);
}
