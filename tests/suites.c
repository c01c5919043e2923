/* The main of a program that holds several suites: runs the one that is named, as meson's tests do,
 * or each in turn. A suite's name is its file's: that of test_calls.c is calls. */
#define TD_SUITES_MAIN
#include "tests/run_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct td_suite *suites;

void td_suite_add(struct td_suite *suite)
{
    suite->next = suites;
    suites = suite;
}

static bool is_called(const struct td_suite *suite, const char *name)
{
    const char *slash = strrchr(suite->file, '/'), *base = slash ? slash + 1 : suite->file;
    size_t n = strlen(name);
    return !strncmp(base, "test_", 5) && !strncmp(base + 5, name, n) && !strcmp(base + 5 + n, ".c");
}

int main(int argc, char **argv)
{
    int failed = 0, ran = 0;
    /* Check's own 4 s are few under a sanitizer and beside other work; meson has a limit, too. */
    setenv("CK_DEFAULT_TIMEOUT", "120", 0);
    for (struct td_suite *s = suites; s; s = s->next)
        if (argc < 2 || is_called(s, argv[1])) {
            failed |= s->main();
            ran++;
        }
    if (!ran)
        fprintf(stderr, "%s: no suite '%s'\n", argv[0], argc > 1 ? argv[1] : "");
    return failed || !ran;
}
