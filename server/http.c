/* HTTP by libmicrohttpd, the only file that knows it.
 *
 * Each HTTP thread is a daemon of its own with an epoll loop, all on one port (SO_REUSEPORT), bound
 * to a CPU: by default the first one of a pool, whose small calls it then runs itself. A request's
 * life: headers -> td_api_begin; body bytes -> the place td_api_body chose, sized from
 * Content-Length; end -> td_api_handle, which answers, or leaves the connection suspended until a
 * worker calls reply(). Everything of a request lies in its arena and goes with it when
 * libmicrohttpd has sent the response.
 *
 * The connection's memory pool is 40 KiB, room for 32 KiB of headers: libmicrohttpd clears all of
 * it for each request (measured: 20 us a MiB, 11 % of a small GET at 64 KiB). A timer thread shuts
 * down connections whose request does not keep arriving; libmicrohttpd's own timeout only sees
 * silence. */
#include "server/http.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define POOL_BYTES (40 * 1024)
#define SLOW_AFTER_S 10 /* a body must come at SLOW_RATE on average from then on */
#define SLOW_RATE 1024  /* bytes a second */
#define MAX_THREADS 64

struct thread {
    struct td_http *http;
    struct MHD_Daemon *daemon;
    struct td_pool *home; /* a reference, or NULL */
    int cpu;              /* -1: not bound to one */
};

struct client { /* one connection */
    struct client *next, **link;
    int fd;
    atomic_llong since_ns; /* when the request now arriving began (or the last one ended) */
    atomic_llong received; /* bytes of its body so far */
    atomic_bool arriving;  /* its head is being waited for, or its body */
};

struct td_http {
    struct td_service *service;
    struct td_http_config config;
    struct thread thread[MAX_THREADS];
    int n_threads;
    int unix_fd;
    char address[160], unix_path[108];
    pthread_t timer;
    bool timer_runs;
    atomic_bool stopping;
    pthread_mutex_t lock; /* guards the list of clients */
    struct client *clients;
};

enum state {             /* of a request, between its worker and its HTTP thread */
             ST_own,     /* the HTTP thread's */
             ST_running, /* suspended, a worker has it */
             ST_replied, /* the response is there and not queued yet */
};

struct exchange { /* a request with what the server needs of it */
    struct td_request req;
    struct MHD_Connection *connection;
    struct client *client;
    size_t room;  /* bytes that fit at req.body */
    bool refused; /* the response was settled before the body; the body is dropped */
    _Atomic enum state state;
};

/* ---- responses ---- */

static void no_free(void *body)
{
    (void)body;
}

static struct MHD_Response *make_response(const struct td_response *res)
{
    struct MHD_Response *r = MHD_create_response_from_buffer_with_free_callback(
        res->size, (void *)(uintptr_t)res->body, no_free);
    if (r && res->type && MHD_add_response_header(r, "Content-Type", res->type) != MHD_YES)
        goto fail;
    for (int i = 0; r && i < 4 && res->header[i].name; i++)
        if (MHD_add_response_header(r, res->header[i].name, res->header[i].value) != MHD_YES)
            goto fail;
    return r;
fail:
    MHD_destroy_response(r);
    return NULL;
}

static enum MHD_Result queue(struct exchange *x)
{
    const struct td_response *res = &x->req.response;
    struct MHD_Response *r = NULL;
    if (res->shared)
        r = __atomic_load_n((struct MHD_Response **)res->shared, __ATOMIC_ACQUIRE);
    bool keep = r != NULL;
    if (!r && !(r = make_response(res)))
        return MHD_NO;
    if (res->shared && !keep) {
        struct MHD_Response *none = NULL; /* the first thread here leaves its response for all */
        keep = __atomic_compare_exchange_n((struct MHD_Response **)res->shared, &none, r, false,
                                           __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    }
    enum MHD_Result result = MHD_queue_response(x->connection, (unsigned)res->status, r);
    if (!keep)
        MHD_destroy_response(r);
    return result;
}

/* Called by the worker that has made the response (or by the handler on our own thread). */
static void reply(struct td_request *req)
{
    struct exchange *x = (struct exchange *)req;
    atomic_store(&x->state, ST_replied);
    MHD_resume_connection(x->connection);
}

/* The handler is about to give the request to a worker, which may be done before the handler is
 * back: so the connection is suspended now. */
static void defer(struct td_request *req)
{
    struct exchange *x = (struct exchange *)req;
    atomic_store(&x->state, ST_running);
    MHD_suspend_connection(x->connection);
}

/* ---- requests ---- */

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static const struct {
    const char *name;
    enum td_method method;
} methods[] = {{"GET", TD_GET},       {"POST", TD_POST}, {"PUT", TD_PUT},
               {"DELETE", TD_DELETE}, {"HEAD", TD_HEAD}, {"OPTIONS", TD_OPTIONS}};

/* The head is there: set the request up and let the api judge it. */
static void begin(struct exchange *x, struct thread *thread, const char *url, const char *method)
{
    struct td_request *req = &x->req;
    size_t size = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)
                      ->header_size;
    req->method = TD_METHODS;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (!strcmp(method, methods[i].name))
            req->method = methods[i].method;
    req->path = url;
    req->query = "";
    req->home = thread->home;
    req->defer = defer;
    req->reply = reply;
    req->content_length = UINT64_MAX;
    if (req->method == TD_POST || req->method == TD_PUT) {
        const char *length = header(x->connection, "Content-Length");
        if (length)
            req->content_length = strtoull(length, NULL, 10);
        req->content_type = header(x->connection, "Content-Type");
        req->prefer = header(x->connection, "Prefer");
        req->json_length_text = header(x->connection, "Inference-Header-Content-Length");
    }
    if (size > req->service->limits.headers) {
        td_api_problem(req, -EOVERFLOW, "the headers have %zu bytes; at most %zu are taken", size,
                       req->service->limits.headers);
        x->refused = true;
    } else {
        x->refused = td_api_begin(req) != 0;
    }
    if (x->refused || req->content_length == UINT64_MAX || !req->content_length)
        return;
    req->body = td_api_body(req, req->content_length);
    x->room = req->content_length;
    if (!req->body) {
        td_api_problem(req, -ENOMEM, "no memory for a body of %llu bytes",
                       (unsigned long long)req->content_length);
        x->refused = true;
    }
}

/* A piece of the body. One of unknown length moves to twice the room as it grows. */
static void take_body(struct exchange *x, const char *data, size_t size)
{
    struct td_request *req = &x->req;
    atomic_fetch_add_explicit(&x->client->received, (long long)size, memory_order_relaxed);
    if (x->refused)
        return;
    if (size > x->room - req->body_size) {
        size_t room = 2 * (req->body_size + size);
        char *body = NULL;
        if (req->body_size + size > req->service->limits.body) {
            td_api_problem(req, -EMSGSIZE, "the body has more than the %zu bytes that are taken",
                           req->service->limits.body);
            x->refused = true;
        } else if (!(body = td_api_body(req, room))) {
            td_api_problem(req, -ENOMEM, "no memory for the body");
            x->refused = true;
        }
        if (x->refused)
            return;
        if (req->body_size)
            memcpy(body, req->body, req->body_size);
        req->body = body;
        x->room = room;
    }
    memcpy(req->body + req->body_size, data, size);
    req->body_size += size;
}

static struct exchange *create(struct td_service *service, struct MHD_Connection *connection)
{
    struct td_arena *arena = td_arena_create();
    struct exchange *x = arena ? td_arena_zalloc(arena, sizeof *x) : NULL;
    struct client *client =
        *(struct client **)MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (!x || !client) { /* a connection that cannot be watched is closed */
        td_arena_destroy(arena);
        return NULL;
    }
    x->req.arena = arena;
    x->req.service = service;
    x->connection = connection;
    x->client = client;
    x->req.begin_ns = td_now_ns();
    atomic_store_explicit(&client->since_ns, x->req.begin_ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&service->in_flight, 1, memory_order_relaxed);
    return x;
}

/* The body is there: run. */
static enum MHD_Result handle(struct exchange *x)
{
    atomic_store_explicit(&x->client->arriving, false, memory_order_relaxed);
    if (x->refused)
        return queue(x);
    int err = td_api_handle(&x->req);
    return err == -EINPROGRESS ? MHD_YES : queue(x);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **context)
{
    struct thread *thread = cls;
    struct exchange *x = *context;
    (void)version;
    if (!x) {
        *context = x = create(thread->http->service, connection);
        if (!x)
            return MHD_NO;
        begin(x, thread, url, method);
        /* A body that would be dropped anyway is not waited for when it is big. */
        if (x->refused && x->req.content_length > POOL_BYTES && x->req.content_length != UINT64_MAX)
            return queue(x);
        return MHD_YES;
    }
    if (atomic_load(&x->state) == ST_replied)
        return queue(x);
    if (*size) {
        take_body(x, data, *size);
        *size = 0;
        return MHD_YES;
    }
    return handle(x);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode code)
{
    struct exchange *x = *context;
    (void)cls;
    (void)connection;
    (void)code;
    if (!x)
        return;
    struct td_service *service = x->req.service;
    int64_t now = td_now_ns();
    atomic_store_explicit(&x->client->since_ns, now, memory_order_relaxed);
    atomic_store_explicit(&x->client->received, 0, memory_order_relaxed);
    atomic_store_explicit(&x->client->arriving, true, memory_order_relaxed);
    td_api_end(&x->req, now);
    td_arena_destroy(x->req.arena);
    atomic_fetch_sub(&service->in_flight, 1);
    *context = NULL;
}

/* ---- connections that do not keep arriving ---- */

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct td_http *http = cls;
    struct client *client = *context;
    pthread_mutex_lock(&http->lock);
    if (code == MHD_CONNECTION_NOTIFY_STARTED && (client = calloc(1, sizeof *client))) {
        client->fd =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        client->since_ns = td_now_ns();
        client->arriving = true;
        client->next = http->clients;
        client->link = &http->clients;
        if (client->next)
            client->next->link = &client->next;
        http->clients = client;
        *context = client;
    } else if (code == MHD_CONNECTION_NOTIFY_CLOSED && client) {
        *client->link = client->next;
        if (client->next)
            client->next->link = client->link;
        free(client);
    }
    pthread_mutex_unlock(&http->lock);
}

static bool is_slow(const struct td_http *http, struct client *c, int64_t now)
{
    double age = (double)(now - atomic_load(&c->since_ns)) * 1e-9;
    long long received = atomic_load(&c->received);
    if (!atomic_load(&c->arriving))
        return false;
    if (!received)
        return age > http->config.idle_s;
    return age > SLOW_AFTER_S && (double)received < age * SLOW_RATE;
}

static void *watch(void *arg)
{
    struct td_http *http = arg;
    while (!atomic_load(&http->stopping)) {
        struct timespec second = {.tv_nsec = 250000000};
        nanosleep(&second, NULL);
        int64_t now = td_now_ns();
        pthread_mutex_lock(&http->lock);
        for (struct client *c = http->clients; c; c = c->next)
            if (is_slow(http, c, now))
                shutdown(c->fd, SHUT_RDWR);
        pthread_mutex_unlock(&http->lock);
    }
    return NULL;
}

/* ---- start and stop ---- */

static size_t keep_escapes(void *cls, struct MHD_Connection *connection, char *text)
{
    (void)cls;
    (void)connection;
    return strlen(text); /* the router unescapes, segment by segment */
}

static int parse_address(const char *text, struct sockaddr_storage *address, socklen_t *length)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0;
    if (!colon || n >= sizeof host)
        return -EINVAL;
    memcpy(host, text, n);
    host[n] = 0;
    if (n > 2 && *host == '[' && host[n - 1] == ']') {
        memmove(host, host + 1, n - 2);
        host[n - 2] = 0;
    }
    struct addrinfo hints = {.ai_flags = AI_NUMERICSERV | AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *info;
    if (getaddrinfo(n ? host : NULL, colon + 1, &hints, &info))
        return -EINVAL;
    memcpy(address, info->ai_addr, info->ai_addrlen);
    *length = info->ai_addrlen;
    freeaddrinfo(info);
    return 0;
}

static int listen_unix(struct td_http *http, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    unlink(path); /* left behind by a process that was killed */
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 511)) {
        int err = -errno;
        if (fd >= 0)
            close(fd);
        return err;
    }
    strcpy(http->unix_path, path);
    http->unix_fd = fd;
    return 0;
}

static int start_thread(struct td_http *http, struct thread *thread, const struct sockaddr *address)
{
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_TURBO;
    if (address && address->sa_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, POOL_BYTES, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, http->config.connections / http->n_threads, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, http->config.idle_s, NULL},
        {MHD_OPTION_LISTENING_ADDRESS_REUSE, 1, NULL},
        {MHD_OPTION_LISTEN_BACKLOG_SIZE, 1024, NULL},
        {address ? MHD_OPTION_SOCK_ADDR : MHD_OPTION_LISTEN_SOCKET, address ? 0 : http->unix_fd,
         (void *)(uintptr_t)address},
        {MHD_OPTION_END, 0, NULL},
    };
    /* The new thread inherits where this one may run. */
    struct td_machine_facts facts;
    td_topology_facts(http->service->topology, &facts);
    if (*http->config.io_cpus)
        td_bind_cpus(http->config.io_cpus);
    else if (thread->cpu >= 0)
        td_bind_cpu(thread->cpu);
    thread->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, thread, MHD_OPTION_ARRAY, options,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, http, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_END);
    int err = thread->daemon ? 0 : errno ? -errno : -EIO;
    td_bind_cpus(facts.allowed);
    return err;
}

/* Which CPU each HTTP thread sits on, and whose small calls it runs. */
static void place_threads(struct td_http *http)
{
    struct td_pool *pools[MAX_THREADS];
    int n = td_pools_list(http->service->pools, pools, MAX_THREADS);
    int wanted = http->config.io_threads ? http->config.io_threads : n;
    if (wanted > MAX_THREADS)
        wanted = MAX_THREADS;
    for (int i = 0; i < wanted; i++) {
        struct thread *thread = &http->thread[i];
        thread->http = http;
        thread->cpu = -1;
        if (!*http->config.io_cpus && i < n) {
            thread->cpu = td_pool_first_cpu(pools[i]);
            thread->home = pools[i];
        }
    }
    for (int i = 0; i < n; i++)
        if (i >= wanted || http->thread[i].home != pools[i])
            td_pool_unref(pools[i]);
    http->n_threads = wanted;
}

static void note_port(struct td_http *http, struct sockaddr_storage *address)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(http->thread[0].daemon, MHD_DAEMON_INFO_BIND_PORT);
    char host[64];
    in_port_t port = htons(info ? info->port : 0);
    if (address->ss_family == AF_INET6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)address;
        in6->sin6_port = port;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        snprintf(http->address, sizeof http->address, "http://[%s]:%d", host, ntohs(port));
    } else {
        struct sockaddr_in *in = (struct sockaddr_in *)address;
        in->sin_port = port;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(http->address, sizeof http->address, "http://%s:%d", host, ntohs(port));
    }
}

int td_http_start(struct td_http **result, struct td_service *service,
                  const struct td_http_config *config, char *problem, size_t problem_size)
{
    struct sockaddr_storage address = {0};
    socklen_t length;
    bool is_unix = !strncmp(config->listen, "unix:", 5);
    struct td_http *http = calloc(1, sizeof *http);
    int err = http ? 0 : -ENOMEM;
    if (err)
        goto fail;
    http->service = service;
    http->config = *config;
    http->unix_fd = -1;
    pthread_mutex_init(&http->lock, NULL);
    err = is_unix ? listen_unix(http, config->listen + 5)
                  : parse_address(config->listen, &address, &length);
    if (err)
        goto fail;
    place_threads(http);
    for (int i = 0; i < http->n_threads && !err; i++) {
        err = start_thread(http, &http->thread[i], is_unix ? NULL : (struct sockaddr *)&address);
        if (!err && !i && !is_unix)
            note_port(http, &address); /* port 0 has become a real one: the others take it too */
    }
    if (is_unix)
        snprintf(http->address, sizeof http->address, "%s", config->listen);
    if (err)
        goto fail;
    err = -pthread_create(&http->timer, NULL, watch, http);
    if (err)
        goto fail;
    http->timer_runs = true;
    *result = http;
    return 0;
fail:
    snprintf(problem, problem_size, "listen: %s: %s", config->listen,
             err == -EINVAL ? "right are ADDRESS:PORT, [ADDRESS]:PORT and unix:PATH"
                            : strerror(-err));
    td_http_stop(http);
    return err;
}

const char *td_http_address(const struct td_http *http)
{
    return http->address;
}

void td_http_quiesce(struct td_http *http)
{
    for (int i = 0; i < http->n_threads; i++)
        if (http->thread[i].daemon) {
            int fd = MHD_quiesce_daemon(http->thread[i].daemon);
            if (fd >= 0 && fd != http->unix_fd)
                close(fd);
        }
}

void td_http_stop(struct td_http *http)
{
    if (!http)
        return;
    atomic_store(&http->stopping, true);
    if (http->timer_runs)
        pthread_join(http->timer, NULL);
    for (int i = 0; i < http->n_threads; i++) {
        if (http->thread[i].daemon)
            MHD_stop_daemon(http->thread[i].daemon);
        td_pool_unref(http->thread[i].home);
    }
    if (http->unix_fd >= 0)
        close(http->unix_fd);
    if (*http->unix_path)
        unlink(http->unix_path);
    pthread_mutex_destroy(&http->lock);
    free(http);
}
