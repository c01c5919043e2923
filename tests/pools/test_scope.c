/* pools/scope.c: a thread on a pool's CPUs and back, and the same result there
 * as anywhere. */
#include "pools/machine/cpus.h"
#include "pools_test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct td_machine machine;
static struct td_pool *a, *b, *all; /* the first CPU, the last, and every one */
static struct td_cpus before;
static int first, last;

static void set_up(void)
{
    char text[64];
    td_machine_init(&machine, NULL);
    td_machine_cpus(&machine, &first, &last);
    all = td_machine_pool(&machine, "all=");
    snprintf(text, sizeof text, "a=%d", first);
    a = td_machine_pool(&machine, text);
    snprintf(text, sizeof text, "b=%d:threads=2", last);
    b = td_machine_pool(&machine, text);
    ck_assert_int_eq(td_affinity_get(0, &before), 0);
}

static void tear_down(void)
{
    td_cpus_fini(&before);
    td_pool_unref(a);
    td_pool_unref(b);
    td_pool_unref(all);
    td_machine_fini(&machine);
}

/* Where the calling thread may run: one CPU, or -1 for the mask of before, -2 for anything else. */
static int here(void)
{
    struct td_cpus is = {0};
    ck_assert_int_eq(td_affinity_get(0, &is), 0);
    int cpu = is.n == 1 ? is.cpu[0] : td_cpus_equal(&is, &before) ? -1 : -2;
    td_cpus_fini(&is);
    return before.n == 1 ? -1 : cpu;
}

static double sum_of_squares(const double *values, int n)
{
    double sum = 0;
#ifdef _OPENMP
#pragma omp parallel for reduction(+ : sum)
#endif
    for (int i = 0; i < n; i++)
        sum += values[i] * values[i];
    return sum;
}

/* RT-8: scopes nest, and each that is left brings back where the thread was. */
START_TEST(test_nested)
{
    struct td_scope *outer, *inner, *third;
    double values[1000];
    for (int i = 0; i < 1000; i++)
        values[i] = i;
    double want = sum_of_squares(values, 1000);
    ck_assert_int_eq(td_scope_enter(a, &outer), 0);
    ck_assert_int_eq(here(), before.n == 1 ? -1 : first);
    ck_assert_int_eq(sched_getcpu(), first);
    ck_assert(sum_of_squares(values, 1000) == want);
    ck_assert_int_eq(td_scope_enter(b, &inner), 0);
    ck_assert_int_eq(sched_getcpu(), last);
    ck_assert(sum_of_squares(values, 1000) == want);
    ck_assert_int_eq(td_scope_enter(a, &third), 0);
    ck_assert_int_eq(sched_getcpu(), first);
    ck_assert_int_eq(td_scope_leave(third), 0);
    ck_assert_int_eq(sched_getcpu(), last);
    ck_assert_int_eq(td_scope_leave(inner), 0);
    ck_assert_int_eq(sched_getcpu(), first);
    ck_assert_int_eq(td_scope_leave(outer), 0);
    ck_assert_int_eq(here(), -1);
    ck_assert(sum_of_squares(values, 1000) == want);
}
END_TEST

START_TEST(test_only_the_innermost_can_be_left)
{
    struct td_scope *outer, *inner;
    ck_assert_int_eq(td_scope_leave(NULL), -EINVAL);
    ck_assert_int_eq(td_scope_enter(a, &outer), 0);
    ck_assert_int_eq(td_scope_enter(b, &inner), 0);
    ck_assert_int_eq(td_scope_leave(outer), -EINVAL);
    ck_assert_int_eq(sched_getcpu(), last);
    ck_assert_int_eq(td_scope_leave(inner), 0);
    ck_assert_int_eq(td_scope_leave(outer), 0);
    ck_assert_int_eq(here(), -1);
}
END_TEST

/* RT-32: entering the pool one is in costs nothing and must be left as often. */
START_TEST(test_the_same_pool_again)
{
    struct td_scope *outer, *inner;
    ck_assert_int_eq(td_scope_enter(a, &outer), 0);
    struct td_cpus two = {2, (int[]){first, last}};
    ck_assert_int_eq(td_affinity_set(0, &two),
                     0); /* as nobody does: it would be undone by binding */
    ck_assert_int_eq(td_scope_enter(a, &inner), 0);
    ck_assert_ptr_eq(inner, outer);
    ck_assert_int_eq(td_bound_cpus(), first == last ? 1 : 2);
    ck_assert_int_eq(td_scope_leave(inner), 0);
    ck_assert_int_eq(td_bound_cpus(), first == last ? 1 : 2);
    ck_assert_int_eq(td_scope_leave(outer), 0);
    ck_assert_int_eq(here(), -1);
    ck_assert_int_eq(td_scope_leave(NULL), -EINVAL); /* none is left */
    ck_assert_int_eq(td_scope_enter(a, &outer), 0);  /* from outside it is entered anew */
    ck_assert_int_eq(here(), before.n == 1 ? -1 : first);
    ck_assert_int_eq(td_scope_leave(outer), 0);
}
END_TEST

static void *enter_and_end(void *arg)
{
    struct td_scope *scope;
    return (void *)(intptr_t)(td_scope_enter(arg, &scope) || sched_getcpu() != last ||
                              td_scope_leave(scope));
}

/* Each thread has scopes of its own; a scope keeps its pool. */
START_TEST(test_threads_and_references)
{
    struct td_scope *scope;
    pthread_t thread;
    void *failed;
    ck_assert_int_eq(td_scope_enter(a, &scope), 0);
    pthread_create(&thread, NULL, enter_and_end, b);
    pthread_join(thread, &failed);
    ck_assert_ptr_null(failed);
    ck_assert_int_eq(sched_getcpu(), first);
    ck_assert_int_eq(td_pools_remove(machine.pools, "a"), 0);
    td_pool_unref(a);
    a = NULL;
    ck_assert_int_eq(td_scope_leave(scope), 0);
    ck_assert_int_eq(here(), -1);
}
END_TEST

/* A machine that cannot be bound to: refused, and the thread is as before. */
START_TEST(test_refused)
{
    struct td_machine other;
    struct td_scope *scope;
    td_machine_init(&other, "core:2 pu:1");
    struct td_pool *pool = td_machine_pool(&other, "a=");
    ck_assert_int_eq(td_scope_enter(pool, &scope), -ENOSYS);
    ck_assert_int_eq(here(), -1);
    td_pool_unref(pool);
    td_machine_fini(&other);
}
END_TEST

#ifdef _OPENMP
static int masks_of_members(int *members)
{
    int total = 0, n = 0;
#pragma omp parallel reduction(+ : total)
    {
        struct td_cpus is = {0};
        td_affinity_get(0, &is);
        total += is.n;
        td_cpus_fini(&is);
#pragma omp single
        n = omp_get_num_threads();
    }
    *members = n;
    return total;
}

/* Members started in a scope have the thread's own mask and number again outside of it. */
START_TEST(test_members_are_let_go)
{
    struct td_scope *scope, *inner;
    struct td_pool_stats stats;
    int members, outside = omp_get_max_threads(), dynamic = omp_get_dynamic(),
                 levels = omp_get_max_active_levels();
    td_pool_stats(all, &stats);
    ck_assert_int_eq(td_scope_enter(all, &scope), 0);
    ck_assert_int_eq(masks_of_members(&members), stats.config.threads);
    ck_assert_int_eq(members, stats.config.threads);
    ck_assert(!omp_get_dynamic() && omp_get_max_active_levels() == 1);
    ck_assert_int_eq(td_scope_enter(b, &inner), 0);
    ck_assert_int_eq(masks_of_members(&members), 2);
    ck_assert_int_eq(members, 2);
    ck_assert_int_eq(td_scope_leave(inner), 0);
    ck_assert_int_eq(masks_of_members(&members), stats.config.threads);
    ck_assert_int_eq(td_scope_leave(scope), 0);
    ck_assert_int_eq(omp_get_max_threads(), outside);
    ck_assert(omp_get_dynamic() == dynamic && omp_get_max_active_levels() == levels);
    ck_assert_int_eq(masks_of_members(&members), members * before.n);
    ck_assert(members == outside || dynamic);
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("scope");
    TCase *tcase = tcase_create("scope");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, test_nested);
    tcase_add_test(tcase, test_only_the_innermost_can_be_left);
    tcase_add_test(tcase, test_the_same_pool_again);
    tcase_add_test(tcase, test_threads_and_references);
    tcase_add_test(tcase, test_refused);
#ifdef _OPENMP
    tcase_add_test(tcase, test_members_are_let_go);
#endif
    suite_add_tcase(suite, tcase);
    return td_test_run(suite);
}
