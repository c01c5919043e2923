/* pools/team.c and machine/runtime.c: every member of a worker's team on its CPU, also after
 * libgomp has dismissed some. */
#include "pools_test.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>

#define MAX 16

void td_test_old_region(void (*fn)(void *), void *data, unsigned threads); /* old_region.c */

struct look { /* a job that opens a region and notes where its members are */
    struct td_job job;
    int ask;  /* members asked for; 0: as many as the runtime gives */
    bool old; /* through old_region.c */
    int members, threads, levels, dynamic, nested;
    int cpu[MAX], allowed[MAX];
    atomic_int done;
};

static void note_member(void *arg)
{
    struct look *look = arg;
    int me = omp_get_thread_num();
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    look->cpu[me] = sched_getcpu();
    look->allowed[me] = CPU_COUNT(&set);
    if (me == 0)
        look->members = omp_get_num_threads();
#pragma omp parallel num_threads(2)
    {
#pragma omp atomic write
        look->nested = omp_get_num_threads();
    }
}

static void run_look(struct td_job *job, struct td_worker *worker)
{
    struct look *look = (struct look *)job;
    look->threads = td_worker_threads(worker);
    int ask = look->ask ? look->ask : omp_get_max_threads();
    if (look->old) {
        td_test_old_region(note_member, look, ask);
    } else {
#pragma omp parallel num_threads(ask)
        note_member(look);
    }
    look->levels = omp_get_max_active_levels(), look->dynamic = omp_get_dynamic();
    atomic_store(&look->done, 1);
}

static void look_at(struct td_pool *pool, struct look *look, int ask, bool old)
{
    *look = (struct look){.job.run = run_look, .ask = ask, .old = old};
    ck_assert_int_eq(td_pool_submit(pool, &look->job), 0);
    while (!atomic_load(&look->done))
        usleep(200);
}

struct wait { /* a job whose team waits for its last member, which takes ms longer, n times */
    struct td_job job;
    bool old;
    int ms, n, threads, crowded;
    int64_t ended_ns;
    atomic_int done;
};

static void be_late(void *arg)
{
    const struct wait *wait = arg;
    if (omp_get_thread_num() == omp_get_num_threads() - 1)
        usleep((useconds_t)wait->ms * 1000);
}

static void run_wait(struct td_job *job, struct td_worker *worker)
{
    struct wait *wait = (struct wait *)job;
    wait->threads = td_worker_threads(worker);
    for (int i = 0; i < wait->n && wait->threads > 1; i++)
        if (wait->old) {
            td_test_old_region(be_late, wait, (unsigned)wait->threads);
        } else {
#pragma omp parallel num_threads(wait->threads)
            be_late(wait);
        }
    wait->crowded = td_team_is_crowded();
    wait->ended_ns = td_now_ns();
    atomic_store(&wait->done, 1);
}

/* The threads that it had. */
static int wait_for_late(struct td_pool *pool, struct wait *wait, int ms, int n)
{
    *wait = (struct wait){.job.run = run_wait, .old = wait->old, .ms = ms, .n = n};
    ck_assert_int_eq(td_pool_submit(pool, &wait->job), 0);
    while (!atomic_load(&wait->done))
        usleep(200);
    return wait->threads;
}

static struct td_machine machine;
static int first, last;

static void set_up(void)
{
    td_machine_init(&machine, NULL);
    td_machine_cpus(&machine, &first, &last);
}

static void tear_down(void)
{
    td_machine_fini(&machine);
}

/* RT-9, RT-10, RT-26: one member a CPU, read back by the pool and seen from inside; a region takes
 * the team's size by itself, and regions inside regions stay on their thread. So whatever
 * OMP_NUM_THREADS and others say (meson.build). */
START_TEST(test_members_are_bound)
{
    struct td_pool *pool = td_machine_pool(&machine, "a=");
    struct td_machine_facts facts;
    struct td_pool_stats stats;
    struct look look;
    td_topology_facts(machine.topology, &facts), td_pool_stats(pool, &stats);
    ck_assert_int_eq(stats.n_threads, facts.default_threads);
    for (int i = 0; i < stats.n_threads; i++) {
        ck_assert(stats.threads[i].ok);
        ck_assert_int_gt(stats.threads[i].tid, 0);
        for (int k = 0; k < i; k++)
            ck_assert_int_ne(stats.threads[i].cpu, stats.threads[k].cpu);
    }
    ck_assert_int_eq(td_pool_cpu(pool, 0, 1), stats.threads[0].cpu);
    look_at(pool, &look, 0, false);
    ck_assert(look.threads == stats.n_threads && look.members == stats.n_threads);
    ck_assert(look.levels == 1 && !look.dynamic);
    if (look.members > 1) /* one alone is no team: a region in its region is its first */
        ck_assert_int_eq(look.nested, 1);
    for (int i = 0; i < look.members && i < MAX; i++)
        ck_assert(look.cpu[i] == stats.threads[i].cpu && look.allowed[i] == 1);
    td_pool_unref(pool);
}
END_TEST

/* A smaller region makes libgomp dismiss members; those it starts for the next one must not pile up
 * on the leader's CPU. Four members on the first and the last CPU show it, through both doors. */
START_TEST(test_members_are_bound_after_a_smaller_region)
{
    char text[64];
    snprintf(text, sizeof text, first == last ? "a=%d:threads=4" : "a=%d,%d:threads=4", first,
             last);
    struct td_pool *pool = td_machine_pool(&machine, text);
    static const int sizes[] = {4, 2, 4, 3, 1, 4, 6, 4};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        struct look look;
        look_at(pool, &look, sizes[k], _i);
        ck_assert_int_eq(look.members, sizes[k]);
        for (int i = 0; i < look.members; i++)
            ck_assert(look.cpu[i] == (i % 2 ? last : first) && look.allowed[i] == 1);
        struct td_pool_stats stats;
        for (int try = 0; try < 2000; try++) { /* dismissed ones come back when the worker rests */
            int ok = 0;
            td_pool_stats(pool, &stats);
            for (int i = 0; i < stats.n_threads; i++)
                ok += stats.threads[i].ok;
            if (ok == 4)
                break;
            usleep(500);
        }
        for (int i = 0; i < 4; i++)
            ck_assert(stats.threads[i].ok);
    }
    td_pool_unref(pool);
}
END_TEST

/* RT-29: each worker leads a team on its own slice of the pool, in the order of the list. */
START_TEST(test_workers_share_the_cpus)
{
    if (first == last)
        return; /* one CPU: nothing to share */
    char text[64];
    snprintf(text, sizeof text, "a=%d,%d:streams=2:threads=3", last, first);
    struct td_pool *pool = td_machine_pool(&machine, text);
    struct td_pool_stats stats;
    td_pool_stats(pool, &stats);
    ck_assert(stats.n_threads == 3 && td_pool_cpu(pool, 0, 1) == last);
    ck_assert(stats.threads[0].cpu == last && stats.threads[1].cpu == last);
    ck_assert(stats.threads[2].cpu == first && stats.threads[2].ok);
    td_pool_unref(pool);
}
END_TEST

/* Not pinned: each member on all of the worker's CPUs, whatever its creator was bound to. */
START_TEST(test_unpinned)
{
    ck_assert_int_eq(td_test_bind(first), 0);
    struct td_pool *pool = td_machine_pool(&machine, "a=:pin=false");
    struct td_pool_stats stats;
    struct look look;
    td_pool_stats(pool, &stats);
    ck_assert_int_eq(td_pool_cpu(pool, 0, 1), -1);
    for (int i = 0; i < stats.n_threads; i++)
        ck_assert(stats.threads[i].cpu == -1 && stats.threads[i].ok);
    look_at(pool, &look, 0, false);
    for (int i = 0; i < look.members && i < MAX; i++)
        ck_assert_int_eq(look.allowed[i], stats.n_threads);
    td_pool_unref(pool);
}
END_TEST

static int count_threads(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* Whether a team whose member is late leaves its worker alone, for 100 ms when that comes again. */
static bool rests(struct td_pool *pool, struct wait wait, int n)
{
    bool again = false;
    if (wait_for_late(pool, &wait, 4, 1) != n || n == 1 || !wait.crowded)
        return n == 1 && !wait.crowded;
    for (; wait_for_late(pool, &wait, 4, 1) == 1; usleep(1000)) /* 50 ms */
        again = true;
    int64_t begin = wait.ended_ns;
    again = again && wait.crowded;
    while (again && wait_for_late(pool, &wait, 0, 0) == 1)
        usleep(1000);
    return again && td_now_ns() - begin > 60000000;
}

/* It works again when that is over. Through both doors. Beside others it may be late itself. */
START_TEST(test_crowded)
{
    bool rested = td_team_is_crowded(); /* on no worker */
    ck_assert(!rested);
    for (char name[] = "a="; *name <= 'z' && !rested; ++*name) {
        struct td_pool *pool = td_machine_pool(&machine, name);
        rested = rests(pool, (struct wait){.old = _i}, td_pool_threads(pool));
        td_pool_unref(pool);
    }
    ck_assert(rested);
}
END_TEST

/* Pools come and go: their threads, teams included, go with them. */
START_TEST(test_no_thread_is_left)
{
    td_pool_unref(td_machine_pool(&machine, "main="));
    char text[64];
    int before = count_threads();
    snprintf(text, sizeof text, "a=%d:threads=4", first);
    for (int i = 0; i < 30; i++) {
        struct look look;
        struct td_pool *pool = td_machine_pool(&machine, text);
        look_at(pool, &look, 4, i % 2);
        td_pool_unref(pool);
        ck_assert_int_eq(td_pools_remove(machine.pools, "a"), 0);
    }
    for (int i = 0; i < 2000 && count_threads() > before; i++)
        usleep(1000);
    ck_assert_int_eq(count_threads(), before);
}
END_TEST

/* On another machine nothing can be bound, and the pool says so. */
START_TEST(test_synthetic_machines_are_not_bound)
{
    struct td_machine other;
    td_machine_init(&other, "core:2 pu:1");
    struct td_pool *pool = td_machine_pool(&other, "a=0-1");
    struct td_pool_stats stats;
    td_pool_stats(pool, &stats);
    ck_assert(stats.n_threads == 2 && !stats.threads[0].ok && !stats.threads[1].ok);
    td_pool_unref(pool);
    td_machine_fini(&other);
}
END_TEST

#endif

/* RT-11, RT-12: with backend none the default pool works, unpinned; there are no others. */
START_TEST(test_backend_none)
{
    struct td_machine m;
    struct td_runtime_facts facts;
    char problem[256] = "";
    ck_assert_int_eq(td_runtime_init("some", problem, sizeof problem), -EINVAL);
    ck_assert_ptr_nonnull(strstr(problem, "auto, pthread, kmp, none"));
    ck_assert_int_eq(td_runtime_init("none", problem, sizeof problem), 0);
    ck_assert_int_eq(td_runtime_init("pthread", problem, sizeof problem), -EBUSY);
    td_runtime_facts(&facts);
    ck_assert(!facts.enabled && !strcmp(facts.backend, "none"));
    td_machine_init(&m, NULL);
    struct td_pool *pool = td_machine_pool(&m, "a=");
    struct td_pool_stats stats;
    td_pool_stats(pool, &stats);
    ck_assert(!stats.threads[0].ok);
    ck_assert_int_eq(td_pool_cpu(pool, 0, 1), -1);
    struct td_pool_config config = td_pool_config_default("b");
    ck_assert_int_eq(td_pools_add(m.pools, &config, problem, sizeof problem), -ENOSYS);
    ck_assert_ptr_nonnull(strstr(problem, "pin backend none"));
    ck_assert_int_eq(td_test_bind(0), -ENOSYS);
    td_pool_unref(pool);
    td_machine_fini(&m);
}
END_TEST

/* RT-11: found by name; what is found is told. */
START_TEST(test_backend_auto)
{
    struct td_runtime_facts facts;
    char problem[256] = "";
    ck_assert_int_eq(td_runtime_init("auto", problem, sizeof problem), 0);
    td_runtime_facts(&facts);
    ck_assert(facts.enabled);
#ifdef _OPENMP
    ck_assert_ptr_nonnull(strstr(facts.openmp, "omp"));
#else
    ck_assert_str_eq(facts.openmp, "");
#endif
    const char *backend = getenv("TD_TEST_BACKEND");
    ck_assert_str_eq(facts.backend, backend ? backend : "pthread");
    if (strcmp(facts.backend, "kmp"))
        ck_assert_int_ne(td_runtime_init("kmp", problem, sizeof problem), 0);
}
END_TEST

START_TEST(test_binding)
{
    ck_assert_int_eq(td_bind_cpus("x"), -EINVAL);
    ck_assert_int_eq(td_bind_cpus("60000"), -EINVAL);
    int cpu = sched_getcpu(), priority = getpriority(PRIO_PROCESS, 0);
    ck_assert_int_eq(td_test_bind(cpu), 0);
    ck_assert_int_eq(sched_getcpu(), cpu);
    ck_assert_int_eq(td_bound_cpus(), 1);
    td_thread_brisk(); /* changes neither policy nor priority */
    ck_assert_int_eq(sched_getscheduler(0), SCHED_OTHER);
    ck_assert_int_eq(getpriority(PRIO_PROCESS, 0), priority);
#ifdef _OPENMP
    ck_assert_int_eq(omp_get_max_threads(), 1); /* regions of a bound thread run on it alone */
#endif
}
END_TEST

/* main has started itself anew with a setting for libgomp, unless there was one. */
START_TEST(test_tuned)
{
    static char with[16384]; /* its environment at start */
    FILE *file = fopen("/proc/self/environ", "re");
    size_t n = fread(with, 1, sizeof with, file);
    ck_assert(!fclose(file));
    ck_assert(!td_test_has_teams() || memmem(with, n, "GOMP_SPINCOUNT=", 15) ||
              memmem(with, n, "OMP_WAIT_POLICY=", 16));
}
END_TEST

int main(int argc, char **argv)
{
    (void)argc;
    td_runtime_tune(argv);
    Suite *suite = suite_create("team");
    TCase *tcase = tcase_create("runtime");
    tcase_add_test(tcase, test_backend_none);
    tcase_add_test(tcase, test_backend_auto);
    tcase_add_test(tcase, test_binding);
    tcase_add_test(tcase, test_tuned);
    suite_add_tcase(suite, tcase);
#ifdef _OPENMP
    TCase *team = tcase_create("team");
    tcase_add_checked_fixture(team, set_up, tear_down);
    tcase_set_timeout(team, 30);
    tcase_add_test(team, test_members_are_bound);
    tcase_add_loop_test(team, test_members_are_bound_after_a_smaller_region, 0, 2);
    tcase_add_test(team, test_workers_share_the_cpus);
    tcase_add_test(team, test_unpinned);
    tcase_add_loop_test(team, test_crowded, 0, 2);
    if (!getenv("TD_TEST_BACKEND")) /* LLVM's runtime keeps its threads for the next leader */
        tcase_add_test(team, test_no_thread_is_left);
    tcase_add_test(team, test_synthetic_machines_are_not_bound);
    suite_add_tcase(suite, team);
#endif
    return td_test_run(suite);
}
