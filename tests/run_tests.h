/* The end of the main of every test with Check. */
#ifndef TD_RUN_TESTS_H
#define TD_RUN_TESTS_H

#include <check.h>
#include <stddef.h>

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
    tcase_set_timeout(tcase,
                      120); /* Check's own 4 s are few under a sanitizer; meson has a limit too */
    for (size_t i = 0; i < n; i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    return td_run_suite(suite);
}

#endif
