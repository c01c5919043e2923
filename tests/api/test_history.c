/* api/metrics/history.c: the last hour, by clocks that the test sets. */
#include "api/metrics/counts.h"
#include "tests/run_tests.h"

#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000000)

static struct td_metrics *metrics;
static struct td_arena *arena;
static int64_t began;

static void setup(void)
{
    struct td_problem problem = {0};
    ck_assert_msg(!td_cpu_init(NULL, &problem) && !td_registry_init(&problem), "%s", problem.text);
    arena = td_arena_create();
    began = td_now_ns();
    metrics = td_metrics_create();
    ck_assert_ptr_nonnull(metrics);
}

static void teardown(void)
{
    td_metrics_destroy(metrics);
    td_arena_destroy(arena);
}

/* A request that took so long and ends at so many seconds. */
static void request(int status, double at_s, int64_t took_ns)
{
    int64_t now = began + (int64_t)(at_s * 1e9);
    struct td_request req = {.begin_ns = now - took_ns, .response = {.status = status}};
    td_metrics_request(metrics, 0, &req, now);
}

/* The numbers of a list of the reply at so many seconds: how many; -1: there is no such list. */
static int numbers(double at_s, const char *name, long long *value)
{
    struct td_writer w;
    char key[64];
    int n = 0;
    td_write_init(&w, arena, 64);
    td_history_write(td_counts_history(metrics), metrics, began + (int64_t)(at_s * 1e9), &w);
    ck_assert(!w.failed);
    *td_write_room(&w, 1) = 0;
    snprintf(key, sizeof key, "\"%s\":[", name);
    char *at = strstr(w.text, key);
    if (!at)
        return -1;
    for (at += strlen(key); *at != ']'; at += *at == ',')
        value[n++] = strtoll(at, &at, 10);
    return n;
}

static void expect(double at_s, const char *name, const long long *value, int n)
{
    long long found[1000];
    ck_assert_int_eq(numbers(at_s, name, found), n);
    for (int i = 0; i < n; i++)
        ck_assert_msg(found[i] == value[i], "%s, step %d: %lld", name, i, found[i]);
}

START_TEST(test_steps)
{
    long long none;
    setup();
    ck_assert_int_eq(numbers(1, "requests", &none), 0);
    request(200, 1, 100);
    request(404, 2, 100);
    request(200, 7, 100);  /* closes the first step, and is of the second */
    request(503, 22, 100); /* the third and fourth had none */
    expect(29, "requests", (const long long[]){2, 1, 0, 0, 1}, 5);
    expect(29, "errors", (const long long[]){1, 0, 0, 0, 1}, 5);
    teardown();
}
END_TEST

/* Of 200 that took 20 us and 2 that took 3 s, 99 % are within the bucket of the 20. */
START_TEST(test_slowest)
{
    long long found[8];
    setup();
    for (int i = 0; i < 200; i++)
        request(200, 1, 20000);
    request(200, 1, 3 * SECOND);
    ck_assert_int_eq(numbers(6, "p99_us", found), 1);
    ck_assert(found[0] > 10 && found[0] <= 25);
    for (int i = 0; i < 3; i++)
        request(200, 6, 3 * SECOND);
    request(200, 6, 20000);
    ck_assert_int_eq(numbers(12, "p99_us", found), 2);
    ck_assert(found[1] > 2500000 && found[1] <= 10000000);
    teardown();
}
END_TEST

START_TEST(test_an_hour)
{
    static long long found[1000];
    setup();
    for (int s = 1; s < 3700; s += 5)
        request(200, s, 100);
    ck_assert_int_eq(numbers(3701, "requests", found), 720);
    for (int i = 0; i < 720; i++)
        ck_assert_int_eq(found[i], 1);
    request(200, 3702, 100);
    /* A day without a request: what came before it is older than an hour. */
    ck_assert_int_eq(numbers(3702 + 86400, "requests", found), 720);
    for (int i = 0; i < 720; i++)
        ck_assert_int_eq(found[i], 0);
    request(200, 3703 + 86400, 100);
    ck_assert_int_eq(numbers(3709 + 86400, "requests", found), 720);
    ck_assert_int_eq(found[719] + found[718], 1);
    teardown();
}
END_TEST

START_TEST(test_pools)
{
    long long found[8];
    setup();
    ck_assert_int_eq(numbers(1, "calls", found), -1);
    td_metrics_model(metrics, "m", "day", 3000000, 7000000);
    td_metrics_model(metrics, "m", "day", 1000000, 5000000);
    request(200, 6, 100);
    expect(11, "calls", (const long long[]){2, 0}, 2);
    expect(11, "compute_us", (const long long[]){12000, 0}, 2);
    expect(11, "queue_us", (const long long[]){4000, 0}, 2);
    teardown();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_steps, test_slowest, test_an_hour, test_pools};
    return td_run_tests("history", tests, sizeof tests / sizeof *tests);
}
