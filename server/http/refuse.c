/* libmicrohttpd answers heads and chunks that it cannot read by itself: in HTML, before any
 * callback, and some of them (0.9.75, a wrong Content-Length) with two heads. Just before, it says
 * so in its log, which is this; so the problem is sent from here, straight to the socket, which is
 * then shut for sending: what libmicrohttpd sends goes nowhere, and it closes the connection.
 *
 * The log does not say whose request it was. It is taken for the one connection of the thread that
 * it can be: not for one that waits and has sent nothing since its last request, as TCP knows.
 * Where there are several, which takes several that are in the middle of a head at that moment, the
 * library's own words stand rather than that an innocent one is refused. */
#include "server/http/threads.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static const struct {
    unsigned status;
    int error;
    const char *detail;
} refusals[] = {
    /* the first stands for all statuses that are not here */
    {400, -EINVAL,
     "the request is not as RFC 9112 has it: a request line, a header without a colon, a "
     "Content-Length that is no number, or a chunk's length"},
    {413, -EMSGSIZE, "Content-Length or a chunk's length is too large for any body"},
    {414, -EOVERFLOW, "the request line is longer than all headers may be"},
    {431, -EOVERFLOW, "the headers are longer than is taken"},
    {501, -ENOSYS, "the request asks for what HTTP/1.1 has, and this server has not"},
    {505, -EPROTO, "the request line names a version of HTTP that is not spoken here"},
};

/* 431 and 413 come behind the request line, chunks behind the head, the others anywhere. */
static struct td_client *find_client(struct td_watch *watch, unsigned status, bool chunk)
{
    struct td_client *found = NULL;
    int n = 0;
    for (struct td_client *c = watch->active.next; c != &watch->active; c = c->next) {
        if (c->phase == TD_PHASE_head && td_http_head_is_there(c->exchange))
            return c; /* and was not given to us: it is this one */
        if (c->phase == TD_PHASE_body || (c->phase == TD_PHASE_head && !chunk)) {
            found = c;
            n++;
        }
    }
    bool may_wait = !chunk && status != 431 && status != 413;
    if (!may_wait || n > 1)
        return n == 1 ? found : NULL;
    int begun;
    struct td_client *waiting = td_watch_begun(watch, &begun);
    return n + begun != 1 ? NULL : n ? found : waiting;
}

static void send_problem(struct td_client *client, const struct td_request *req, const char *id)
{
    const struct td_response *res = &req->response;
    char head[512], date[64] = "";
    time_t now = time(NULL);
    struct tm utc;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &utc));
    int n = snprintf(
        head, sizeof head,
        "HTTP/1.1 %d %s\r\nDate: %s\r\nConnection: close\r\nContent-Type: %s\r\n" TD_ID_HEADER
        ": %s\r\nContent-Length: %zu\r\n\r\n",
        res->status, MHD_get_reason_phrase_for((unsigned)res->status), date, res->type, id,
        res->size);
    if (client->tls) {
        td_tls_send(client->tls, head, (size_t)n);
        td_tls_send(client->tls, res->body, res->size);
        td_tls_end(client->tls);
    } else if (send(client->fd, head, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT | MSG_MORE) == n) {
        send(client->fd, res->body, res->size, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    shutdown(client->fd, SHUT_WR);
}

void td_http_on_log(void *cls, const char *format, va_list args)
{
    struct td_http_thread *thread = cls;
    if (!strstr(format, "Error processing request (HTTP response code is %u ('%s')"))
        return;
    unsigned status = va_arg(args, unsigned);
    bool chunk = strstr(va_arg(args, const char *), "chunked encod") != NULL;
    struct td_client *client = find_client(&thread->watch, status, chunk);
    struct td_arena *arena = client ? td_arena_create() : NULL;
    if (!arena)
        return;
    size_t i = sizeof refusals / sizeof *refusals - 1;
    while (i && refusals[i].status != status)
        i--;
    struct td_request req = {
        .service = thread->http->service, .arena = arena, .begin_ns = thread->now_ns};
    struct td_log_request said = {.req = &req, .client = &client->address, .now = thread->now_ns};
    char id[TD_ID_SIZE];
    said.id = td_http_id_make(thread, id);
    td_api_problem(&req, refusals[i].error, "%s", refusals[i].detail);
    send_problem(client, &req, id);
    if (td_log_wants(thread->http->config.log, &thread->turn, &req, said.now))
        td_log_write(thread->http->config.log, &thread->turn, &said);
    td_api_end(&req, said.now);
    td_arena_destroy(arena);
}
