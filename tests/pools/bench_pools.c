/* The figures behind the pools' defaults: what a hand-off costs with and without polling, beside
 * and on the submitter's CPU; what kept buffers save; what two pools overlap. One line a figure:
 * `meson test -C build --benchmark pools` or the program by itself. Medians, so a busy machine
 * shows in the spread (p90), not in the value. */
#include "pools/futex.h"
#include "pools/memory/buffer.h"
#include "pools/pools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 3000

static struct td_pools *pools;
static int first = -1, last;

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t quantile(int64_t *ns, int n, int percent)
{
    qsort(ns, n, sizeof *ns, ascending);
    return ns[(int64_t)(n - 1) * percent / 100];
}

static struct td_pool *add(const char *text)
{
    struct td_pool_config config;
    char problem[256];
    if (td_pool_config_parse(&config, text, problem, sizeof problem) ||
        td_pools_add(pools, &config, problem, sizeof problem)) {
        fprintf(stderr, "%s: %s\n", text, problem);
        exit(1);
    }
    return td_pools_find(pools, config.name);
}

/* ---- hand-off ---- */

struct ping {
    struct td_job job;
    atomic_int done;
};

static void pong(struct td_job *job, struct td_worker *worker)
{
    struct ping *ping = (struct ping *)job;
    (void)worker;
    atomic_store(&ping->done, 1);
    td_futex_wake(&ping->done, 1);
}

static void bind_to(int cpu)
{
    char text[16];
    snprintf(text, sizeof text, "%d", cpu);
    td_bind_cpus(text);
}

/* Round trips of an empty job, the submitter asleep meanwhile and then idle for gap_us, as a server
 * between requests is. */
static void hand_off(int submitter, int worker, int spin_us, int gap_us)
{
    static int64_t queued[ROUNDS], trip[ROUNDS];
    char text[64];
    snprintf(text, sizeof text, "x=%d:spin_us=%d", worker, spin_us);
    struct td_pool *pool = add(text);
    bind_to(submitter);
    for (int i = 0; i < ROUNDS; i++) {
        struct ping ping = {.job.run = pong};
        int64_t start = td_now_ns();
        td_pool_submit(pool, &ping.job);
        while (!atomic_load(&ping.done))
            td_futex_wait(&ping.done, 0, -1);
        trip[i] = td_now_ns() - start;
        queued[i] = ping.job.started_ns - ping.job.submitted_ns;
        if (gap_us)
            usleep(gap_us);
    }
    printf("hand-off submitter %d worker %d spin_us %-4d gap_us %-4d queue p50 %6.1f p90 %6.1f us, "
           "trip p50 %6.1f p90 %6.1f us\n",
           submitter, worker, spin_us, gap_us, quantile(queued, ROUNDS, 50) / 1e3,
           quantile(queued, ROUNDS, 90) / 1e3, quantile(trip, ROUNDS, 50) / 1e3,
           quantile(trip, ROUNDS, 90) / 1e3);
    td_pool_unref(pool);
    td_pools_remove(pools, "x");
}

/* Empty jobs a second, depth of them in flight: how much one wake-up serves. */
static void throughput(int submitter, int worker, int depth)
{
    static struct ping pings[64];
    char text[64];
    snprintf(text, sizeof text, "x=%d:spin_us=0", worker);
    struct td_pool *pool = add(text);
    bind_to(submitter);
    int64_t start = td_now_ns();
    int jobs = 0;
    for (; td_now_ns() - start < 300000000; jobs += depth) {
        for (int i = 0; i < depth; i++) {
            pings[i] = (struct ping){.job.run = pong};
            td_pool_submit(pool, &pings[i].job);
        }
        for (int i = 0; i < depth; i++)
            while (!atomic_load(&pings[i].done))
                td_futex_wait(&pings[i].done, 0, -1);
    }
    printf("jobs submitter %d worker %d depth %-2d %8.0f a second\n", submitter, worker, depth,
           jobs / ((td_now_ns() - start) / 1e9));
    td_pool_unref(pool);
    td_pools_remove(pools, "x");
}

/* ---- memory ---- */

static void memory(size_t bytes)
{
    int64_t ns[2][101]; /* with kept blocks, with fresh ones */
    for (int i = 0; i < 202; i++) {
        int64_t start = td_now_ns();
        struct td_arena *arena = td_arena_create();
        memset(td_arena_alloc(arena, bytes), 1, bytes);
        td_arena_destroy(arena);
        if (i >= 101)
            td_buffers_trim(0);
        ns[i / 101][i % 101] = td_now_ns() - start;
    }
    printf("fill %5zu KiB: kept p50 %7.1f us, fresh p50 %7.1f us\n", bytes >> 10,
           quantile(ns[0], 101, 50) / 1e3, quantile(ns[1], 101, 50) / 1e3);
}

/* ---- overlap ---- */

static int work(void *args, struct td_worker *worker, char *problem, size_t problem_size)
{
    (void)worker, (void)problem, (void)problem_size;
    volatile double sum = 0;
    for (int i = 0; i < *(int *)args; i++)
        sum += i * 0.5;
    return 0;
}

static int64_t two_futures(struct td_pool *one, struct td_pool *other, bool together)
{
    int result, loops = 20000000;
    struct td_future_config config = {.run = work, .args = &loops, .args_bytes = sizeof loops};
    struct td_future *a, *b;
    int64_t start = td_now_ns();
    td_future_submit(&a, one, &config);
    if (!together)
        td_future_wait(a, -1, &result);
    td_future_submit(&b, other, &config);
    td_future_wait(a, -1, &result);
    td_future_wait(b, -1, &result);
    td_future_unref(a);
    td_future_unref(b);
    return td_now_ns() - start;
}

static void overlap(void)
{
    char text[64];
    snprintf(text, sizeof text, "a=%d", first);
    struct td_pool *a = add(text);
    snprintf(text, sizeof text, "b=%d", last);
    struct td_pool *b = add(text);
    int64_t serial[15], both[15];
    for (int i = 0; i < 15; i++) {
        serial[i] = two_futures(a, b, false);
        both[i] = two_futures(a, b, true);
    }
    printf("two futures on two pools: %.2f of their serial time (best of 15)\n",
           (double)quantile(both, 15, 0) / (double)quantile(serial, 15, 0));
    td_pool_unref(a);
    td_pool_unref(b);
}

int main(void)
{
    struct td_topology *topology;
    struct td_machine_facts facts;
    if (td_topology_create(&topology) || td_pools_create(&pools, topology))
        return 1;
    td_topology_facts(topology, &facts);
    for (int i = 0; i < facts.n_pus; i++)
        if (facts.pus[i].allowed) {
            first = first < 0 ? facts.pus[i].cpu : first;
            last = facts.pus[i].cpu;
        }
    td_pool_unref(add("main="));
    for (int gap = 0; gap <= 100; gap += 100)
        for (int side = 0; side < 2; side++) {
            static const int spins[] = {0, 20, 50, 200};
            for (size_t i = 0; i < sizeof spins / sizeof *spins; i++)
                hand_off(first, side ? last : first, spins[i], gap);
        }
    for (int depth = 1; depth <= 64; depth *= 8)
        for (int side = 0; side < 2; side++)
            throughput(first, side ? last : first, depth);
    for (size_t kib = 64; kib <= 16384; kib *= 4)
        memory(kib << 10);
    if (first == last)
        printf("two futures on two pools: skipped, one CPU\n");
    else
        overlap();
    td_pools_destroy(pools);
    td_topology_destroy(topology);
    return 0;
}
