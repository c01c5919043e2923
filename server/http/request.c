/* A request's life: headers -> td_api_begin; body bytes -> upload.c; end -> td_api_handle, which
 * answers, or leaves the connection suspended until a worker calls reply(). Everything of a request
 * lies in its arena and goes with it when libmicrohttpd has sent the response. */
#include "server/http/exchange.h"
#include "server/http/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define IDLE_NS INT64_C(1000000000)
#define NEVER_S 1000000        /* a timeout: eleven days */
#define SMALL_BODY (40 * 1024) /* a refused request's is read to its end up to here */

/* Called by the worker that has made the response (or by the handler on our own thread). The
 * exchange may be gone as soon as its connection is resumed. */
static void reply(struct td_request *req)
{
    struct td_exchange *x = (struct td_exchange *)req;
    struct td_http_thread *thread = x->thread;
    atomic_store(&x->state, ST_replied);
    MHD_resume_connection(x->connection);
    td_http_wake(thread);
    atomic_fetch_sub(&thread->handling, 1);
}

/* The end of the server waits for it. */
static void count(struct td_exchange *x)
{
    if (!x->counted)
        atomic_fetch_add_explicit(&x->req.service->front.in_flight, 1, memory_order_relaxed);
    x->counted = true;
}

/* libmicrohttpd (0.9.75) reads from a connection that is resumed before it asks for the response,
 * and closes it where the client has closed its side meanwhile. Connections whose timeout is not
 * the daemon's it asks first: so one that is with a worker has another timeout. */
static void set_asked_first(struct td_exchange *x, bool first)
{
    unsigned silent_s = x->thread->silent_s;
    unsigned other_s = silent_s ? silent_s + 1 : NEVER_S;
    MHD_set_connection_option(x->connection, MHD_CONNECTION_OPTION_TIMEOUT,
                              first ? other_s : silent_s);
}

/* The handler is about to give the request to a worker, which may be done before the handler is
 * back: so the connection is suspended now. */
static void defer(struct td_request *req)
{
    struct td_exchange *x = (struct td_exchange *)req;
    count(x);
    atomic_fetch_add(&x->thread->handling, 1);
    atomic_store(&x->state, ST_running);
    MHD_suspend_connection(x->connection);
    set_asked_first(x, true);
}

/* ---- requests ---- */

static const char *header(struct td_request *req, const char *name)
{
    struct td_exchange *x = (struct td_exchange *)req;
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

static const struct {
    const char *name;
    enum td_method method;
} methods[] = {{"GET", TD_GET},       {"POST", TD_POST}, {"PUT", TD_PUT},
               {"DELETE", TD_DELETE}, {"HEAD", TD_HEAD}, {"OPTIONS", TD_OPTIONS}};

/* A page that --allow-origin names asks before it sends. */
static void answer_preflight(struct td_exchange *x)
{
    x->req.response =
        (struct td_response){.status = 204,
                             .header = {{"Access-Control-Allow-Methods", "GET, POST, PUT, DELETE"},
                                        {"Access-Control-Allow-Headers", "*, Authorization"},
                                        {"Access-Control-Max-Age", "600"}}};
    x->refused = true;
}

/* Whose certificate the connection's client has shown, which is asked once. A Unix socket has none,
 * and its mode has let the client in. */
static void judge_certificate(struct td_exchange *x)
{
    struct td_client *client = x->client;
    struct td_problem problem;
    char name[TD_TLS_NAME];
    if (client->tls && !client->judged) {
        int got = td_tls_client(x->thread->http->tls, client->tls, name, &problem);
        client->certificate = got > 0 ? strdup(name) : NULL;
        client->untrusted = got < 0 ? strdup(problem.text) : NULL;
        client->judged = true;
    }
    x->req.certificate = client->certificate;
    x->req.untrusted = client->untrusted;
    if (!client->tls && !x->req.service->access)
        x->req.certificate = "";
}

static void judge(struct td_exchange *x)
{
    struct td_request *req = &x->req;
    req->method = TD_METHODS;
    for (size_t i = 0; i < sizeof methods / sizeof *methods && req->method == TD_METHODS; i++)
        if (!strcmp(x->line.method, methods[i].name))
            req->method = methods[i].method;
    x->refused = td_http_head_judge(x->thread, x->connection, &x->line, req, &x->head) != 0;
    judge_certificate(x);
    if (!x->refused && x->head.preflight)
        answer_preflight(x);
    else if (!x->refused)
        x->refused = td_api_begin(req) != 0;
    if (!x->refused && !x->head.origin)
        td_http_repeat_keep(&x->client->repeat, x->connection, &x->line, req, &x->head);
}

/* The head is there: set the request up and let the api judge it. */
static void begin(struct td_exchange *x, struct td_http_thread *thread, const char *url,
                  const char *method, const char *version)
{
    struct td_request *req = &x->req;
    bool draining = atomic_load_explicit(&req->service->front.draining, memory_order_relaxed);
    req->path = url;
    req->begin_ns = thread->now_ns;
    req->home = *thread->home ? thread->home : NULL;
    req->busy = &thread->busy;
    req->defer = defer;
    req->reply = reply;
    req->header = header;
    req->crowded = td_http_is_crowded;
    req->content_length = UINT64_MAX;
    x->begun = true;
    x->line.method = method;
    x->line.version = version;
    x->line.end =
        method + MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)
                     ->header_size;
    x->client->heads += (uint64_t)(x->line.end - method);
    x->line.loopback = x->client->loopback;
    x->line.over_ip = x->client->address.ss_family != AF_UNIX;
    count(x);
    td_watch_phase(&thread->watch, x->client, TD_PHASE_body, req->begin_ns);
    if (draining || !x->repeats || !td_http_repeat_take(x->client->repeat, &x->line, req, &x->head))
        judge(x);
    else
        x->refused = td_access_enter(req) != 0;
    if (!x->refused && req->route->scope > TD_SCOPE_any)
        x->refused = td_http_is_crowded(req);
    if (!x->head.id)
        x->head.id = td_http_id_make(thread, x->made);
    if (!x->refused && req->content_length != UINT64_MAX && req->content_length)
        td_http_upload_begin(x);
}

/* What follows the '?', copied: libmicrohttpd takes it apart afterwards. NULL: no memory. */
static const char *copy_query(struct td_arena *arena, const char *target, size_t n)
{
    const char *mark = memchr(target, '?', n);
    if (!mark)
        return "";
    char *query = td_arena_strdup(arena, mark + 1, n - (size_t)(mark + 1 - target));
    for (char *p = query; p && *p; p++)
        if (*p == '+')
            *p = ' ';
    return query;
}

static struct td_exchange *create(struct td_http_thread *thread, struct MHD_Connection *connection,
                                  const char *target)
{
    struct td_client *client = *(struct td_client **)MHD_get_connection_info(
        connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (!client || client->phase == TD_PHASE_closes) /* it is not watched, or not answered */
        return NULL;
    struct td_service *service = thread->http->service;
    struct td_arena *arena = thread->spare ? thread->spare : td_arena_create();
    thread->spare = NULL;
    struct td_exchange *x = arena ? td_arena_zalloc(arena, sizeof *x) : NULL;
    const char *query = x ? copy_query(arena, target, strlen(target)) : NULL;
    if (!query) {
        td_arena_destroy(arena);
        return NULL;
    }
    x->req.arena = arena;
    x->req.service = service;
    x->req.query = query;
    td_http_line_begin(&x->line, target);
    x->connection = connection;
    x->thread = thread;
    x->client = client;
    x->repeats = td_http_repeat_is(client->repeat, target);
    client->exchange = x;
    x->req.gone = &client->gone;
    td_watch_phase(&thread->watch, client, TD_PHASE_head, thread->now_ns);
    return x;
}

/* The body is there: run, unless td_http_stop has begun. */
static enum MHD_Result handle(struct td_exchange *x)
{
    struct td_http_thread *thread = x->thread;
    td_watch_phase(&thread->watch, x->client, TD_PHASE_works, thread->now_ns);
    if (x->refused)
        return td_http_send(x);
    if (!atomic_load(&thread->http->closing) && td_api_handle(&x->req) == -EINPROGRESS)
        return MHD_YES;
    return x->req.response.status ? td_http_send(x) : MHD_NO;
}

void *td_http_on_target(void *cls, const char *target, struct MHD_Connection *connection)
{
    struct td_http_thread *thread = cls;
    thread->callbacks++;
    return create(thread, connection, target);
}

enum MHD_Result td_http_on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                   const char *method, const char *version, const char *data,
                                   size_t *size, void **context)
{
    struct td_http_thread *thread = cls;
    struct td_exchange *x = *context;
    (void)connection;
    thread->callbacks++;
    if (!x)
        return MHD_NO;
    if (!x->begun) {
        begin(x, thread, url, method, version);
        /* A body that would be dropped anyway is not waited for when it is big. */
        uint64_t length = x->req.content_length;
        if (x->refused && (x->head.must_close || (length > SMALL_BODY && length != UINT64_MAX)))
            return td_http_send(x);
        return MHD_YES;
    }
    if (atomic_load(&x->state) == ST_replied) {
        set_asked_first(x, false);
        return td_http_send(x);
    }
    if (*size) {
        int err = td_http_upload_take(x, data, *size);
        *size = 0;
        return err ? MHD_NO : MHD_YES;
    }
    return handle(x);
}

/* A thread's small requests follow one another in the same memory; allocating it anew cost 1,000
 * instructions of 25,000. A sanitizer is to see what is used too late, so not under it. */
static void free_arena(struct td_http_thread *thread, struct td_arena *arena)
{
#ifdef __SANITIZE_ADDRESS__
    bool keep = false;
#else
    bool keep = !thread->spare;
#endif
    if (keep) {
        thread->spare = td_arena_reset(arena);
    } else {
        td_arena_destroy(arena);
    }
}

/* What was not answered, as its client has gone in the middle, gets no line. */
static void log_end(struct td_exchange *x, int64_t now)
{
    struct td_http_thread *thread = x->thread;
    struct td_log *log = thread->http->config.log;
    if (x->req.response.status && td_log_wants(log, &thread->turn, &x->req, now))
        td_log_write(log, &thread->turn,
                     &(struct td_log_request){.req = &x->req,
                                              .id = x->head.id,
                                              .method = x->line.method,
                                              .trace = x->head.trace,
                                              .client = &x->client->address,
                                              .received = x->received,
                                              .now = now});
}

static void end(struct td_exchange *x)
{
    struct td_service *service = x->req.service;
    int64_t now = x->thread->now_ns = td_now_ns();
    x->client->exchange = NULL;
    td_watch_phase(&x->thread->watch, x->client, TD_PHASE_waits, now);
    log_end(x, now);
    td_api_end(&x->req, now);
    bool counted = x->counted;
    td_http_let_go(x);
    free_arena(x->thread, x->req.arena);
    if (counted)
        atomic_fetch_sub(&service->front.in_flight, 1);
}

void td_http_on_completed(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_RequestTerminationCode code)
{
    (void)cls;
    (void)connection;
    (void)code;
    if (*context)
        end(*context);
    *context = NULL;
}

/* Of an address that has as many connections as it may, one that has been idle for longest, and a
 * second at least, goes for the next; where none has been, the next must not come. */
enum MHD_Result td_http_on_accept(void *cls, const struct sockaddr *from, socklen_t size)
{
    struct td_http_thread *thread = cls;
    struct td_watch *watch = &thread->watch;
    struct sockaddr_storage address = {0};
    memcpy(&address, from, size < sizeof address ? size : sizeof address);
    const struct td_peer *full = td_peers_refuses(&thread->http->peers, &address);
    if (!full)
        return MHD_YES;
    struct td_client *c = watch->waiting.next;
    while (c != &watch->waiting && c->peer != full)
        c = c->next;
    if (c == &watch->waiting || thread->now_ns - c->since_ns < IDLE_NS)
        return MHD_NO;
    shutdown(c->fd, SHUT_WR);
    td_watch_phase(watch, c, TD_PHASE_closes, thread->now_ns);
    return MHD_YES;
}

static void end_handshake(void *client)
{
    td_tcp_mark(client);
}

void td_http_on_connection(void *cls, struct MHD_Connection *connection, void **context,
                           enum MHD_ConnectionNotificationCode code)
{
    struct td_http_thread *thread = cls;
    struct td_watch *watch = &thread->watch;
    thread->callbacks++;
    thread->again |= code == MHD_CONNECTION_NOTIFY_CLOSED;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        struct td_client *client = td_watch_add(watch, info->connect_fd, thread->now_ns);
        if (client && !(client->peer = td_peers_add(&thread->http->peers, &client->address))) {
            td_watch_remove(watch, client);
            client = NULL;
        }
        if (client && thread->http->tls) {
            client->tls = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION)
                              ->tls_session;
            client->handshake = (struct td_tls_hook){end_handshake, client};
            td_tls_begin(client->tls, &client->handshake);
        }
        *context = client;
    } else if (*context) {
        struct td_client *client = *context;
        if (client->exchange) /* a query with more than there is room for ends without a word */
            end(client->exchange);
        td_peers_remove(&thread->http->peers, client->peer);
        td_http_repeat_forget(client->repeat);
        free(client->certificate);
        free(client->untrusted);
        td_watch_remove(watch, client);
    }
}

bool td_http_head_is_there(void *exchange)
{
    struct td_exchange *x = exchange;
    return !x->begun &&
           MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
}

size_t td_http_keep_escapes(void *cls, struct MHD_Connection *connection, char *text)
{
    (void)cls;
    (void)connection;
    return strlen(text);
}
