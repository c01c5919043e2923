/* `tensord serve`: builds the parts in order, waits for a signal, drains, takes them down again. */
#include "kernels/jit/code.h"
#include "kernels/weight.h"
#include "server/commands/commands.h"
#include "server/config/config.h"
#include "server/http/http.h"
#include "server/kept.h"
#include "server/log/log.h"
#include "server/reload.h"
#include "server/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct server {
    struct td_config config;
    struct td_topology *topology;
    struct td_pools *pools;
    struct td_service service;
    bool service_is_up;
    struct td_tls *tls;                 /* NULL: there is none */
    int files;                          /* what became of td_sandbox_files */
    struct td_job load;                 /* of the directory of models */
    int not_loaded;                     /* of these, once they are no longer awaited */
    struct td_http *http[TD_MAX_GIVEN]; /* one a --listen */
};

static struct td_log *server_log; /* for those who say something and are given nothing else */

/* Before the log is there. */
static void fail(const char *what)
{
    fprintf(stderr, "tensord: %s\n", what);
}

/* The pools asked for; without any, one on all CPUs that the process may use. */
static int add_pools(struct server *s, struct td_problem *problem)
{
    int err = 0;
    for (int i = 0; i < s->config.pool.n && !err; i++) {
        struct td_pool_config config;
        const char *text = s->config.pool.text[i];
        char note[TD_POOL_WARNING] = "";
        err = td_pool_config_parse(&config, text, note, sizeof note);
        if (!err)
            err = td_pools_add(s->pools, &config, note, sizeof note);
        if (err)
            snprintf(problem->text, sizeof problem->text, "pool '%.50s': %s", text, note);
        else if (*note)
            td_log_event(server_log, "pool", "pool %s: %s", config.name, note);
    }
    if (err || s->config.pool.n)
        return err;
    struct td_pool_config config = td_pool_config_default("default");
    return td_pools_add(s->pools, &config, problem->text, sizeof problem->text);
}

/* Under a quota that is less than the CPUs, polling is time taken from kernels. */
static int io_spin_us(const struct server *s)
{
    struct td_machine_facts facts;
    td_topology_facts(s->topology, &facts);
    return s->config.io_spin_us >= 0 ? s->config.io_spin_us : facts.pin_by_default ? 200 : 0;
}

/* What requests may hold, and what stored tensors and tasks of it. */
static int share_memory(struct server *s, struct td_problem *problem)
{
    const struct td_config *c = &s->config;
    struct td_limits *limits = &s->service.limits;
    struct td_machine_facts facts;
    td_topology_facts(s->topology, &facts);
    uint64_t least = facts.system_memory;
    if (facts.memory_limit && facts.memory_limit < least)
        least = facts.memory_limit;
    size_t memory = c->memory ? c->memory : least / 2;
    const struct {
        const char *name;
        size_t bytes;
    } parts[] = {{"store-bytes", c->store_bytes},
                 {"task-bytes", c->task_bytes},
                 {"session-bytes", c->session_bytes}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].bytes > memory)
            return td_problem_set(problem, EINVAL, "%s: %zu bytes are more than the %zu of memory",
                                  parts[i].name, parts[i].bytes, memory);
    td_memory.limit = memory;
    td_memory.reserve = memory / 16; /* in which small calls and problems are still answered */
    td_memory.control = memory / 32; /* and metrics, lists and DELETE, when small calls have that */
    limits->store_bytes = c->store_bytes ? c->store_bytes : memory / 2;
    limits->session_bytes = c->session_bytes ? c->session_bytes : memory / 4;
    limits->session_ttl_s = c->session_ttl_s;
    limits->task_bytes = c->task_bytes ? c->task_bytes : memory / 4;
    limits->body = c->max_body < memory ? c->max_body : memory;
    return 0;
}

static void say(const char *sentence)
{
    td_log_event(server_log, "watch", "%s", sentence);
}

/* What follows from the machine and the options. */
static void say_decisions(const struct server *s)
{
    const struct td_limits *limits = &s->service.limits;
    struct td_machine_facts machine;
    struct td_runtime_facts runtime;
    td_topology_facts(s->topology, &machine);
    td_runtime_facts(&runtime);
    td_log_event(server_log, "threads", "%s; threads are bound by %s", machine.decision,
                 runtime.enabled ? runtime.backend : "nobody");
    td_log_event(server_log, "isa", "level %s of %s that the CPU has",
                 td_isa_name(td_cpu()->current), td_isa_name(td_cpu()->highest_cpu));
    td_log_event(server_log, "memory",
                 "%zu bytes for all, of these %zu for stored tensors and %zu for tasks; bodies to "
                 "%zu",
                 (size_t)td_memory.limit, limits->store_bytes, limits->task_bytes, limits->body);
}

static void say_pools(const struct server *s)
{
    struct td_pool *list[TD_MAX_GIVEN];
    int n = td_pools_list(s->pools, list, TD_MAX_GIVEN);
    for (int i = 0; i < n; i++) {
        struct td_pool_stats stats;
        td_pool_stats(list[i], &stats);
        td_log_event(server_log, "pool", "pool %s: CPUs %s, %d threads%s in %d workers",
                     stats.config.name, stats.config.cpus, stats.config.threads,
                     stats.config.pinned > 0 ? ", each pinned," : "", stats.config.streams);
        td_pool_unref(list[i]);
    }
}

static void say_model(const char *sentence)
{
    td_log_event(server_log, "model", "%s", sentence);
}

static void load_models(struct td_job *job, struct td_worker *worker)
{
    struct server *s = (struct server *)((char *)job - offsetof(struct server, load));
    (void)worker;
    s->not_loaded = td_api_load_models(&s->service, s->config.models, say_model);
    atomic_store(&s->service.front.starting, false);
}

/* On a worker of the default pool, as clients' models are. */
static int begin_models(struct server *s, struct td_problem *problem)
{
    struct stat st;
    const char *directory = s->config.models;
    if (!*directory) {
        atomic_store(&s->service.front.starting, false);
        return 0;
    }
    if (stat(directory, &st) || !S_ISDIR(st.st_mode) || access(directory, R_OK | X_OK))
        return td_problem_set(problem, EINVAL, "models: '%.300s' is no directory that can be read",
                              directory);
    struct td_pool *pool = td_pools_find(s->pools, NULL);
    s->load = (struct td_job){.run = load_models, .what = "loading models"};
    int err = td_pool_submit(pool, &s->load);
    td_pool_unref(pool);
    return err;
}

/* Until all models are loaded, or not, or there is a signal, which stays to be taken. False: what
 * could not be loaded stops the server. */
static bool await_models(struct server *s)
{
    sigset_t waiting;
    struct timespec tick = {.tv_nsec = 2000000};
    do {
        sigpending(&waiting);
        if (sigismember(&waiting, SIGTERM) || sigismember(&waiting, SIGINT))
            return true;
    } while (atomic_load(&s->service.front.starting) && !nanosleep(&tick, NULL));
    if (!s->not_loaded || s->config.bad_models == 0)
        return true;
    td_log_event(server_log, "failed", "%d models could not be loaded (bad-models)", s->not_loaded);
    return false;
}

static int start(struct server *s, struct td_problem *problem)
{
    const struct td_config *c = &s->config;
    tzset(); /* once alone: libzip and libmicrohttpd ask for the time zone from any thread */
    strcpy(problem->text, "out of memory");
    int err = td_runtime_init(c->pin_backend, problem->text, sizeof problem->text);
    if (err || (err = td_topology_create(&s->topology)) || (err = share_memory(s, problem)) ||
        (err = td_pools_create(&s->pools, s->topology)))
        return err;
    *problem->text = 0;
    if (*c->io_cpus &&
        (err = td_pools_set_io_cpus(s->pools, c->io_cpus, problem->text, sizeof problem->text)))
        return err;
    if ((err = add_pools(s, problem)) ||
        (err = td_pools_watch(s->pools, c->watchdog_s * INT64_C(1000000000), say)))
        return err;
    s->service.topology = s->topology;
    s->service.pools = s->pools;
    s->service.limits.headers = c->max_headers;
    s->service.limits.json_depth = c->json_depth;
    s->service.limits.task_ttl_s = c->task_ttl_s;
    s->service.limits.timeout_ms = c->timeout_ms;
    s->service.limits.tasks = c->tasks;
    s->service.shm_clients = c->client_shared_memory;
    if ((err = td_service_init(&s->service)))
        return err;
    s->service_is_up = true;
    if ((err = td_kept_open(c, &s->service, server_log, problem)))
        return err;
    if (*c->tokens || *c->tls_key)
        td_sandbox_memory(); /* before it holds any */
    if (*c->tokens && (err = td_service_guard(&s->service, c->tokens, problem)))
        return err;
    const struct td_tls_files tls = {c->tls_cert, c->tls_key, c->tls_client_ca};
    if ((*tls.cert || *tls.key || *tls.client_ca) && (err = td_tls_create(&s->tls, &tls, problem)))
        return err;
    s->service.certificates = *tls.client_ca;
    struct td_http_config http = {.tls = s->tls,
                                  .io_cpus = c->io_cpus,
                                  .io_threads = c->io_threads,
                                  .io_spin_us = io_spin_us(s),
                                  .connections = c->connections / c->listen.n,
                                  .peer = {c->peer_connections, c->peer_bodies, c->peer_bytes},
                                  .idle_s = c->idle_s,
                                  .transfer_s = c->transfer_s,
                                  .insecure = c->insecure,
                                  .unix_mode = c->unix_mode,
                                  .log = server_log,
                                  .allow_host = &c->allow_host,
                                  .allow_origin = &c->allow_origin};
    atomic_store(&s->service.front.starting, true);
    for (int i = 0; i < c->listen.n && !err; i++) {
        http.listen = c->listen.text[i];
        err = td_http_start(&s->http[i], &s->service, &http, problem);
    }
    if (err)
        return err;
    td_log_event(server_log, "start", "version " TD_VERSION ", process %d: serve %s", (int)getpid(),
                 c->given);
    td_sandbox_close(c, s->files, &s->service, server_log); /* before models: they are others' */
    return begin_models(s, problem);
}

/* The second signal. */
static void end_at_once(int caught)
{
    (void)caught;
    td_log_last_words(server_log, "stop", "a second signal: what is under way is cut off");
    _exit(0);
}

static bool is_drained(const struct server *s)
{
    bool drained = !atomic_load(&s->service.front.in_flight);
    for (int i = 0; i < s->config.listen.n && drained; i++)
        drained = td_http_is_drained(s->http[i]);
    return drained;
}

/* Not ready any more, and no new connections; what comes on those that are open is answered, and
 * each ends with its answer. What is under way may take as long as it takes, up to drain_s. What is
 * left after that is cut off by the end of the process: its workers cannot be stopped in a kernel.
 */
static void drain(struct server *s, const sigset_t *signals)
{
    int64_t end = td_now_ns() + (int64_t)s->config.drain_s * 1000000000;
    signal(SIGHUP, SIG_IGN); /* nothing is read again any more */
    signal(SIGTERM, end_at_once);
    signal(SIGINT, end_at_once);
    pthread_sigmask(SIG_UNBLOCK, signals, NULL);
    atomic_store(&s->service.front.draining, true);
    for (int i = 0; i < s->config.listen.n; i++)
        td_http_drain(s->http[i]);
    struct timespec tick = {.tv_nsec = 5000000};
    while (!is_drained(s) && td_now_ns() < end)
        nanosleep(&tick, NULL);
    int left = atomic_load(&s->service.front.in_flight);
    if (!left)
        return;
    td_log_event(server_log, "stop", "%d requests cut off after %d s (drain-s)", left,
                 s->config.drain_s);
    td_log_finish(server_log); /* it stays: threads that are cut off still have it */
    _exit(0);
}

static void stop(struct server *s)
{
    if (s->pools)
        td_pools_unwatch(s->pools); /* the HTTP threads that it moves end now */
    for (int i = 0; i < s->config.listen.n; i++)
        td_http_stop(s->http[i]);
    td_tls_destroy(s->tls);
    td_pools_destroy(s->pools);
    if (s->service_is_up)
        td_service_fini(&s->service);
    td_topology_destroy(s->topology);
    td_registry_fini();
    td_config_fini(&s->config);
}

static void say_ready(struct server *s)
{
    char text[2048] = "";
    say_decisions(s);
    say_pools(s);
    for (int i = 0; i < s->config.listen.n; i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%s", i ? ", " : "", td_http_address(s->http[i]));
    }
    if (s->tls)
        td_say_certificate(&s->service, s->tls, server_log);
    if (s->service.insecure)
        td_log_event(server_log, "insecure",
                     "no token is asked for, and other machines may come (insecure): whoever "
                     "reaches this server may do all that it does");
    td_log_event(server_log, "ready", "ready on %s", text);
}

/* What is opened later must not become standard error, nor be written the log. */
static void hold_standard_files(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO)
        ;
    if (fd >= 0)
        close(fd);
}

int td_command_serve(int argc, char **argv)
{
    struct server s = {0};
    struct td_problem problem = {""};
    hold_standard_files();
    int read = td_config_read(&s.config, argc, argv, &problem);
    if (read == 1) {
        printf("usage: tensord serve [OPTIONS]\n\nEach option is also TENSORD_NAME in the "
               "environment and a key of the --config file.\n\n");
        td_config_help();
        return td_command_help("serve", "");
    }
    if (read)
        fail(problem.text);
    int status = read ? 2 : td_command_begin(s.config.cpu_capability);
    if (status) {
        td_config_fini(&s.config);
        return status;
    }
    td_tune(s.config.tune == 0); /* on|off */
    td_loops_allow(s.config.jit == 0);
    td_weights_pack(s.config.weight_prepack == 0);
    td_winograd_use(s.config.winograd == 0);
    /* What malloc has of 256 KiB or more goes back to the system, and its heaps' tops at 1 MiB. */
    mallopt(M_ARENA_MAX, 2);
    mallopt(M_MMAP_THRESHOLD, 256 << 10);
    mallopt(M_TRIM_THRESHOLD, 1 << 20);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);                /* which a terminal sends at its end, too */
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* all threads inherit this; main waits for them */
    signal(SIGPIPE, SIG_IGN);
    s.files = s.config.sandbox == 0 ? td_sandbox_files(&s.config) : -ECANCELED; /* while alone */
    int err = td_log_start(&server_log, (enum td_log_form)s.config.log, s.config.log_slow_ms,
                           &s.service.front);
    if (err)
        fail("no memory or thread for the log");
    else
        td_traps_log(server_log, s.config.on_trap == 0); /* quarantine|abort */
    if (!err && (err = start(&s, &problem)))
        td_log_event(server_log, "failed", "%s", problem.text);
    bool goes = !err && await_models(&s);
    if (!goes) {
        stop(&s);
        td_log_stop(server_log);
        return err == -EINVAL ? 2 : 1;
    }
    say_ready(&s);
    int caught = td_serve_until(&signals, &s.service, s.tls, server_log);
    td_log_event(server_log, "stop", "%s: no new connections; %d requests are under way",
                 caught == SIGTERM ? "SIGTERM" : "SIGINT", atomic_load(&s.service.front.in_flight));
    drain(&s, &signals);
    td_kept_write(&s.service, server_log);
    stop(&s);
    td_log_event(server_log, "stop", "all is done");
    td_log_stop(server_log);
    return 0;
}
