/* Rows that have no chance take no time of those that ask first. */
#include "dispatch/choice/kinds.h"
#include "pools/pools.h"
#include "tests/dispatch/dispatch_test.h"

#define LONG 1000000 /* milliseconds, more or less */

static int quick_ran, endless_ran, endless_ended, turned_ran;

static void quick(const struct td_call *call)
{
    quick_ran++;
    toy_run(call);
}

/* As kernels do, it looks now and then whether it is to stop. */
static void endless(const struct td_call *call)
{
    int i = 0;
    (void)call;
    endless_ran++;
    for (; i < LONG && !td_stopped(); i++)
        for (volatile int k = 0; k < 1000000; k++)
            ;
    endless_ended += i == LONG;
}

static void turned(const struct td_call *call)
{
    turned_ran++;
    toy_run(call);
}

static const char *takes(const struct td_call *call, struct td_prepared *prepared)
{
    (void)call, (void)prepared;
    return NULL;
}

static const char *takes_turned(const struct td_call *call, struct td_prepared *prepared)
{
    (void)call;
    prepared->rearranges = true;
    return NULL;
}

static double flops(const struct td_call *call)
{
    return (double)td_numel(&call->out[0]);
}

static const struct td_impl rows[] = {
    {.name = "quick", .run = quick, .dtypes = TD_ALL, .library = true, .prepare = takes},
    {.name = "endless", .run = endless, .dtypes = TD_ALL, .prepare = takes},
    {.name = "turned", .run = turned, .dtypes = TD_ALL, .prepare = takes_turned},
    {.name = "ref", .run = toy_run, .dtypes = TD_ALL},
    {0}};
static const struct td_op op = {.schema = "toy_tried(Tensor self) -> Tensor",
                                .rule = toy_rule,
                                .dtypes = TD_ALL,
                                .impls = rows,
                                .flops = flops};

START_TEST(test_hopeless)
{
    struct td_problem problem = {0};
    struct td_kernel_def def = {.key = TD_KEY_CPU, .rows = rows, .origin = TD_HERE};
    struct td_tensor self = {.dtype = TD_f32, .rank = 1, .shape = {100}};
    struct td_named arg = {.value = {.kind = TD_KIND_tensor, .tensor = self}};
    struct td_options options = {.alloc = td_alloc_in_arena, .alloc_arg = td_arena_create()};
    struct td_run run;
    struct td_measured m;
    start();
    ck_assert_int_eq(td_define(&op, "here:1", &problem), 0);
    ck_assert_int_eq(td_register("toy_tried", &def, NULL, &problem), 0);
    ck_assert_int_eq(td_run_bind(&run, "toy_tried", &arg, 1, &options), 0);
    ck_assert(td_try_rows(run.rows, &run.call, false, &m));
    ck_assert_str_eq(m.row->name, "quick");
    ck_assert_int_ge(quick_ran, 2);
    ck_assert_int_eq(endless_ended, 0);
    ck_assert_int_le(endless_ran, 3); /* again where it was kept waiting */
    ck_assert_int_eq(turned_ran, 0);
    ck_assert_int_eq(m.n, 2);
    td_arena_destroy(options.alloc_arg);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_hopeless};
    return td_run_tests("trial", tests, sizeof tests / sizeof *tests);
}
