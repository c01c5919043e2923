/* Bytes of a connection, as they come over a socket pair in pieces: libmicrohttpd, and what the
 * server makes of heads, of those that come again, and of bodies. The first byte says over what the
 * connection seems to come, the second how the rest is cut into pieces. What is sent back must be
 * whole responses: status lines of HTTP/1.1 where one must begin. */
#include "server/http/exchange.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/service.h"

#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

static struct td_http http;
static struct td_http_thread *const thread = &http.thread[0];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const struct td_given nobody;
    struct td_watch_limits limits = {30, 30, 8};
    (void)argc;
    (void)argv;
    service_start();
    td_peers_init(&http.peers);
    http.service = &service;
    http.config = (struct td_http_config){
        .io_cpus = "", .idle_s = 30, .allow_host = &nobody, .allow_origin = &nobody};
    http.n_threads = 1;
    http.listener.fd = -1;
    http.listener.address.ss_family = AF_INET;
    thread->http = &http;
    strcpy(thread->home, "default");
    thread->parts = 1;
    thread->last_held = &thread->held;
    if (td_watch_init(&thread->watch, &limits, &http.peers))
        service_fail("no descriptor");
    thread->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL,
        td_http_on_request, thread, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        service.limits.headers + 4096, MHD_OPTION_NOTIFY_COMPLETED, td_http_on_completed, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, td_http_on_connection, thread, MHD_OPTION_URI_LOG_CALLBACK,
        td_http_on_target, thread, MHD_OPTION_UNESCAPE_CALLBACK, td_http_keep_escapes, NULL,
        MHD_OPTION_END);
    if (!thread->daemon)
        service_fail("no daemon");
    return 0;
}

/* Lets the daemon work until nothing more comes of it; what it sends is read meanwhile. */
static size_t run(int fd, char *text, size_t size, size_t n)
{
    for (int idle = 0; idle < 2;) {
        unsigned long long before = thread->callbacks;
        thread->now_ns = td_now_ns();
        if (thread->held) { /* a big reply waits for its turn */
            MHD_resume_connection(thread->held->connection);
            thread->held = thread->held->next;
            if (!thread->held)
                thread->last_held = &thread->held;
        }
        MHD_run(thread->daemon);
        ssize_t got = recv(fd, text + n, size - n, MSG_DONTWAIT);
        n += got > 0 ? (size_t)got : 0;
        bool busy = got > 0 || thread->callbacks != before || atomic_load(&thread->handling) ||
                    thread->held;
        idle = busy ? 0 : idle + 1;
        if (atomic_load(&thread->handling))
            usleep(50);
        if (n == size)
            n = 0; /* long replies are not looked at */
    }
    return n;
}

static void connect_pair(int fd[2], unsigned how)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) ||
        MHD_add_connection(thread->daemon, fd[1], (struct sockaddr *)&from, sizeof from) != MHD_YES)
        service_fail("no connection");
    struct td_client *client = thread->watch.waiting.next;
    if (how % 4 &&
        client != &thread->watch.waiting) { /* else it comes over a Unix socket, as it does */
        client->address.ss_family = AF_INET;
        client->loopback = how % 4 == 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[1 << 16];
    int fd[2];
    struct bytes b = {data, data + size};
    unsigned how = take(&b), step = take(&b);
    connect_pair(fd, how);
    size_t n = 0;
    bool open = true;
    while (b.at < b.end && open) {
        size_t left = (size_t)(b.end - b.at), piece = step ? 1 + step * step % 701 : left;
        piece = piece < left ? piece : left;
        ssize_t sent = send(fd[0], b.at, piece, MSG_NOSIGNAL);
        open = sent > 0 || errno == EAGAIN;
        b.at += sent > 0 ? sent : 0;
        n = run(fd[0], text, sizeof text - 1, n);
    }
    text[n] = 0;
    must(!n || n > sizeof text / 2 || !strncmp(text, "HTTP/1.", 7));
    close(fd[0]);
    run(-1, text, 0, 0);
    must(!atomic_load(&service.front.in_flight));
    must(!http.peers.holding);
    if (n && (memmem(data, size, "PUT ", 4) || memmem(data, size, "DELETE ", 7)))
        service_renew();
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    static const char *const words[] = {
        "\r\n",
        "\n",
        "\r",
        " ",
        "\t",
        ":",
        "\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "Content-Length: 2\r\n",
        "Transfer-Encoding: chunked\r\n",
        "2\r\n{}\r\n0\r\n\r\n",
        "Host: a\r\n",
        "HTTP/1.0",
        "HTTP/1.1",
        "Expect: 100-continue\r\n",
        "Connection: close\r\n",
        "Origin: http://a\r\n",
        "Access-Control-Request-Method: PUT\r\n",
        "X-Request-Id: 1\r\n",
        "Prefer: respond-async\r\n",
        "Inference-Header-Content-Length: 5\r\n",
        "traceparent: 00-1-1-00\r\n",
        "X-Forwarded-For: b\r\n",
        "Content-Type: application/json\r\n",
        "Content-Encoding: gzip\r\n",
        "http://a/v2",
        "%00",
        "?wait=1",
        "POST /v1/ops/add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"};
    unsigned state = seed;
    if (size < 4 || !chance(&state, 3))
        return LLVMFuzzerMutate(data, size, most);
    return 2 +
           mutate_text(data + 2, size - 2, most - 2, &state, words, sizeof words / sizeof *words);
}
