/* HTTP threads by libmicrohttpd, which only the files of threads.h know.
 *
 * Each has a daemon of its own and runs it (loop.c), all on one port (SO_REUSEPORT), bound to
 * a CPU: by default one of a pool, whose small calls it then runs itself.
 *
 * The connection's memory pool is little more than the header block may have: libmicrohttpd clears
 * all of it for each request (measured: 20 us a MiB, 11 % of a small GET at 64 KiB).
 *
 * Silent connections are the watch's; libmicrohttpd's own timeout, which costs each request two
 * locks and two looks at the clock, is for Unix sockets alone, whose readers the watch cannot see.
 */
#include "server/http/exchange.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BESIDE_HEADERS (4 * 1024) /* of the connection's memory */
#define CPUS_A_THREAD 8 /* of a pool; one thread has 40,000 to 100,000 small calls a second */

static unsigned at_least_one(int n)
{
    return n > 0 ? (unsigned)n : 1;
}

/* The options that TLS takes; none where it is plain. */
static void set_tls(const struct td_http *http, struct MHD_OptionItem options[4])
{
    const char *authorities = http->tls ? td_tls_authorities(http->tls) : NULL;
    int n = 0;
    if (http->tls) {
        options[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0,
                                               (void *)(uintptr_t)td_tls_priorities};
        options[n++] =
            (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK, 0, td_tls_retrieve()};
    }
    if (authorities)
        options[n++] =
            (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, (void *)(uintptr_t)authorities};
    options[n] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
}

static int start_thread(struct td_http *http, struct td_http_thread *thread,
                        struct td_problem *problem)
{
    sa_family_t family = http->listener.address.ss_family;
    unsigned most = at_least_one(http->config.connections / http->n_threads);
    struct td_watch_limits limits = {http->config.idle_s, http->config.transfer_s, (int)most};
    thread->silent_s = family ? 0 : (unsigned)http->config.idle_s;
    size_t memory = http->service->limits.headers + BESIDE_HEADERS;
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_TURBO | MHD_USE_ERROR_LOG;
    if (family == AF_INET6)
        flags |= MHD_USE_IPv6;
    if (http->tls)
        flags |= MHD_USE_TLS;
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)memory, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, most, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, (intptr_t)thread->silent_s, NULL},
        {MHD_OPTION_LISTENING_ADDRESS_REUSE, 1, NULL},
        {MHD_OPTION_LISTEN_BACKLOG_SIZE, 1024, NULL},
        {family ? MHD_OPTION_SOCK_ADDR : MHD_OPTION_LISTEN_SOCKET, http->listener.fd,
         family ? &http->listener.address : NULL},
#if MHD_VERSION >= 0x00097700
        {MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1, NULL},
#endif
        {MHD_OPTION_END, 0, NULL},
    };
    struct MHD_OptionItem tls[4];
    set_tls(http, tls);
    /* The new thread inherits where this one may run. */
    int err = *http->config.io_cpus ? td_bind_cpus(http->config.io_cpus) : 0;
    if (err && err != -ENOSYS) /* "none" was asked for: threads run anywhere */
        return td_problem_set(problem, -err, "io-cpus: '%.120s': none of them can be used here",
                              http->config.io_cpus);
    err = td_watch_init(&thread->watch, &limits, &http->peers);
    if (err)
        return td_problem_set(problem, -err, "listen: no descriptor for an HTTP thread: %s",
                              strerror(-err));
    thread->daemon = MHD_start_daemon(
        flags, 0, td_http_on_accept, thread, td_http_on_request, thread, MHD_OPTION_EXTERNAL_LOGGER,
        td_http_on_log, thread, MHD_OPTION_ARRAY, options, MHD_OPTION_ARRAY, tls,
        MHD_OPTION_NOTIFY_COMPLETED, td_http_on_completed, NULL, MHD_OPTION_NOTIFY_CONNECTION,
        td_http_on_connection, thread, MHD_OPTION_URI_LOG_CALLBACK, td_http_on_target, thread,
        MHD_OPTION_UNESCAPE_CALLBACK, td_http_keep_escapes, NULL, MHD_OPTION_END);
    err = thread->daemon ? td_http_thread_start(thread) : errno ? -errno : -EIO;
    td_bind_allowed(http->service->topology);
    return err ? td_problem_set(problem, -err, "listen: '%.120s': %s", http->config.listen,
                                strerror(-err))
               : 0;
}

/* More of them would only take turns. */
static int one_an_io_cpu(const struct td_http *http)
{
    int n = td_bind_cpus(http->config.io_cpus) ? 1 : td_bound_cpus();
    td_bind_allowed(http->service->topology);
    return n;
}

/* How many HTTP threads the i-th of n pools gets. */
static int threads_of(const struct td_http *http, const struct td_pool *pool, int i, int n)
{
    int given = http->config.io_threads;
    return given ? given / n + (i < given % n)
                 : (td_pool_threads(pool) + CPUS_A_THREAD - 1) / CPUS_A_THREAD;
}

static void add_thread(struct td_http *http, const char *home, int part, int parts)
{
    if (http->n_threads == TD_MAX_HTTP_THREADS)
        return;
    struct td_http_thread *thread = &http->thread[http->n_threads++];
    thread->http = http;
    snprintf(thread->home, sizeof thread->home, "%s", home);
    thread->part = part;
    thread->parts = parts;
}

/* Which pool's small calls each HTTP thread runs, and on which of its CPUs. */
static void place_threads(struct td_http *http)
{
    struct td_pool *pools[TD_MAX_HTTP_THREADS];
    bool apart = *http->config.io_cpus;
    int n = td_pools_list(http->service->pools, pools, TD_MAX_HTTP_THREADS);
    int given = http->config.io_threads;
    for (int i = apart ? given ? given : one_an_io_cpu(http) : 0; i > 0; i--)
        add_thread(http, "", 0, 1);
    for (int i = 0; i < n; i++) {
        int own = apart ? 0 : threads_of(http, pools[i], i, n);
        for (int part = 0; part < own; part++)
            add_thread(http, td_pool_name(pools[i]), part, own);
        td_pool_unref(pools[i]);
    }
}

/* Port 0 has become a real one: the other threads take it too. */
static void note_port(struct td_http *http)
{
    struct sockaddr_storage *address = &http->listener.address;
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(http->thread[0].daemon, MHD_DAEMON_INFO_BIND_PORT);
    in_port_t port = htons(info ? info->port : 0);
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = port;
    else if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)address)->sin_port = port;
    td_listener_name(&http->listener, http->tls, http->address, sizeof http->address);
}

/* Whoever reaches a port that others than this machine reach must show a token, or that is said. */
static int judge_reach(const struct td_http *http, struct td_service *service,
                       const struct td_http_config *config, struct td_problem *problem)
{
    if (service->access || service->certificates || td_listener_is_local(&http->listener))
        return 0;
    if (!config->insecure)
        return td_problem_set(problem, EINVAL,
                              "listen: other machines may reach '%.120s', and no token is asked "
                              "for: --tokens FILE does (tensord token add makes one), "
                              "--tls-client-ca FILE asks for a certificate, or "
                              "--insecure says that whoever comes may do all",
                              config->listen);
    service->insecure = true;
    return 0;
}

int td_http_start(struct td_http **result, struct td_service *service,
                  const struct td_http_config *config, struct td_problem *problem)
{
    struct td_http *http = calloc(1, sizeof *http);
    if (!http)
        return td_problem_set(problem, ENOMEM, "out of memory");
    int err = td_listener_open(&http->listener, config->listen, config->unix_mode, problem);
    if (err) {
        free(http);
        return err;
    }
    if ((err = judge_reach(http, service, config, problem))) {
        td_listener_close(&http->listener);
        free(http);
        return err;
    }
    td_peers_init(&http->peers);
    http->peers.limits = config->peer;
    http->service = service;
    http->config = *config;
    http->tls = http->listener.address.ss_family ? config->tls : NULL;
    http->spin_ns = config->io_spin_us * INT64_C(1000);
    place_threads(http);
    for (int i = 0; i < http->n_threads && !err; i++) {
        err = start_thread(http, &http->thread[i], problem);
        if (!err && !i)
            note_port(http);
    }
    if (err) {
        td_http_stop(http);
        return err;
    }
    *result = http;
    return 0;
}

const char *td_http_address(const struct td_http *http)
{
    return http->address;
}

void td_http_stop(struct td_http *http)
{
    if (!http)
        return;
    struct timespec tick = {.tv_nsec = 1000000};
    td_listener_unlink(&http->listener);
    atomic_store(&http->closing, true);
    for (int i = 0; i < http->n_threads; i++)
        while (atomic_load(&http->thread[i].handling)) /* a daemon must not hold suspended ones */
            nanosleep(&tick, NULL);
    atomic_store(&http->stopping, true);
    for (int i = 0; i < http->n_threads; i++) {
        td_http_thread_join(&http->thread[i]);
        td_http_deafen(&http->thread[i]);
        if (http->thread[i].daemon)
            MHD_stop_daemon(http->thread[i].daemon);
        td_watch_fini(&http->thread[i].watch);
        td_arena_destroy(http->thread[i].spare);
        td_http_drop_kept(&http->thread[i]);
    }
    td_listener_close(&http->listener);
    td_peers_fini(&http->peers);
    free(http);
}
