/* api/routes/tables.c: what is registered for an operator. Nothing in a running service registers a
 * kernel over another one, so that is tried here. */
#include "api/routes/routes.h"
#include "tests/run_tests.h"

#include <string.h>

static int boxed(struct td_run *run, td_keyset keys)
{
    return td_redispatch(run, keys & td_keyset_below(TD_KEY_CPU));
}

/* The whole answer. */
static const char *state(struct td_request *req, char *op)
{
    struct td_response res = {0};
    req->var[0] = op;
    ck_assert_int_eq(td_api_dispatch_state(req, &res), 0);
    ck_assert_int_eq(res.status, 200);
    char *text = td_arena_alloc(req->arena, res.size + 1);
    memcpy(text, res.body, res.size);
    text[res.size] = 0;
    return text;
}

static int count(const char *text, const char *word)
{
    int n = 0;
    while ((text = strstr(text, word)))
        text++, n++;
    return n;
}

/* DSP-33: of two kernels for a key the newer one is active, and stands first. */
START_TEST(test_shadowed)
{
    struct td_problem problem = {0};
    struct td_kernel_def def = {.key = TD_KEY_CPU, .boxed = boxed, .origin = "here:1"};
    struct td_registration *newer;
    ck_assert_msg(!td_cpu_init(NULL, &problem) && !td_registry_init(&problem), "%s", problem.text);
    struct td_request req = {.arena = td_arena_create()};
    char op[] = "relu";
    const char *before = state(&req, op);
    ck_assert_int_eq(count(before, "\"active\":false"), 0);
    ck_assert_int_eq(td_register(op, &def, &newer, &problem), 0);
    const char *both = state(&req, op), *here = strstr(both, "here:1");
    ck_assert_int_eq(count(both, "\"active\":false"), 1);
    ck_assert_int_eq(count(both, "\"active\":true"), count(before, "\"active\":true"));
    ck_assert_ptr_nonnull(here);
    const char *old = strstr(both, "\"active\":false");
    ck_assert(here < old);
    while (strncmp(old, "\"key\"", 5))
        old--;
    ck_assert(!strncmp(old, "\"key\":\"CPU\"", 11));
    td_unregister(&newer);
    ck_assert_str_eq(state(&req, op), before);
    td_arena_destroy(req.arena);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_shadowed};
    return td_run_tests("state", tests, sizeof tests / sizeof *tests);
}
