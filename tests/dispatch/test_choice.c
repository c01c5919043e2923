/* Rows that are chosen by measurement: the faster one is taken and stays, whatever their order. */
#include "dispatch/choice/kinds.h"
#include "dispatch/choice/tune.h"
#include "kernels/weight.h"
#include "tests/dispatch/dispatch_test.h"

#include <errno.h>
#include <math.h>
#include <time.h>
#include <unistd.h>

static int slow_ran, fast_ran, by_strides; /* how often */
static bool fast_refuses;
static int64_t slow_ns = 300000;

/* This thread's, by which it is timed where it computes alone. */
static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000 + t.tv_nsec;
}

static void spin(int64_t ns)
{
    for (int64_t end = cpu_ns() + ns; cpu_ns() < end;)
        ;
}

static void slow(const struct td_call *call)
{
    slow_ran++;
    by_strides += call->arg[0].tensor.stride != NULL;
    spin(slow_ns);
    toy_run(call);
}

static void fast(const struct td_call *call)
{
    fast_ran++;
    by_strides += call->arg[0].tensor.stride != NULL;
    toy_run(call);
}

static const char *prepare_slow(const struct td_call *call, struct td_prepared *prepared)
{
    (void)call;
    prepared->scratch = 100;
    return NULL;
}

static const char *prepare_fast(const struct td_call *call, struct td_prepared *prepared)
{
    (void)call, (void)prepared;
    return fast_refuses ? "not today" : NULL;
}

static double flops(const struct td_call *call)
{
    return (double)td_numel(&call->out[0]);
}

/* The slow row stands first, and behind the library's again, which has it timed beside that. */
static const struct td_impl rows[] = {
    {.name = "slow", .run = slow, .dtypes = TD_ALL, .prepare = prepare_slow, .strided = true},
    {.name = "fast",
     .run = fast,
     .dtypes = TD_ALL,
     .library = true,
     .prepare = prepare_fast,
     .strided = true},
    {.name = "slow, again", .run = slow, .dtypes = TD_ALL, .prepare = prepare_slow},
    {.name = "ref", .run = toy_run, .dtypes = TD_ALL},
    {0}};
static const struct td_impl own_rows[] = {
    {.name = "slow", .run = slow, .dtypes = TD_ALL, .prepare = prepare_slow},
    {.name = "fast", .run = fast, .dtypes = TD_ALL, .prepare = prepare_fast},
    {.name = "ref", .run = toy_run, .dtypes = TD_ALL},
    {0}};
/* The middle one is own code of a lower level, which is not timed where a higher one runs. */
static const struct td_impl level_rows[] = {
    {.name = "slow", .run = slow, .dtypes = TD_ALL, .prepare = prepare_slow, .isa = TD_ISA_avx2},
    {.name = "lower", .run = toy_run, .dtypes = TD_ALL, .prepare = prepare_fast},
    {.name = "fast", .run = fast, .dtypes = TD_ALL, .library = true, .prepare = prepare_fast},
    {.name = "slow", .run = slow, .dtypes = TD_ALL, .prepare = prepare_slow, .isa = TD_ISA_avx2},
    {.name = "ref", .run = toy_run, .dtypes = TD_ALL},
    {0}};
static const struct td_op op = {.schema = "toy_two(Tensor self, int mode=0) -> Tensor",
                                .rule = toy_rule,
                                .dtypes = TD_ALL,
                                .impls = rows,
                                .flops = flops};
static const struct td_op own_op = {.schema = "toy_own(Tensor self) -> Tensor",
                                    .rule = toy_rule,
                                    .dtypes = TD_ALL,
                                    .impls = own_rows,
                                    .flops = flops};

static const struct td_op level_op = {.schema = "toy_levels(Tensor self) -> Tensor",
                                      .rule = toy_rule,
                                      .dtypes = TD_ALL,
                                      .impls = level_rows,
                                      .flops = flops};

static void define(bool on)
{
    struct td_problem problem = {0};
    struct td_kernel_def def = {.key = TD_KEY_CPU, .rows = rows, .origin = TD_HERE};
    start();
    ck_assert_int_eq(td_define(&op, "here:1", &problem), 0);
    ck_assert_int_eq(td_register("toy_two", &def, NULL, &problem), 0);
    def.rows = own_rows;
    ck_assert_int_eq(td_define(&own_op, "here:2", &problem), 0);
    ck_assert_int_eq(td_register("toy_own", &def, NULL, &problem), 0);
    def.rows = level_rows;
    ck_assert_int_eq(td_define(&level_op, "here:3", &problem), 0);
    ck_assert_int_eq(td_register("toy_levels", &def, NULL, &problem), 0);
    td_tune(on);
}

static float x[1000], y[1000];
static struct td_run run;
static struct td_named self; /* of the call that is chosen for */

/* The row that selection takes for so many elements; both have run so often by then. */
static const char *chosen_by(const char *name, int64_t mode, int threads)
{
    struct td_named args[] = {self, {"mode", {.kind = TD_KIND_int, .i = mode}}};
    struct td_options options = {.alloc = heap};
    size_t bytes;
    ck_assert_int_eq(td_run_bind(&run, name, args, strcmp(name, "toy_two") ? 1 : 2, &options), 0);
    run.call.threads = threads;
    run.call.out[0].data = y;
    ck_assert_int_eq(td_run_select(&run, &bytes), 0);
    td_run_release(&run);
    return run.impl->name;
}

static const char *chosen(const char *name, int64_t n, int64_t mode)
{
    self = tensor_arg("self", x, n);
    return chosen_by(name, mode, 1);
}

START_TEST(test_the_faster_one_stays)
{
    struct td_why why[3];
    define(true);
    y[0] = 77;
    ck_assert_str_eq(chosen("toy_two", 4, 0), "fast");
    ck_assert_int_ge(slow_ran, 2);
    ck_assert_int_ge(fast_ran, 2);
    ck_assert_float_eq(y[0], 77); /* it was not on the call's own memory */
    int n = slow_ran + fast_ran;
    for (int i = 0; i < 5; i++)
        ck_assert_str_eq(chosen("toy_two", 4, 0), "fast");
    ck_assert_int_eq(td_run_explain(&run, why, 3), 3);
    ck_assert_int_eq(slow_ran + fast_ran, n);
    ck_assert_str_eq(why[0].reason, "accepted, but was slower when measured");
    ck_assert_str_eq(why[1].reason, "chosen by measurement");
    ck_assert_str_eq(why[2].reason, "accepted, but a better one stands before it");
    ck_assert(why[0].us >= 300 && why[1].us < why[0].us && why[1].us > 0 && why[2].us == 0);
    execute(&run, y);
    ck_assert_int_eq(slow_ran + fast_ran, n + 1);
    ck_assert_str_eq(chosen("toy_two", 4, 0), "fast");
    ck_assert_str_eq(chosen("toy_two", 100, 0), "fast");
    n = slow_ran;
    ck_assert_str_eq(chosen("toy_two", 101, 0), "fast"); /* of the same kind */
    ck_assert_int_eq(slow_ran, n);
    ck_assert_str_eq(chosen("toy_two", 100, 1), "fast"); /* of another one */
    ck_assert_int_gt(slow_ran, n);
}
END_TEST

START_TEST(test_highest_level)
{
    struct td_why why[4];
    define(true);
    bool high = td_cpu()->levels >> TD_ISA_avx2 & 1;
    if (!high)
        printf("no AVX2 here: the lower level is the highest\n");
    ck_assert_str_eq(chosen("toy_levels", 4, 0), high ? "fast" : "lower");
    ck_assert_int_eq(td_run_explain(&run, why, 4), 4);
    ck_assert(high == (why[0].us > 0));
    ck_assert(high == (why[1].us == 0)); /* it would have been as fast */
    ck_assert(why[2].us > 0);
}
END_TEST

/* Where it is off, where no library takes part, and where a kernel is asked for, the order decides.
 */
START_TEST(test_order_decides)
{
    struct td_why why[3];
    size_t bytes;
    define(false);
    ck_assert_str_eq(chosen("toy_two", 4, 0), "slow");
    td_tune(true);
    ck_assert_str_eq(chosen("toy_own", 4, 0), "slow");
    ck_assert_int_eq(slow_ran, 0);
    ck_assert_int_eq(td_run_explain(&run, why, 3), 3);
    ck_assert_str_eq(why[0].reason, "chosen");
    struct td_named args[] = {tensor_arg("self", x, 4)};
    ck_assert_int_eq(td_run_bind(&run, "toy_two", args, 1, NULL), 0);
    run.forced = "slow";
    ck_assert_int_eq(td_run_select(&run, &bytes), 0);
    ck_assert_str_eq(run.impl->name, "slow");
    td_run_release(&run);
    args[0].value.tensor.shape[0] = 5 << 20; /* 40 MB with the result: more than is copied */
    ck_assert_int_eq(td_run_bind(&run, "toy_two", args, 1, NULL), 0);
    ck_assert_int_eq(td_run_select(&run, &bytes), 0);
    ck_assert_str_eq(run.impl->name, "slow");
    td_run_release(&run);
    ck_assert_int_eq(slow_ran, 0);
}
END_TEST

/* What is measured on has room for dense tensors alone. */
START_TEST(test_strides)
{
    static const int64_t two = 2;
    define(true);
    self = tensor_arg("self", x, 400);
    self.value.tensor.stride = &two;
    ck_assert_str_eq(chosen_by("toy_two", 0, 1), "fast");
    ck_assert_int_ge(fast_ran, 2);
    ck_assert_int_eq(by_strides, 0);
}
END_TEST

/* A row that was the fastest, and does not take this call. */
START_TEST(test_it_refuses)
{
    struct td_why why[3];
    define(true);
    ck_assert_str_eq(chosen("toy_two", 4, 0), "fast");
    fast_refuses = true;
    ck_assert_str_eq(chosen("toy_two", 4, 0), "slow");
    td_run_explain(&run, why, 3);
    ck_assert_str_eq(why[0].reason, "chosen");
    ck_assert_str_eq(why[1].reason, "not today");
    fast_refuses = false;
    ck_assert_str_eq(chosen("toy_two", 4, 0), "fast");
}
END_TEST

/* What is still to be measured is for no thread that others wait for; who is stopped keeps nothing.
 */
START_TEST(test_before)
{
    struct td_named args[] = {tensor_arg("self", x, 4)};
    struct td_stop stop = {.asked = true};
    define(true);
    ck_assert_int_eq(td_run_bind(&run, "toy_two", args, 1, NULL), 0);
    ck_assert(isinf(td_run_cost(&run).most));
    const struct td_stop *before = td_stop_obey(&stop);
    ck_assert_str_eq(chosen("toy_two", 4, 0), "slow");
    td_stop_obey(before);
    ck_assert(isinf(td_run_cost(&run).most));
    ck_assert_str_eq(chosen("toy_two", 4, 0), "fast");
    ck_assert(isfinite(td_run_cost(&run).most));
}
END_TEST

/* Also of a table in which no library takes part, and nothing else of that: the kind alone. What is
 * kept already stays, whatever a file says. */
START_TEST(test_by_request)
{
    struct td_measured m;
    struct td_problem problem;
    struct td_named args[] = {tensor_arg("self", NULL, 4)};
    define(true);
    slow_ns = 300000;
    ck_assert_str_eq(chosen("toy_own", 4, 0), "slow");
    ck_assert_int_eq(td_run_bind(&run, "toy_own", args, 1, NULL), 0);
    ck_assert_int_eq(td_run_tune(&run, &m, &problem), 0);
    ck_assert_str_eq(m.row->name, "fast");
    ck_assert_str_eq(m.tried[0].row->name, "slow");
    ck_assert_str_eq(m.call, "toy_own(FP32[4]) on 1 thread");
    ck_assert(m.asked && m.n == 2 && m.of == own_rows && m.tried[0].us > m.tried[1].us);
    int n = slow_ran;
    ck_assert_str_eq(chosen("toy_own", 4, 0), "fast");
    ck_assert_str_eq(chosen("toy_own", 400, 0), "slow");
    ck_assert_int_eq(slow_ran, n);
    ck_assert_int_eq(td_choices_of(&own_op).kept, 1);
    ck_assert_int_eq(td_choices_of(&own_op).hits, 1);
    m.row = m.tried[0].row;
    ck_assert(td_choice_restore(&m));
    ck_assert_str_eq(chosen("toy_own", 4, 0), "fast");
    m.signature++;
    m.row = &rows[1]; /* another table's */
    ck_assert(!td_choice_restore(&m));
    m.row = m.tried[0].row;
    m.asked = false; /* and nobody would look for it */
    ck_assert(!td_choice_restore(&m));
    td_tune(false);
    ck_assert_str_eq(chosen("toy_own", 4, 0), "slow");
    ck_assert_int_eq(td_run_bind(&run, "toy_own", args, 1, NULL), 0);
    ck_assert_int_eq(td_run_tune(&run, &m, &problem), -EINVAL);
    ck_assert_ptr_nonnull(strstr(problem.text, "tune is off"));
}
END_TEST

/* More kinds than are kept: those that have not been used for longest go, it says how many, and
 * none that is in use is measured again. */
START_TEST(test_more_kinds_than_are_kept)
{
    define(true);
    slow_ns = 1000;
    struct td_tuned before = td_tuned(), now = before;
    for (int mode = 1; mode < 100000 && now.measured < now.most + 50; mode++) {
        if (now.postponed > before.postponed)
            usleep(100); /* it has been spent on measuring what comes next may be */
        ck_assert_ptr_nonnull(chosen("toy_two", 4, 0));
        int64_t measured = td_tuned().measured;
        ck_assert_ptr_nonnull(chosen("toy_two", 4, 0)); /* it has been used since */
        ck_assert_int_eq(td_tuned().measured, measured);
        chosen("toy_two", 4, mode);
        now = td_tuned();
        ck_assert_int_le(now.kinds, now.most);
        ck_assert_int_eq(now.kinds, now.measured - now.evicted);
    }
    ck_assert_int_ge(now.evicted, before.evicted + 5);
    ck_assert_int_ge(now.measured, now.most + 50);
    int n = slow_ran;
    ck_assert_ptr_nonnull(chosen("toy_two", 4, 0));
    ck_assert_int_eq(slow_ran, n);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("choice");
    TCase *tcase = tcase_create("choice");
    tcase_add_test(tcase, test_the_faster_one_stays);
    tcase_add_test(tcase, test_highest_level);
    tcase_add_test(tcase, test_order_decides);
    tcase_add_test(tcase, test_strides);
    tcase_add_test(tcase, test_it_refuses);
    tcase_add_test(tcase, test_before);
    tcase_add_test(tcase, test_by_request);
    tcase_add_test(tcase, test_more_kinds_than_are_kept);
    suite_add_tcase(suite, tcase);
    return td_run_suite(suite);
}
