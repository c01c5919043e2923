/* The end of the main of every test with Check, and how the mains of several files make one
 * program: linking a program per file took longer than running it.
 *
 * Where TD_SUITES is defined (tests/meson.build), the file's `int main(void)` becomes a static
 * function that adds itself to the list of tests/suites.c before the program's main runs. */
#ifndef TD_RUN_TESTS_H
#define TD_RUN_TESTS_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct td_suite {
    const char *file; /* its source */
    int (*main)(void);
    struct td_suite *next;
};
void td_suite_add(struct td_suite *suite); /* suite: stays */

#if defined TD_SUITES && !defined TD_SUITES_MAIN
static int td_suite_main(void);
static struct td_suite td_suite = {__BASE_FILE__, td_suite_main, NULL};
__attribute__((constructor)) static void td_suite_register(void)
{
    td_suite_add(&td_suite);
}
#define main td_suite_main
#endif

/* TENSORD_TEST names the one test that is wanted; without it, all are. */
static inline bool td_test_is_wanted(const TTest *test)
{
    const char *name = getenv("TENSORD_TEST");
    return !name || !strcmp(name, test->name);
}
/* Check's, through which all that add a test go. */
#define _tcase_add_test(tcase, test, ...)                                                          \
    (td_test_is_wanted(test) ? _tcase_add_test(tcase, test, __VA_ARGS__) : (void)0)

/* Runs the suite, which goes with it; the exit status. */
static inline int td_run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

/* Runs one case with the given tests. */
static inline int td_run_tests(const char *name, const TTest *const *tests, size_t n)
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    for (size_t i = 0; i < n; i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    return td_run_suite(suite);
}

#endif
