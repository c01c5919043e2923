/* pools/watch.c: what changes under the pools while they work. */
#include "groups_test.h"

#include <errno.h>

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

int main(void)
{
    Suite *suite = suite_create("watch");
    TCase *tcase = tcase_create("watch");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, test_limits_that_change);
    tcase_add_test(tcase, test_calls_survive_a_move);
    suite_add_tcase(suite, tcase);
    return td_test_run(suite);
}
