/* How a row is selected and explained by what was measured, which stands in the cache without that
 * any row was timed. */
#include "dispatch/choice/kinds.h"
#include "dispatch/choice/tune.h"
#include "kernels/memo.h"
#include "tests/dispatch/dispatch_test.h"

static int ran, looks, made, dropped;
static bool first_refuses, second_refuses, second_unmade;

static void first(const struct td_call *call)
{
    ran++;
    toy_run(call);
}

static void second(const struct td_call *call)
{
    ran++;
    toy_run(call);
}

/* What a row holds for a call: a reference. */
static void *create(const void *key, int *error)
{
    (void)key, (void)error;
    made++;
    return &made;
}

static void drop(void *value)
{
    (void)value;
    dropped++;
}

static struct td_memo memo = TD_MEMO(sizeof(int), create, drop);

static void hold(struct td_prepared *prepared)
{
    static const int key;
    looks += prepared->only_look;
    prepared->state[0] = td_memo_get(&memo, &key);
}

/* Whoever asked rows has given back what they hold. */
static void nothing_is_held(void)
{
    td_memo_clear(&memo);
    ck_assert_int_gt(made, 0);
    ck_assert_int_eq(dropped, made);
}

static const char *prepare_first(const struct td_call *call, struct td_prepared *prepared)
{
    (void)call;
    hold(prepared);
    return first_refuses ? "not this one" : NULL;
}

static const char *prepare_second(const struct td_call *call, struct td_prepared *prepared)
{
    (void)call;
    hold(prepared);
    prepared->unmade = prepared->only_look && second_unmade;
    return second_refuses ? "not today" : NULL;
}

static double rounds_more(const struct td_call *call)
{
    (void)call;
    return 2;
}

static double each = 1; /* operations an element */

static double flops(const struct td_call *call)
{
    return each * (double)td_numel(&call->out[0]);
}

static const struct td_impl rows[] = {
    {.name = "first",
     .run = first,
     .dtypes = TD_ALL,
     .prepare = prepare_first,
     .rounding = rounds_more},
    {.name = "second", .run = second, .dtypes = TD_ALL, .library = true, .prepare = prepare_second},
    {.name = "ref", .run = toy_run, .dtypes = TD_ALL},
    {0}};
/* The first row asks nothing, as that of most tables. */
static const struct td_impl plain[] = {{.name = "first", .run = first, .dtypes = TD_ALL},
                                       {.name = "second", .run = second, .dtypes = TD_ALL},
                                       {.name = "ref", .run = toy_run, .dtypes = TD_ALL},
                                       {0}};
static const struct td_op ops[] = {{.schema = "toy_select(Tensor self, int mode=0) -> Tensor",
                                    .rule = toy_rule,
                                    .dtypes = TD_ALL,
                                    .impls = rows,
                                    .flops = flops},
                                   {.schema = "toy_plain(Tensor self) -> Tensor",
                                    .rule = toy_rule,
                                    .dtypes = TD_ALL,
                                    .impls = plain,
                                    .flops = flops}};

static struct td_run run;
static struct td_why why[3];
static float x[100], y[100];

static void define(void)
{
    struct td_problem problem = {0};
    start();
    for (int i = 0; i < 2; i++) {
        struct td_kernel_def def = {.key = TD_KEY_CPU, .rows = ops[i].impls, .origin = TD_HERE};
        ck_assert_int_eq(td_define(&ops[i], "here:1", &problem), 0);
        ck_assert_int_eq(td_register(i ? "toy_plain" : "toy_select", &def, NULL, &problem), 0);
    }
    td_tune(true);
}

static int64_t mode; /* kinds of two modes are of two families */

static void bind_of(const char *name, int64_t n)
{
    struct td_named args[] = {tensor_arg("self", x, n), {"mode", {.kind = TD_KIND_int, .i = mode}}};
    struct td_options options = {.alloc = heap};
    ck_assert_int_eq(td_run_bind(&run, name, args, mode ? 2 : 1, &options), 0);
    run.call.threads = 1;
    run.call.out[0].data = y;
}

static uint64_t key_of_run(void)
{
    return td_kind_key(td_kind_signature(&run.call), run.rows, run.call.op);
}

/* As if the second row had been measured to be the fastest, of n rows. */
static void measured(bool asked, int n)
{
    struct td_measured m = {.op = run.call.op,
                            .of = run.rows,
                            .row = &run.rows[1],
                            .asked = asked,
                            .n = n,
                            .tried = {{&run.rows[1], 0.25}, {&run.rows[0], 0.5}}};
    td_kind_add(key_of_run(), &m, 0);
}

static const char *selected(void)
{
    size_t bytes;
    ck_assert_int_eq(td_run_select(&run, &bytes), 0);
    td_run_release(&run);
    ck_assert(run.impl >= run.rows && run.impl < run.rows + 3);
    return run.impl->name;
}

/* What is chosen now, and is said to be, of three rows. */
static void explained(const char *chosen, const char *of_first, const char *of_second)
{
    ck_assert_str_eq(selected(), chosen);
    ck_assert_int_eq(td_run_explain(&run, why, 3), 3);
    ck_assert_str_eq(why[0].reason, of_first);
    ck_assert_str_eq(why[1].reason, of_second);
}

/* What was measured is chosen while it takes the call; what runs says how much it rounds (JIT-6).
 */
START_TEST(test_measured)
{
    define();
    bind_of("toy_select", 4);
    measured(false, 2);
    explained("second", "accepted, but was slower when measured", "chosen by measurement");
    ck_assert(why[0].us == 0.5 && why[1].us == 0.25 && why[2].us == 0);
    ck_assert(why[0].rounding == 0 && why[1].rounding == 0);
    second_refuses = true;
    explained("first", "chosen", "not today");
    ck_assert(why[0].us == 0 && why[0].rounding == 2);
    first_refuses = true;
    explained("ref", "not this one", "not today");
    second_refuses = false;
    explained("second", "not this one", "chosen by measurement");
    first_refuses = false;
    measured(false, 1); /* no other was timed */
    explained("second", "accepted, but a better one stands before it", "chosen");
    run.forced = "first"; /* whatever was measured */
    explained("first", "chosen", "not the kernel asked for");
    ck_assert(why[0].us == 0 && why[0].rounding == 2);
    ck_assert_int_eq(td_run_explain(&run, why, 1), 1);
    ck_assert_int_eq(ran, 0);
    ck_assert_int_eq(looks, 0); /* who selects and explains has rows make what they need */
    nothing_is_held();
}
END_TEST

/* Of a table in which no row asks what was measured by request, and nothing that nobody asked for;
 * a call without elements takes the first row (JIT-6). */
START_TEST(test_by_request)
{
    define();
    bind_of("toy_plain", 4);
    measured(false, 2);
    ck_assert_str_eq(selected(), "first");
    measured(true, 2);
    ck_assert_str_eq(selected(), "second");
    td_tune(false);
    ck_assert_str_eq(selected(), "first");
    td_tune(true);
    bind_of("toy_plain", 0);
    measured(true, 2);
    explained("first", "chosen", "accepted, but a better one stands before it");
    ck_assert_int_eq(ran, 0);
}
END_TEST

/* Which row is likely: the one that was measured; it is ready unless it has to be made first
 * (JIT-6). */
START_TEST(test_likely)
{
    bool ready;
    define();
    bind_of("toy_select", 4);
    ck_assert_str_eq(td_row_likely(&run, &ready)->name, "first");
    ck_assert(!ready); /* it would be measured */
    ck_assert_int_eq(looks, 1);
    nothing_is_held();
    measured(false, 2);
    ck_assert_str_eq(td_row_likely(&run, &ready)->name, "second");
    ck_assert(ready);
    nothing_is_held();
    second_unmade = true;
    ck_assert_str_eq(td_row_likely(&run, &ready)->name, "second");
    ck_assert(!ready);
    run.forced = "first";
    ck_assert_str_eq(td_row_likely(&run, &ready)->name, "first");
    ck_assert(ready);
    run.forced = "second";
    ck_assert_str_eq(td_row_likely(&run, &ready)->name, "second");
    ck_assert(!ready);
}
END_TEST

/* A kind for which there is no room in the cache is not measured: the order decides, and it is
 * counted (JIT-7). */
START_TEST(test_no_room)
{
    struct td_measured m = {.row = rows};
    define();
    bind_of("toy_select", 4);
    for (uint64_t i = 1; i < 10; i++) /* the ninth evicts, and took 16 minutes */
        td_kind_add(key_of_run() + 512 * i, &m, INT64_C(1000000000000));
    int64_t before = td_tuned().measured;
    bool ready;
    ck_assert_str_eq(td_row_likely(&run, &ready)->name, "first");
    ck_assert(ready);
    for (int i = 1; i < 3; i++) {
        ck_assert_str_eq(selected(), "first");
        ck_assert_int_eq(td_tuned().postponed, i);
        ck_assert_int_eq(td_choices_of(&ops[0]).misses, i);
    }
    ck_assert_int_eq(td_tuned().measured, before);
    ck_assert_int_eq(ran, 0);
}
END_TEST

/* What was measured of a near kind is taken over where rows would take long to time, unless one of
 * the two is so brief that a library was left out there (JIT-6). */
START_TEST(test_near)
{
    static const struct {
        double flops, near, us;
        bool taken;
    } cases[] = {{6e7, 5e7, 1000, true},   {6.1e7, 5.9e7, 1000, false}, {5.9e7, 6.1e7, 1000, false},
                 {9e7, 6.1e7, 1000, true}, {5e7, 5e7, 126, true},       {5e7, 5e7, 124, false}};
    define();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mode = (int64_t)i + 1;
        bind_of("toy_select", 100);
        struct td_measured m = {
            .op = run.call.op,
            .of = rows,
            .row = &rows[1],
            .family = td_kind_family(&run.call),
            .flops = cases[i].near,
            .n = 2,
            .tried = {{&rows[0], cases[i].us / 2}, {&rows[1], cases[i].us / 2}}};
        td_kind_add(key_of_run() + 2, &m, 0); /* another kind of the family */
        each = cases[i].flops / 100;
        ran = 0;
        if (cases[i].taken)
            ck_assert_str_eq(selected(), "second");
        else
            ck_assert_ptr_nonnull(selected());
        ck_assert_msg((ran == 0) == cases[i].taken, "case %zu", i);
    }
}
END_TEST

/* Who is stopped while a row is selected measures nothing, and whom the thread obeyed before it
 * obeys afterwards, whatever the outcome (JIT-6). */
START_TEST(test_stop)
{
    struct td_stop of_thread = {0}, of_run = {.asked = true};
    size_t bytes;
    define();
    bind_of("toy_select", 4);
    td_stop_obey(&of_thread);
    run.stop = &of_run;
    ck_assert_str_eq(selected(), "first");
    ck_assert_ptr_eq(td_stop_obeyed, &of_thread);
    ck_assert_int_eq(ran, 0);
    ck_assert_int_eq(td_tuned().measured, 0);
    run.forced = "none";
    ck_assert_int_eq(td_run_select(&run, &bytes), -EINVAL);
    ck_assert_ptr_eq(td_stop_obeyed, &of_thread);
    run.forced = NULL;
    run.stop = NULL;
    ck_assert_ptr_nonnull(selected());
    ck_assert_ptr_eq(td_stop_obeyed, &of_thread);
    ck_assert_int_gt(ran, 0);
    ck_assert_int_eq(td_tuned().measured, 1);
    td_stop_obey(NULL);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_measured, test_by_request, test_likely,
                                  test_no_room,  test_near,       test_stop};
    return td_run_tests("select", tests, sizeof tests / sizeof *tests);
}
