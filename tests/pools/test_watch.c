/* pools/watch.c: what changes under the pools while they work. */
#include "groups_test.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

static void expect(struct td_machine *m, const char *name, const char *cpus, int threads,
                   const char *says)
{
    struct td_pool *pool = td_pools_find(m->pools, name);
    struct td_pool_stats stats;
    td_pool_stats(pool, &stats);
    ck_assert_str_eq(stats.config.cpus, cpus);
    ck_assert_msg(strstr(stats.warning, says) && !*says == !*stats.warning, "%s: '%s'", name,
                  stats.warning);
    ck_assert_int_eq(stats.config.threads, td_test_has_teams() ? threads : 1);
    td_pool_unref(pool);
}

/* A cpuset that moves and a quota that comes: pools follow, from what they were asked to be.
 * Without OpenMP each has a warning of its own. */
START_TEST(test_limits_that_change)
{
    put("proc/self/cgroup", "0::/app\n");
    put("proc/self/mountinfo", MOUNT_V2);
    put("sys/fs/cgroup/app/cpuset.cpus.effective", "0-3\n");
    struct td_machine m = {.topology = machine("core:8 pu:1")};
    ck_assert_int_eq(td_pools_create(&m.pools, m.topology), 0);
    if (!td_test_has_teams())
        return td_machine_fini(&m);
    td_pool_unref(td_machine_pool(&m, "all="));
    td_pool_unref(td_machine_pool(&m, "low=0-1:queue_depth=7"));
    td_pool_unref(td_machine_pool(&m, "high=2-5"));
    expect(&m, "high", "2-3", 2, "may not use 4-5");
    ck_assert_int_eq(td_pools_look(m.pools), 0);
    put("sys/fs/cgroup/app/cpuset.cpus.effective", "3-6\n");
    ck_assert_int_eq(td_pools_look(m.pools), 3);
    td_topology_facts(m.topology, &facts);
    ck_assert_str_eq(facts.allowed, "3-6");
    expect(&m, "all", "3-6", 4, "");
    expect(&m, "low", "3-6", 4, "none of 0-1 is allowed here; allowed are 3-6; not pinned");
    expect(&m, "high", "3-5", 3, "may not use 2");
    put("sys/fs/cgroup/app/cpuset.cpus.effective", "0-6\n");
    put("sys/fs/cgroup/app/cpu.max", "150000 100000\n");
    ck_assert_int_eq(td_pools_look(m.pools), 3);
    expect(&m, "low", "0-1", 1, "1 on 2 CPUs");
    expect(&m, "high", "2-5", 1, "1 on 4 CPUs");
    struct td_pool *low = td_pools_find(m.pools, "low");
    struct td_pool_stats stats;
    td_pool_stats(low, &stats);
    ck_assert_int_eq(stats.config.queue_depth, 7);
    td_pool_unref(low);
    put("sys/fs/cgroup/app/cpuset.cpus.effective", "\n"); /* unreadable: as the machine has it */
    put("sys/fs/cgroup/app/cpu.max", "max 100000\n");
    ck_assert_int_eq(td_pools_look(m.pools), 3);
    expect(&m, "all", "0-7", 8, "");
    td_machine_fini(&m);
}
END_TEST

static int add_one(void *args, struct td_worker *worker, char *problem, size_t size)
{
    (void)worker;
    (void)problem;
    (void)size;
    return *(int *)args + 1;
}

/* Calls that have a pool when it is made anew are run, and what it counted goes on. */
START_TEST(test_calls_survive_a_move)
{
    put("proc/self/cgroup", "0::/app\n");
    put("proc/self/mountinfo", MOUNT_V2);
    put("sys/fs/cgroup/app/cpuset.cpus.effective", "0-3\n");
    struct td_machine m = {.topology = machine("core:8 pu:1")};
    ck_assert_int_eq(td_pools_create(&m.pools, m.topology), 0);
    struct td_pool *before = td_machine_pool(&m, "all=:threads=1");
    for (int i = 0; i < 10; i++) {
        struct td_future *task = td_test_submit(before, add_one, &i, sizeof i);
        ck_assert_int_eq(td_test_result(task), i + 1);
        td_future_unref(task);
    }
    put("sys/fs/cgroup/app/cpuset.cpus.effective", "2-3\n");
    ck_assert_int_eq(td_pools_look(m.pools), 1);
    int one = 1;
    struct td_future *late = td_test_submit(before, add_one, &one, sizeof one);
    ck_assert_int_eq(td_test_result(late), 2);
    td_future_unref(late);
    struct td_pool *after = td_pools_find(m.pools, "all");
    ck_assert(after != before);
    struct td_pool_stats stats;
    td_pool_stats(after, &stats);
    ck_assert_int_ge(stats.done, 9); /* the last may be counted after its result was there */
    td_pool_unref(after);
    td_pool_unref(before);
    td_machine_fini(&m);
}
END_TEST

struct stuck {
    struct td_job job;
    atomic_int state; /* 0, 1 once it runs, 2 to let it go, 3 gone */
};

static void hang(struct td_job *job, struct td_worker *worker)
{
    struct stuck *stuck = (struct stuck *)job;
    (void)worker;
    atomic_store(&stuck->state, 1);
    while (atomic_load(&stuck->state) != 2)
        usleep(1000);
    atomic_store(&stuck->state, 3);
}

static atomic_int told;

static void count(const char *sentence)
{
    if (strstr(sentence, "pool a: worker 0 has been in some.op for") ||
        strstr(sentence, "nothing hangs"))
        atomic_fetch_add(&told, 1);
}

static void wait_for(atomic_int *what, int value)
{
    for (int i = 0; i < 20000 && atomic_load(what) != value; i++)
        usleep(1000);
    ck_assert_int_eq(atomic_load(what), value);
}

/* A worker that stays in one job is named until it goes on; an idle one, however long, is not. */
START_TEST(test_hung_worker)
{
    struct td_machine m;
    struct td_hung hung[4];
    struct stuck stuck = {.job = {.run = hang, .what = "some.op"}};
    td_machine_init(&m, NULL);
    struct td_pool *pool = td_machine_pool(&m, "a=:threads=1");
    ck_assert_int_eq(td_pools_hung(m.pools, hung, 4), 0);
    ck_assert_int_eq(td_pools_watch(m.pools, 20000000, count), 0);
    usleep(50000);
    ck_assert_int_eq(td_pools_hung(m.pools, hung, 4), 0);
    ck_assert_int_eq(td_pool_submit(pool, &stuck.job), 0);
    wait_for(&stuck.state, 1);
    usleep(50000);
    ck_assert_int_eq(td_pools_hung(m.pools, hung, 4), 1);
    ck_assert_str_eq(hung[0].pool, "a");
    ck_assert_int_eq(hung[0].index, 0);
    ck_assert_str_eq(hung[0].what, "some.op");
    ck_assert_int_gt(hung[0].for_ns, 20000000);
    wait_for(&told, 1);
    atomic_store(&stuck.state, 2);
    wait_for(&stuck.state, 3);
    wait_for(&told, 2);
    ck_assert_int_eq(td_pools_hung(m.pools, hung, 4), 0);
    td_pool_unref(pool);
    td_pools_unwatch(m.pools);
    td_machine_fini(&m);
}
END_TEST

/* A job within the time that it may take is long, and not hung; beyond it, it is hung. */
START_TEST(test_long_worker)
{
    struct td_machine m;
    struct td_hung hung[4];
    struct stuck stuck = {.job = {.run = hang, .what = "some.op"}};
    td_machine_init(&m, NULL);
    struct td_pool *pool = td_machine_pool(&m, "a=:threads=1");
    ck_assert_int_eq(td_pools_watch(m.pools, 1000000, count), 0);
    stuck.job.deadline_ns = td_now_ns() + INT64_C(3600000000000);
    ck_assert_int_eq(td_pool_submit(pool, &stuck.job), 0);
    wait_for(&stuck.state, 1);
    usleep(20000);
    ck_assert_int_eq(td_pools_hung(m.pools, hung, 4), 0);
    atomic_store(&stuck.state, 2);
    wait_for(&stuck.state, 3);
    stuck.job.deadline_ns = td_now_ns() + 5000000;
    ck_assert_int_eq(td_pool_submit(pool, &stuck.job), 0);
    wait_for(&stuck.state, 1);
    usleep(20000);
    ck_assert_int_eq(td_pools_hung(m.pools, hung, 4), 1);
    atomic_store(&stuck.state, 2);
    wait_for(&stuck.state, 3);
    td_pool_unref(pool);
    td_pools_unwatch(m.pools);
    td_machine_fini(&m);
}
END_TEST

static struct td_busy busy;
static int seat; /* the CPU of pool a */

static void *sit(void *arg)
{
    struct td_machine *m = arg;
    struct td_cpus cpus = {0};
    ck_assert_int_eq(td_pools_seat(m->pools, "a", 0, 1, &busy), 0);
    ck_assert_int_eq(td_affinity_get(0, &cpus), 0);
    ck_assert(cpus.n == 1 && cpus.cpu[0] == seat);
    td_cpus_fini(&cpus);
    for (int i = 0; i < 10000; i++) { /* until both CPUs are its own */
        ck_assert_int_eq(td_affinity_get(0, &cpus), 0);
        int n = cpus.n;
        td_cpus_fini(&cpus);
        if (n > 1)
            return m;
        usleep(1000);
    }
    return NULL;
}

/* A thread that sits on a pool's CPU runs there alone, and is freed with it; names are all that it
 * holds. */
START_TEST(test_seat_follows)
{
    struct td_machine m;
    pthread_t thread;
    void *freed;
    char text[64];
    int first, last;
    td_machine_init(&m, NULL);
    td_machine_cpus(&m, &first, &last);
    if (first == last) {
        puts("skipped: one CPU only");
        td_machine_fini(&m);
        return;
    }
    td_pool_unref(td_machine_pool(&m, "default="));
    seat = last;
    snprintf(text, sizeof text, "a=%d:threads=1", seat);
    td_pool_unref(td_machine_pool(&m, text));
    ck_assert_int_eq(pthread_create(&thread, NULL, sit, &m), 0);
    usleep(50000);
    ck_assert_int_eq(td_pools_remove(m.pools, "a"), 0);
    pthread_join(thread, &freed);
    ck_assert_ptr_nonnull(freed);
    td_machine_fini(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("watch");
    TCase *tcase = tcase_create("watch");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, test_limits_that_change);
    tcase_add_test(tcase, test_calls_survive_a_move);
    tcase_add_test(tcase, test_hung_worker);
    tcase_add_test(tcase, test_long_worker);
    tcase_add_test(tcase, test_seat_follows);
    suite_add_tcase(suite, tcase);
    return td_test_run(suite);
}
