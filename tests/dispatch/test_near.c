/* Rows that would take long to time are taken over from a near kind that was timed. */
#include "dispatch/choice/tune.h"
#include "tests/dispatch/dispatch_test.h"

#include <time.h>

static int ran; /* both rows */
static int64_t slow_ns;

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000 + t.tv_nsec;
}

static void slow(const struct td_call *call)
{
    ran++;
    for (int64_t end = cpu_ns() + slow_ns; cpu_ns() < end;)
        ;
    toy_run(call);
}

static void fast(const struct td_call *call)
{
    ran++;
    toy_run(call);
}

static double flops(const struct td_call *call)
{
    return (double)td_numel(&call->out[0]);
}

static const struct td_impl rows[] = {
    {.name = "slow", .run = slow, .dtypes = TD_ALL, .prepare = takes},
    {.name = "fast", .run = fast, .dtypes = TD_ALL, .library = true, .prepare = takes},
    {.name = "slow, again", .run = slow, .dtypes = TD_ALL, .prepare = takes},
    {.name = "ref", .run = toy_run, .dtypes = TD_ALL},
    {0}};
static const struct td_op op = {.schema = "toy_near(Tensor self, int mode=0) -> Tensor",
                                .rule = toy_rule,
                                .dtypes = TD_ALL,
                                .impls = rows,
                                .flops = flops};

static float x[1000];
static struct td_run run;

/* How often rows ran to choose one for so many elements, which must be the fast one. */
static int runs_to_choose(int64_t n, int64_t mode)
{
    struct td_named args[] = {tensor_arg("self", x, n), {"mode", {.kind = TD_KIND_int, .i = mode}}};
    struct td_options options = {.alloc = heap};
    size_t bytes;
    ran = 0;
    ck_assert_int_eq(td_run_bind(&run, "toy_near", args, 2, &options), 0);
    ck_assert_int_eq(td_run_select(&run, &bytes), 0);
    td_run_release(&run);
    ck_assert_str_eq(run.impl->name, "fast");
    return ran;
}

START_TEST(test_near)
{
    struct td_why why[3];
    struct td_problem problem = {0};
    struct td_kernel_def def = {.key = TD_KEY_CPU, .rows = rows, .origin = TD_HERE};
    start();
    ck_assert_int_eq(td_define(&op, "here:1", &problem), 0);
    ck_assert_int_eq(td_register("toy_near", &def, NULL, &problem), 0);
    td_tune(true);
    slow_ns = 2000000;
    ck_assert_int_ge(runs_to_choose(100, 0), 4);
    ck_assert_int_eq(runs_to_choose(300, 0), 0);
    td_run_explain(&run, why, 3);
    ck_assert_str_eq(why[1].reason, "chosen by measurement");
    ck_assert_double_gt(why[0].us, why[1].us);
    ck_assert_int_eq(td_tuned().kinds, 2);
    slow_ns = 30000;                             /* enough for a library to pay */
    ck_assert_int_eq(runs_to_choose(300, 0), 0); /* it stays what it was */
    ck_assert_int_ge(runs_to_choose(800, 0), 4); /* too far from 100, which alone was timed */
    ck_assert_int_ge(runs_to_choose(30, 0), 4);  /* no large size */
    ck_assert_int_ge(runs_to_choose(300, 1), 4); /* another attribute */
    ck_assert_int_ge(runs_to_choose(600, 1), 4); /* quick */
    td_tune(false);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_near};
    return td_run_tests("near", tests, sizeof tests / sizeof *tests);
}
