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
#include <linux/sockios.h>
#include <linux/tcp.h> /* netinet/tcp.h does not have tcpi_bytes_received */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
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

/* Whether more of a connection has been read than its requests have. Of Unix sockets, and behind a
 * body in chunks, whose frames nobody counts, that cannot be told. */
static bool has_begun(const struct td_client *client)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    int unread;
    if (client->chunked || getsockopt(client->fd, IPPROTO_TCP, TCP_INFO, &info, &size) ||
        ioctl(client->fd, SIOCINQ, &unread))
        return true;
    return info.tcpi_bytes_received > client->heads + client->received + (uint64_t)unread;
}

/* 431 and 413 come behind the request line, chunks behind the head, the others anywhere. */
static bool can_be(const struct td_client *client, unsigned status, bool chunk)
{
    return client->phase == TD_PHASE_body || (client->phase == TD_PHASE_head && !chunk) ||
           (client->phase == TD_PHASE_waits && !chunk && status != 431 && status != 413 &&
            has_begun(client));
}

static struct td_client *find_client(struct td_watch *watch, unsigned status, bool chunk)
{
    struct td_client *found = NULL, *rings[] = {&watch->active, &watch->waiting};
    int n = 0;
    for (int i = 0; i < 2; i++)
        for (struct td_client *c = rings[i]->next; c != rings[i]; c = c->next) {
            if (c->phase == TD_PHASE_head && td_http_head_is_there(c->exchange))
                return c; /* and was not given to us: it is this one */
            if (can_be(c, status, chunk)) {
                found = c;
                n++;
            }
        }
    return n == 1 ? found : NULL;
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
    if (send(client->fd, head, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT | MSG_MORE) == n)
        send(client->fd, res->body, res->size, MSG_NOSIGNAL | MSG_DONTWAIT);
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
