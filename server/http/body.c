/* How the bytes of a response go out. libmicrohttpd gives a buffer to the socket in one system
 * call, which for megabytes keeps the thread's other connections waiting as long. From a callback
 * it takes a piece, and then it is the others' turn.
 *
 * Where other programs want the thread's CPU as well, such as clients on the same machine, turns
 * are not enough: between two pieces these programs run, read their piece, and small calls wait for
 * all of it. Then a piece goes out every TD_HTTP_PACE_NS as long as small calls keep coming, which
 * leaves big replies 40 MB/s; until its time has come, the reply's connection is suspended.
 * Measured with both on one CPU, 4 MiB replies beside calls of 0.2 ms: the p99 of these was 3 to 5
 * times what it is alone with whole buffers, 1.4 to 1.5 with turns, 1.0 to 1.2 so
 * (tests/bench/isolation.py). */
#include "server/http/exchange.h"

#include <string.h>

#define PIECE (32 * 1024)
#define RECENT_NS 20000000 /* as long as this after the last one, small calls keep coming */

struct body {
    struct td_http_held held;
    struct td_http_thread *thread;
    const char *bytes;
};

/* Yields where small calls are about; true when they must not be disturbed yet. */
static bool give_way(struct td_http_thread *thread, int64_t *now)
{
    if (*now - thread->small_ns > RECENT_NS)
        return false;
    *now = td_http_yield(thread, *now);
    return td_http_is_contended(thread, *now) && *now - thread->piece_ns < TD_HTTP_PACE_NS;
}

/* MHD_ContentReaderCallback; 0: not now, the connection is suspended. */
static ssize_t next_piece(void *cls, uint64_t at, char *to, size_t room)
{
    struct body *body = cls;
    struct td_http_thread *thread = body->thread;
    int64_t now = td_now_ns();
    thread->callbacks++;
    if (give_way(thread, &now)) {
        td_http_hold(thread, &body->held);
        return 0;
    }
    thread->piece_ns = now;
    memcpy(to, body->bytes + at, room); /* no more is asked for than there is */
    return (ssize_t)room;
}

/* ---- replies that are made while they are sent ---- */

static void hold(void *cls)
{
    struct td_exchange *x = cls;
    atomic_fetch_add(&x->thread->handling, 1); /* the end of the server waits for it */
    td_watch_phase(&x->thread->watch, x->client, TD_PHASE_works, x->thread->now_ns);
    MHD_suspend_connection(x->connection);
}

/* Called by a worker. The exchange may be gone as soon as its connection is resumed. */
static void wake(void *cls)
{
    struct td_exchange *x = cls;
    struct td_http_thread *thread = x->thread;
    MHD_resume_connection(x->connection);
    td_http_wake(thread);
    atomic_fetch_sub(&thread->handling, 1);
}

/* MHD_ContentReaderCallback. */
static ssize_t next_part(void *cls, uint64_t at, char *to, size_t room)
{
    struct td_exchange *x = cls;
    (void)at;
    x->thread->callbacks++;
    long n = td_stream_read(x->req.response.stream, to, room, hold, wake, x);
    if (n > 0)
        td_watch_phase(&x->thread->watch, x->client, TD_PHASE_sends, x->thread->now_ns);
    return n < 0 ? MHD_CONTENT_READER_END_OF_STREAM : n;
}

static void no_free(void *bytes)
{
    (void)bytes;
}

struct MHD_Response *td_http_body(struct td_http_thread *thread, struct MHD_Connection *connection,
                                  const struct td_request *req)
{
    const struct td_response *res = &req->response;
    if (res->stream)
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PIECE, next_part,
                                                 (struct td_exchange *)(uintptr_t)req, NULL);
    bool small = res->size <= 4 * PIECE || res->constant;
    struct body *body = small ? NULL : td_arena_alloc(req->arena, sizeof *body);
    if (body) {
        *body = (struct body){{.connection = connection}, thread, res->body};
        return MHD_create_response_from_callback(res->size, PIECE, next_piece, body, NULL);
    }
    thread->small_ns = req->begin_ns;
    return MHD_create_response_from_buffer_with_free_callback(
        res->size, (void *)(uintptr_t)res->body, no_free);
}
