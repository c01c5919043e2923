/* server/http/ over a socket, for what no client of the whole program can bring about: a call
 * that hangs on the HTTP thread that runs it. */
#include "server/http/http.h"
#include "tests/run_tests.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HUNG_NS 500000000
#define CALL "{\"args\":[{\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]}]}"

static atomic_int let_go, said;

static int rule(struct td_call *call)
{
    call->n_out = 1;
    call->out[0] = call->arg[0].tensor;
    call->out[0].data = NULL;
    return 0;
}

static void hang(const struct td_call *call)
{
    while (!atomic_load(&let_go))
        usleep(1000);
    *(float *)call->out[0].data = 7;
}

static const struct td_impl rows[] = {{.name = "ref", .run = hang, .dtypes = TD_ALL}, {0}};
static const struct td_op stuck = {
    .schema = "stuck(Tensor self) -> Tensor", .rule = rule, .dtypes = TD_ALL, .impls = rows};

static void count(const char *sentence)
{
    if (strstr(sentence, "pool default: HTTP thread 0 has been in stuck for") ||
        strstr(sentence, "nothing hangs any more"))
        atomic_fetch_add(&said, 1);
}

static struct td_topology *topology;
static struct td_pools *pools;
static struct td_service service;
static struct td_http *http[2]; /* each has one HTTP thread, at the same pool */

static void start(void)
{
    struct td_problem problem = {""};
    struct td_kernel_def def = {.key = TD_KEY_CPU, .rows = rows, .origin = "here:1"};
    ck_assert_msg(!td_cpu_init(NULL, &problem) && !td_registry_init(&problem), "%s", problem.text);
    ck_assert_int_eq(td_define(&stuck, "here:1", &problem), 0);
    ck_assert_int_eq(td_register("stuck", &def, NULL, &problem), 0);
    ck_assert_int_eq(td_runtime_init("auto", problem.text, sizeof problem.text), 0);
    ck_assert_int_eq(td_topology_create(&topology), 0);
    ck_assert_int_eq(td_pools_create(&pools, topology), 0);
    struct td_pool_config config = {.name = "default", .threads = 1};
    ck_assert_msg(!td_pools_add(pools, &config, problem.text, sizeof problem.text), "%s",
                  problem.text);
    ck_assert_int_eq(td_pools_watch(pools, HUNG_NS, count), 0);
    td_memory.limit = 1 << 28;
    service = (struct td_service){
        .topology = topology,
        .pools = pools,
        .limits = {.body = 1 << 20, .headers = 1 << 15, .json_depth = 32, .tasks = 1}};
    ck_assert_int_eq(td_service_init(&service), 0);
    static const struct td_given nobody;
    struct td_http_config how = {.listen = "127.0.0.1:0",
                                 .io_cpus = "",
                                 .io_threads = 1,
                                 .connections = 8,
                                 .idle_s = 30,
                                 .unix_mode = "0600",
                                 .allow_host = &nobody,
                                 .allow_origin = &nobody};
    for (int i = 0; i < 2; i++)
        ck_assert_msg(!td_http_start(&http[i], &service, &how, &problem), "%s", problem.text);
}

static void stop(void)
{
    td_pools_unwatch(pools);
    for (int i = 0; i < 2; i++)
        td_http_stop(http[i]);
    td_pools_destroy(pools);
    td_service_fini(&service);
    td_topology_destroy(topology);
}

/* Sends a request to one of the servers; the connection. */
static int ask(int server, const char *line, const char *body)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons((uint16_t)atoi(strrchr(td_http_address(http[server]), ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    ck_assert_int_gt(dprintf(fd, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                             line, strlen(body), body),
                     0);
    return fd;
}

static bool is_answered(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* What comes back, in text: head and body, small enough for one piece each. */
static void answer(int fd, char text[4096])
{
    size_t n = 0;
    do {
        ssize_t more = recv(fd, text + n, 4095 - n, 0);
        ck_assert_int_gt(more, 0);
        n += (size_t)more;
        text[n] = 0;
    } while (!strstr(text, "\r\n\r\n") || text[n - 1] != '\n' || text[n - 2] != '}');
    close(fd);
}

static void wait_for(int times)
{
    for (int i = 0; i < 20000 && atomic_load(&said) < times; i++)
        usleep(1000);
    ck_assert_int_eq(atomic_load(&said), times);
}

/* Ready says 503 and names it, on standard error it is said once, and all is well afterwards. */
START_TEST(test_a_call_that_hangs)
{
    char text[4096];
    start();
    int call = ask(0, "POST /v1/ops/stuck", CALL);
    wait_for(1);
    answer(ask(1, "GET /v2/health/ready", ""), text);
    ck_assert_ptr_nonnull(strstr(text, "HTTP/1.1 503"));
    ck_assert_ptr_nonnull(
        strstr(text, "\"error\":\"pool default: HTTP thread 0 has been in stuck"));
    ck_assert_ptr_nonnull(
        strstr(text, "{\"pool\":\"default\",\"http_thread\":0,\"operator\":\"stuck"));
    ck_assert(!is_answered(call));
    atomic_store(&let_go, 1);
    answer(call, text);
    ck_assert_ptr_nonnull(strstr(text, "\"data\":[7]"));
    wait_for(2);
    answer(ask(0, "GET /v2/health/ready", ""), text);
    ck_assert_ptr_nonnull(strstr(text, "HTTP/1.1 200"));
    usleep(3 * HUNG_NS / 1000); /* a thread that waits for requests does not hang */
    answer(ask(1, "GET /v2/health/ready", ""), text);
    ck_assert_ptr_nonnull(strstr(text, "HTTP/1.1 200"));
    stop();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_a_call_that_hangs};
    return td_run_tests("http", tests, sizeof tests / sizeof *tests);
}
