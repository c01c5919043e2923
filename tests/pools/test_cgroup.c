/* pools/machine/cgroup.c through pools/machine/topology.c: what control groups say, and what
 * follows from it. */
#include "groups_test.h"

#define MOUNT_V1                                                                                   \
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"                                            \
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup "                \
    "rw,cpu,cpuacct\n"                                                                             \
    "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"

static const struct {
    const char *name, *files[8][2];
    double quota;
    int threads;
    bool pin;
    const char *allowed, *group;
    int throttled;
} groups[] = {
    {"v2, own quota, rounded down",
     {{"proc/self/cgroup", "0::/app\n"},
      {"proc/self/mountinfo", MOUNT_V2},
      {"sys/fs/cgroup/app/cpu.max", "250000 100000\n"},
      {"sys/fs/cgroup/app/cpu.stat", "usage_usec 9\nnr_periods 7\nnr_throttled 5\n"}},
     2.5,
     2,
     false,
     "0-7",
     "/app",
     5},
    {"v2, below one CPU",
     {{"proc/self/cgroup", "0::/app\n"},
      {"proc/self/mountinfo", MOUNT_V2},
      {"sys/fs/cgroup/app/cpu.max", "50000 100000\n"}},
     0.5,
     1,
     false,
     "0-7",
     "/app",
     -1},
    {"v2, no quota, cpuset",
     {{"proc/self/cgroup", "0::/app\n"},
      {"proc/self/mountinfo", MOUNT_V2},
      {"sys/fs/cgroup/app/cpu.max", "max 100000\n"},
      {"sys/fs/cgroup/app/cpuset.cpus.effective", "2-3,6\n"}},
     0,
     3,
     true,
     "2-3,6",
     "/app",
     -1},
    {"v2, the parent's quota is tighter, and counts its throttling",
     {{"proc/self/cgroup", "0::/kube/pod/app\n"},
      {"proc/self/mountinfo", MOUNT_V2},
      {"sys/fs/cgroup/kube/pod/app/cpu.max", "600000 100000\n"},
      {"sys/fs/cgroup/kube/pod/app/cpu.stat", "nr_throttled 1\n"},
      {"sys/fs/cgroup/kube/pod/cpu.max", "300000 100000\n"},
      {"sys/fs/cgroup/kube/pod/cpu.stat", "nr_throttled 42\n"},
      {"sys/fs/cgroup/kube/cpu.max", "max 100000\n"},
      {"sys/fs/cgroup/kube/pod/cpuset.cpus.effective", "0-3\n"}},
     3,
     3,
     false,
     "0-3",
     "/kube/pod/app",
     42},
    {"v2, a quota as large as the cpuset does not bind",
     {{"proc/self/cgroup", "0::/app\n"},
      {"proc/self/mountinfo", MOUNT_V2},
      {"sys/fs/cgroup/app/cpu.max", "200000 100000\n"},
      {"sys/fs/cgroup/app/cpuset.cpus.effective", "0-1\n"}},
     2,
     2,
     true,
     "0-1",
     "/app",
     -1},
    {"v2, inside a container: the group is the root of what is mounted",
     {{"proc/self/cgroup", "0::/\n"},
      {"proc/self/mountinfo", MOUNT_V2},
      {"sys/fs/cgroup/cpu.max", "100000 100000\n"},
      {"sys/fs/cgroup/cpu.stat", "nr_throttled 3\n"}},
     1,
     1,
     false,
     "0-7",
     "/",
     3},
    {"v1, quota and cpuset in hierarchies of their own",
     {{"proc/self/cgroup", "5:cpuset:/box\n4:cpu,cpuacct:/box\n1:name=systemd:/\n"},
      {"proc/self/mountinfo", MOUNT_V1},
      {"sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "350000\n"},
      {"sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n"},
      {"sys/fs/cgroup/cpu,cpuacct/box/cpu.stat", "nr_periods 8\nnr_throttled 6\n"},
      {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"},
      {"sys/fs/cgroup/cpuset/box/cpuset.cpus", "0-5\n"}},
     3.5,
     3,
     false,
     "0-5",
     "/box",
     6},
    {"v1, the parent's quota is tighter",
     {{"proc/self/cgroup", "4:cpu,cpuacct:/pod/box\n"},
      {"proc/self/mountinfo", MOUNT_V1},
      {"sys/fs/cgroup/cpu,cpuacct/pod/box/cpu.cfs_quota_us", "-1\n"},
      {"sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_quota_us", "100000\n"},
      {"sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_period_us", "50000\n"}},
     2,
     2,
     false,
     "0-7",
     "/pod/box",
     -1},
    {"v1, the container's own group is mounted, its path is the host's",
     {{"proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n"},
      {"proc/self/mountinfo",
       "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n"},
      {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n"},
      {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
     1.5,
     1,
     false,
     "0-7",
     "/docker/abc",
     -1},
    {"a cpuset of CPUs that the machine does not have is ignored",
     {{"proc/self/cgroup", "0::/app\n"},
      {"proc/self/mountinfo", MOUNT_V2},
      {"sys/fs/cgroup/app/cpuset.cpus.effective", "100-200\n"}},
     0,
     8,
     true,
     "0-7",
     "/app",
     -1},
    {"nonsense in every file",
     {{"proc/self/cgroup", "\n:\n::\n0:\nx:y:z\n0::/app\n"},
      {"proc/self/mountinfo", "\n - \n31 23 0:28 / - cgroup2\n" MOUNT_V2},
      {"sys/fs/cgroup/app/cpu.max", "-5 0\n"},
      {"sys/fs/cgroup/app/cpuset.cpus.effective", "a-b\n"},
      {"sys/fs/cgroup/app/cpu.stat", "\nnr_throttled\n"}},
     0,
     8,
     true,
     "0-7",
     "/app",
     -1},
};

START_TEST(test_groups)
{
    for (int i = 0; i < 8 && groups[_i].files[i][0]; i++)
        put(groups[_i].files[i][0], groups[_i].files[i][1]);
    struct td_topology *t = machine("core:8 pu:1");
    const char *name = groups[_i].name;
    ck_assert_msg(facts.quota == groups[_i].quota, "%s: quota %g", name, facts.quota);
    ck_assert_msg(facts.default_threads == groups[_i].threads, "%s: threads", name);
    ck_assert_msg(facts.pin_by_default == groups[_i].pin, "%s: pin", name);
    ck_assert_msg(!strcmp(facts.allowed, groups[_i].allowed), "%s: %s", name, facts.allowed);
    ck_assert_msg(!strcmp(facts.cgroup, groups[_i].group), "%s: %s", name, facts.cgroup);
    ck_assert_msg(facts.nr_throttled == groups[_i].throttled, "%s: throttled %d", name,
                  (int)facts.nr_throttled);
    ck_assert_msg(strstr(facts.decision, groups[_i].pin ? " pinned" : "not pinned") != NULL,
                  "%s: %s", name, facts.decision);
    td_topology_destroy(t);
}
END_TEST

START_TEST(test_throttled_is_read_anew)
{
    put("proc/self/cgroup", "0::/\n");
    put("proc/self/mountinfo", MOUNT_V2);
    put("sys/fs/cgroup/cpu.max", "100000 100000\n");
    put("sys/fs/cgroup/cpu.stat", "nr_throttled 3\n");
    struct td_topology *t = machine("core:8 pu:1");
    ck_assert_int_eq(facts.nr_throttled, 3);
    put("sys/fs/cgroup/cpu.stat", "nr_throttled 4\n");
    td_topology_facts(t, &facts);
    ck_assert_int_eq(facts.nr_throttled, 4);
    td_topology_destroy(t);
}
END_TEST

static const struct {
    const char *name, *files[8][2];
    uint64_t limit;
} memories[] = {
    {"v2, the parent's is less",
     {{"proc/self/cgroup", "0::/pod/app\n"},
      {"proc/self/mountinfo", MOUNT_V2},
      {"sys/fs/cgroup/pod/app/memory.max", "3000000\n"},
      {"sys/fs/cgroup/pod/memory.max", "2000000\n"}},
     2000000},
    {"v2, none",
     {{"proc/self/cgroup", "0::/app\n"},
      {"proc/self/mountinfo", MOUNT_V2},
      {"sys/fs/cgroup/app/memory.max", "max\n"}},
     0},
    {"v1, the group's own; its parent has none",
     {{"proc/self/cgroup", "7:memory:/box\n0::/\n"},
      {"proc/self/mountinfo", MOUNT_V2 "33 31 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup "
                                       "rw,memory\n"},
      {"sys/fs/cgroup/memory/box/memory.limit_in_bytes", "536870912\n"},
      {"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"}},
     536870912},
    {"nonsense",
     {{"proc/self/cgroup", "0::/app\n"},
      {"proc/self/mountinfo", MOUNT_V2},
      {"sys/fs/cgroup/app/memory.max", "lots\n"}},
     0},
};

START_TEST(test_memory_limit)
{
    for (int i = 0; i < 8 && memories[_i].files[i][0]; i++)
        put(memories[_i].files[i][0], memories[_i].files[i][1]);
    struct td_topology *t = machine("core:8 pu:1");
    ck_assert_msg(facts.memory_limit == memories[_i].limit, "%s: %llu", memories[_i].name,
                  (unsigned long long)facts.memory_limit);
    td_topology_destroy(t);
}
END_TEST

/* Under a quota every pool keeps to it, whatever CPUs it was given, and pins nothing; who asks for
 * more gets it, and is told. */
START_TEST(test_quota_limits_pools)
{
    static const struct {
        const char *pool;
        int threads;
        const char *says;
    } cases[] = {
        {"all=", 2, "2 on 8 CPUs"},
        {"four=0-3", 2, "2 on 4 CPUs"},
        {"one=0", 1, ""},
        {"asked=0-3:threads=4", 4, "threads: as asked for"},
        {"s=0-3:streams=3", 3, "as asked for"},
    };
    put("proc/self/cgroup", "0::/\n");
    put("proc/self/mountinfo", MOUNT_V2);
    put("sys/fs/cgroup/cpu.max", "250000 100000\n");
    struct td_machine m = {.topology = machine("core:8 pu:1")};
    ck_assert_int_eq(td_pools_create(&m.pools, m.topology), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases && td_test_has_teams(); i++) {
        struct td_pool *pool = td_machine_pool(&m, cases[i].pool);
        struct td_pool_stats stats;
        td_pool_stats(pool, &stats);
        ck_assert_msg(stats.config.threads == cases[i].threads && !stats.config.pinned, "%s: %d",
                      cases[i].pool, stats.config.threads);
        ck_assert_msg(strstr(stats.warning, cases[i].says), "%s: '%s'", cases[i].pool,
                      stats.warning);
        td_pool_unref(pool);
    }
    td_machine_fini(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cgroup");
    TCase *tcase = tcase_create("cgroup");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, test_groups, 0, sizeof groups / sizeof *groups);
    tcase_add_loop_test(tcase, test_memory_limit, 0, sizeof memories / sizeof *memories);
    tcase_add_test(tcase, test_throttled_is_read_anew);
    tcase_add_test(tcase, test_quota_limits_pools);
    suite_add_tcase(suite, tcase);
    return td_test_run(suite);
}
