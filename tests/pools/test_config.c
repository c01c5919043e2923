/* pools/config.c and machine/cpus.c: the text of a pool, CPU lists, and their check against
 * machines of several shapes. */
#include "pools/machine/cpus.h"
#include "pools_test.h"

#include <errno.h>
#include <string.h>

START_TEST(test_parse)
{
    struct td_pool_config c;
    char problem[256];
    ck_assert_int_eq(td_pool_config_parse(&c, "a=0-3,8", problem, sizeof problem), 0);
    ck_assert_str_eq(c.name, "a");
    ck_assert_str_eq(c.cpus, "0-3,8");
    ck_assert(c.numa_node == -1 && !c.threads && !c.streams && c.spin_us == -1 && c.pinned == -1);
    ck_assert_int_eq(td_pool_config_parse(&c,
                                          "b.2=:threads=4:streams=2:spin_us=7:queue_depth=9"
                                          ":numa_node=1:pinned=false",
                                          problem, sizeof problem),
                     0);
    ck_assert_str_eq(c.name, "b.2");
    ck_assert_str_eq(c.cpus, "");
    ck_assert(c.threads == 4 && c.streams == 2 && c.spin_us == 7 && c.queue_depth == 9 &&
              c.numa_node == 1 && !c.pinned);
    ck_assert_int_eq(td_pool_config_parse(&c, "a=0:pin=1", problem, sizeof problem), 0);
    ck_assert_int_eq(c.pinned, 1);
}
END_TEST

static const struct {
    const char *text, *names; /* and a word that the sentence must hold */
} wrong[] = {
    {"", "NAME=CPUS"},
    {"a", "NAME=CPUS"},
    {"=0", "name"},
    {"a b=0", "name"},
    {"a/b=0", "name"},
    {"0123456789012345678901234567890123456789012345678901234567890123=0", "name"},
    {"a=0:", "key=value"},
    {"a=0:threads", "key=value"},
    {"a=0:threads=", "threads"},
    {"a=0:threads=x", "threads"},
    {"a=0:threads=1x", "threads"},
    {"a=0:threads=99999999999999999999", "threads"},
    {"a=0:queue_depth=-2", "queue_depth"},
    {"a=0:thread=1", "'thread' is not a field of a pool; right are cpus, numa_node, threads"},
    {"a=0:threads=0", "threads"},
    {"a=0:pinned=maybe", "pinned"},
    {"a=0:streams=-1", "streams: '-1' is not a whole number from 1"},
};

/* The longest list that there is room for, and one character more. */
START_TEST(test_parse_long_list)
{
    struct td_pool_config c;
    char problem[256] = "", text[TD_CPUS_TEXT + 3] = "a=";
    memset(text + 2, '1', TD_CPUS_TEXT - 1);
    ck_assert_int_eq(td_pool_config_parse(&c, text, problem, sizeof problem), 0);
    ck_assert_str_eq(c.cpus, text + 2);
    text[TD_CPUS_TEXT + 1] = '1';
    ck_assert_int_eq(td_pool_config_parse(&c, text, problem, sizeof problem), -EINVAL);
    ck_assert_str_eq(problem, "cpus: a list of 256 characters; at most 255");
}
END_TEST

START_TEST(test_parse_refuses)
{
    struct td_pool_config c;
    char problem[256] = "";
    ck_assert_int_eq(td_pool_config_parse(&c, wrong[_i].text, problem, sizeof problem), -EINVAL);
    ck_assert_msg(strstr(problem, wrong[_i].names), "%s: %s", wrong[_i].text, problem);
}
END_TEST

static const struct {
    const char *text, *out; /* NULL: refused */
} lists[] = {
    {"0", "0"},         {"0-3,8", "0-3,8"},
    {"8,0-3", "0-3,8"}, {"3,2,1,0", "0-3"},
    {"1,1,1-2", "1-2"}, {"2000,1023-1025", "1023-1025,2000"},
    {"", NULL},         {",", NULL},
    {"0,", NULL},       {"-1", NULL},
    {"3-1", NULL},      {"0-", NULL},
    {"0 1", NULL},      {"a", NULL},
    {"65536", NULL},    {"0-999999999999999999999", NULL},
};

START_TEST(test_lists)
{
    struct td_cpus cpus = {0};
    char problem[256] = "", text[TD_CPUS_TEXT];
    int error = td_cpus_parse(&cpus, lists[_i].text, problem, sizeof problem);
    ck_assert_msg(error == (lists[_i].out ? 0 : -EINVAL), "'%s'", lists[_i].text);
    ck_assert_int_eq(!*problem, !error);
    if (!error) {
        td_cpus_format(&cpus, text, sizeof text);
        ck_assert_str_eq(text, lists[_i].out);
    }
    td_cpus_fini(&cpus);
}
END_TEST

START_TEST(test_list_text_is_cut)
{
    struct td_cpus cpus = {0};
    char text[32];
    for (int i = 0; i < 100; i += 2)
        ck_assert_int_eq(td_cpus_append(&cpus, i), 0);
    td_cpus_format(&cpus, text, sizeof text);
    ck_assert_str_eq(text, "0,2,4,6,8,10,12,14,16,18,20...");
    td_cpus_fini(&cpus);
}
END_TEST

static const struct {
    const char *machine, *pool;
    int error;
    const char *cpus, *says; /* effective list; what the sentence or the warning holds */
    int threads, streams;
} cases[] = {
    /* a list is echoed, filtered, refused when empty; nothing asked for is all */
    {"core:4 pu:2", "a=0-3", 0, "0-3", "", 4, 1},
    {"core:4 pu:2", "a=6-9", 0, "6-7", "8-9", 2, 1},
    {"core:4 pu:2", "a=8-9", -EINVAL, "", "none of 8-9 is allowed here; allowed are 0-7", 0, 0},
    {"core:4 pu:2", "a=1-x", -EINVAL, "", "1-x", 0, 0},
    {"core:4 pu:2", "a=", 0, "0-7", "", 8, 1},
    {"core:1100 pu:1", "a=1020-1030", 0, "1020-1030", "", 11, 1}, /* beyond cpu_set_t */
    /* nodes; a machine without has node 0 */
    {"package:2 [numa] core:2 pu:2", "a=:numa_node=1", 0, "4-7", "", 4, 1},
    {"package:2 [numa] core:2 pu:2", "a=:numa_node=2", -EINVAL, "", "the machine has 2", 0, 0},
    {"core:2 pu:1", "a=:numa_node=0", 0, "0-1", "", 2, 1},
    {"core:2 pu:1", "a=:numa_node=1", -EINVAL, "", "the machine has 1", 0, 0},
    {"package:2 [numa] core:2 pu:1", "a=0:numa_node=1", 0, "0", "as cpus are given", 1, 1},
    /* counts */
    {"core:8 pu:1", "a=:streams=3", 0, "0-7", "", 8, 3},
    {"core:2 pu:1", "a=:streams=5", 0, "0-1", "reduced from 5 to the 2", 2, 2},
    {"core:2 pu:1", "a=:threads=1:streams=2", -EINVAL, "", "fewer than the 2 streams", 0, 0},
    {"core:2 pu:1", "a=:threads=9", -EINVAL, "", "threads: 9 is too many", 0, 0},
    {"core:2 pu:1", "a=:queue_depth=2000000", -EINVAL, "", "queue_depth", 0, 0},
    {"core:2 pu:1", "a=:spin_us=2000000", -EINVAL, "", "spin_us", 0, 0},
};

/* RT-2, RT-3, RT-5, RT-6, RT-31: what each machine makes of what is asked for. */
START_TEST(test_against_machines)
{
    struct td_machine machine;
    struct td_pool_config config;
    td_machine_init(&machine, cases[_i].machine);
    ck_assert_int_eq(
        td_pool_config_parse(&config, cases[_i].pool, machine.problem, sizeof machine.problem), 0);
    int error = td_pools_add(machine.pools, &config, machine.problem, sizeof machine.problem);
    ck_assert_msg(error == cases[_i].error, "%s: %d %s", cases[_i].pool, error, machine.problem);
    struct td_pool_stats stats = {0};
    struct td_pool *made = error ? NULL : td_pools_find(machine.pools, "a");
    if (made)
        td_pool_stats(made, &stats);
    td_pool_unref(made);
    const char *said = error ? machine.problem : stats.warning;
    if (!error && cases[_i].threads > cases[_i].streams && !td_test_has_teams()) {
        ck_assert_ptr_nonnull(strstr(said, "no OpenMP runtime"));
        td_machine_fini(&machine);
        return;
    }
    ck_assert_msg(*cases[_i].says ? strstr(said, cases[_i].says) != NULL : !*said, "%s: '%s'",
                  cases[_i].pool, said);
    if (!error) {
        ck_assert_str_eq(stats.config.cpus, cases[_i].cpus);
        ck_assert_str_eq(stats.requested, config.cpus);
        ck_assert_int_eq(stats.config.threads, cases[_i].threads);
        ck_assert_int_eq(stats.config.streams, cases[_i].streams);
        ck_assert_int_eq(stats.config.queue_depth, 1024);
    }
    td_machine_fini(&machine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *tcase = tcase_create("config");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, test_parse);
    tcase_add_test(tcase, test_parse_long_list);
    tcase_add_loop_test(tcase, test_parse_refuses, 0, sizeof wrong / sizeof *wrong);
    tcase_add_loop_test(tcase, test_lists, 0, sizeof lists / sizeof *lists);
    tcase_add_test(tcase, test_list_text_is_cut);
    tcase_add_loop_test(tcase, test_against_machines, 0, sizeof cases / sizeof *cases);
    suite_add_tcase(suite, tcase);
    return td_test_run(suite);
}
