/* pools/set.c: pools by name, their number, and what the set tells them. */
#include "pools_test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct td_machine machine;

static void set_up(void)
{
    td_machine_init(&machine, NULL);
}

static void tear_down(void)
{
    td_machine_fini(&machine);
}

START_TEST(test_names)
{
    struct td_pool *a = td_machine_pool(&machine, "a=:threads=1");
    struct td_pool *b = td_machine_pool(&machine, "b=:threads=1");
    struct td_pool_config config = td_pool_config_default("a");
    char problem[256];
    ck_assert_int_eq(td_pools_add(machine.pools, &config, problem, sizeof problem), -EEXIST);
    config = td_pool_config_default("no/slash");
    ck_assert_int_eq(td_pools_add(machine.pools, &config, problem, sizeof problem), -EINVAL);
    config = td_pool_config_default("");
    ck_assert_int_eq(td_pools_add(machine.pools, &config, problem, sizeof problem), -EINVAL);
    ck_assert_ptr_null(td_pools_find(machine.pools, "c"));
    struct td_pool *found = td_pools_find(machine.pools, NULL);
    ck_assert_ptr_eq(found, a);
    td_pool_unref(found);
    found = td_pools_find(machine.pools, "");
    ck_assert_ptr_eq(found, a);
    td_pool_unref(found);
    struct td_pool *list[4];
    ck_assert_int_eq(td_pools_list(machine.pools, list, 4), 2);
    ck_assert(list[0] == a && list[1] == b);
    td_pool_unref(list[0]);
    td_pool_unref(list[1]);
    ck_assert_int_eq(td_pools_remove(machine.pools, "a"), -EBUSY);
    ck_assert_int_eq(td_pools_remove(machine.pools, "c"), -ENOENT);
    ck_assert_int_eq(td_pools_remove(machine.pools, "b"), 0);
    ck_assert_int_eq(td_pools_remove(machine.pools, "b"), -ENOENT);
    td_pool_unref(a);
    td_pool_unref(b);
    td_pool_unref(NULL);
}
END_TEST

START_TEST(test_the_set_is_bounded)
{
    char text[32];
    for (int i = 0; i < 64; i++) {
        snprintf(text, sizeof text, "p%d=:threads=1", i);
        td_pool_unref(td_machine_pool(&machine, text));
    }
    struct td_pool_config config = td_pool_config_default("more");
    ck_assert_int_eq(td_pools_add(machine.pools, &config, machine.problem, 256), -EINVAL);
    ck_assert_ptr_nonnull(strstr(machine.problem, "64"));
}
END_TEST

/* Polling is on by default only where HTTP work is known to be elsewhere. */
START_TEST(test_default_spin)
{
    struct td_pool_stats stats;
    int first, last;
    char text[64];
    td_machine_cpus(&machine, &first, &last);
    struct td_pool *pool = td_machine_pool(&machine, "a=");
    td_pool_stats(pool, &stats);
    ck_assert_int_eq(stats.config.spin_us, 0);
    td_pool_unref(pool);
    snprintf(text, sizeof text, "%d", last + 1);
    ck_assert_int_eq(td_pools_set_io_cpus(machine.pools, text, machine.problem, 256), 0);
    snprintf(text, sizeof text, "b=%d", first);
    pool = td_machine_pool(&machine, text);
    td_pool_stats(pool, &stats);
    ck_assert_int_gt(stats.config.spin_us, 0);
    td_pool_unref(pool);
    ck_assert_int_eq(td_pools_set_io_cpus(machine.pools, "x", machine.problem, 256), -EINVAL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("set");
    TCase *tcase = tcase_create("set");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, test_names);
    tcase_add_test(tcase, test_the_set_is_bounded);
    tcase_add_test(tcase, test_default_spin);
    suite_add_tcase(suite, tcase);
    return td_test_run(suite);
}
