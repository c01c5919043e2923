/* api/request/reply.c: what is wrong, in the one form that all errors have. */
#include "api/api.h"
#include "tests/run_tests.h"

#include <errno.h>
#include <string.h>

static int status_of(int error, const char *detail)
{
    struct td_request req = {.arena = td_arena_create()};
    ck_assert_int_eq(td_api_problem(&req, error, "%s", detail), error);
    ck_assert(memmem(req.response.body, req.response.size, detail, strlen(detail)));
    td_arena_destroy(req.arena);
    return req.response.status;
}

START_TEST(test_rows)
{
    ck_assert_int_eq(status_of(-EINVAL, "x: wrong"), 400);
    ck_assert_int_eq(status_of(-ENOSPC, "no room"), 507);
}
END_TEST

/* Whatever a system call or a library says is answered: what has no row is the server's failure. */
START_TEST(test_any_errno)
{
    ck_assert_int_eq(status_of(-EXDEV, "links do not go there"), 500);
    ck_assert_int_eq(status_of(-ENFILE, "no file more"), 500);
    for (int error = 1; error < 140; error++)
        ck_assert_int_ge(status_of(-error, "any"), 400);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_rows, test_any_errno};
    return td_run_tests("reply", tests, sizeof tests / sizeof *tests);
}
