/* dispatch/step/step.h: runs of several calls, conversions, and what goes wrong. That
 * every operator's step computes what its run does is tests/kernels/test_steps.c. */
#include "dispatch_test.h"
#include "tests/dispatch/step_test.h"

/* ---- what consists of several calls ---- */

/* Composites, on the backend that has no kernels of theirs, as they are and with self converted. */
START_TEST(test_composites)
{
    static float real[3][8];
    static int32_t whole[3][8];
    int n = 0;
    start();
    arena = td_arena_create();
    for (int i = 0; i < 24; i++)
        real[i / 8][i % 8] = (float)(whole[i / 8][i % 8] = i * 7 % 11 - 5);
    for (int i = 0; i < 2 * td_registry_count(); i++) {
        const struct td_handle *handle = td_registry_at(i / 2);
        struct td_step *step = NULL;
        for (int k = 0; k < 3 && handle->op->composite; k++) {
            struct td_run run;
            struct td_named arg = tensor_arg("self", real[k], 8);
            arg.keys = td_keyset_of(TD_KEY_PrivateUse1);
            if (i % 2) {
                arg.value.tensor.dtype = TD_i32;
                arg.value.tensor.data = whole[k];
            }
            ck_assert_int_eq(td_run_bind(&run, handle->full, &arg, 1, &options), 0);
            ck_assert_ptr_nonnull(run.parts);
            if (!step)
                step = step_of(&run);
            run.call.out[0].data = td_arena_alloc(arena, td_nbytes(&run.call.out[0]) + 64);
            select_and_run(&run);
            td_run_release(&run);
            aim(step, &run);
            execute_step(step);
            same(&run, step, handle->full);
            n++;
        }
        td_step_release(&step);
    }
    ck_assert_int_ge(n, 6);
    td_arena_destroy(arena);
}
END_TEST

/* An expression, of which a part is computed together, and whose results are its parts'. */
START_TEST(test_expression)
{
    static float a[5000], b[5000];
    struct td_named args[] = {tensor_arg("a", a, 5000), tensor_arg("b", b, 5000)};
    struct td_run run;
    start();
    arena = td_arena_create();
    ck_assert_int_eq(td_run_bind_expr(&run, "t = a * b; s = sum(t, [0]); m = sigmoid(t) + s * a",
                                      args, 2, &options),
                     0);
    struct td_step *step = step_of(&run);
    for (int i = 0; i < 3; i++)
        run.call.out[i].data = td_arena_alloc(arena, td_nbytes(&run.call.out[i]) + 64);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 5000; i++) {
            a[i] = (float)(i % 37 - 18 + round) / 8;
            b[i] = (float)(i % 101) / 64;
        }
        select_and_run(&run);
        td_run_release(&run);
        aim(step, &run);
        execute_step(step);
        same(&run, step, "the expression");
    }
    td_step_release(&step);
    td_arena_destroy(arena);
}
END_TEST

/* The second thread of a team has nothing to do. */
static void stay(void *arg, int64_t begin, int64_t end)
{
    (void)arg, (void)begin, (void)end;
}

/* What is computed together wakes a team once, and not for each of its calls. IND-43 */
START_TEST(test_one_team)
{
    static float a[1 << 20];
    struct td_named args[] = {tensor_arg("a", a, 1 << 20)};
    struct td_run run;
    start();
    arena = td_arena_create();
    ck_assert_int_eq(td_run_bind_expr(&run, "relu(a * 2) - exp(a) + sigmoid(a)", args, 1, &options),
                     0);
    run.call.threads = 2;
    run.call.out[0].data = td_arena_alloc(arena, sizeof a + 64);
    unsigned before = td_teams_opened();
    td_parallel(2, 2, 1, stay, NULL);
    unsigned one = td_teams_opened() - before; /* none in a build without OpenMP */
    select_and_run(&run);
    ck_assert_uint_eq(td_teams_opened() - before, 2 * one);
    td_run_release(&run);
    td_arena_destroy(arena);
}
END_TEST

/* ---- conversions, in place ---- */

START_TEST(test_casts)
{
    static int64_t whole[2][4] = {{1, -2, 3, -4}, {5, 6, -7, 8}};
    static float real[2][4] = {{0.5f, 1, 2, 4}, {8, 16, 32, 64}};
    struct td_run run;
    start();
    arena = td_arena_create();
    struct td_named args[] = {tensor_arg("self", real[0], 4), tensor_arg("other", NULL, 4)};
    args[1].value.tensor.dtype = TD_i64;
    args[1].value.tensor.data = whole[0];
    ck_assert_int_eq(td_run_bind(&run, "mul", args, 2, &options), 0);
    ck_assert_int_eq(run.n_casts, 1);
    struct td_step *step = step_of(&run);
    for (int i = 0; i < 3; i++) {
        float out[4];
        td_step_set_input(step, 0, -1, real[i % 2]);
        td_step_set_input(step, 1, -1, whole[i / 2]);
        td_step_set_result(step, 0, out);
        execute_step(step);
        for (int k = 0; k < 4; k++)
            ck_assert_float_eq(out[k], real[i % 2][k] * (float)whole[i / 2][k]);
    }
    td_step_release(&step);

    args[0].value.tensor.dtype = TD_f64; /* its result goes back into FP64 by a conversion */
    args[1].value.tensor.dtype = TD_f32;
    double self[4] = {1, 2, 3, 4};
    args[0].value.tensor.rank = 1;
    args[0].value.tensor.data = self;
    args[1].value.tensor.data = real[0];
    ck_assert_int_eq(td_run_bind(&run, "sub_", args, 2, &options), 0);
    step = step_of(&run);
    td_step_set_input(step, 0, -1, self);
    td_step_set_input(step, 1, -1, real[1]);
    td_step_set_result(step, 0, self);
    execute_step(step);
    execute_step(step);
    ck_assert_double_eq(self[3], 4 - 64 - 64);
    td_step_release(&step);

    int32_t small[4] = {1, 2, 3, 4}; /* computed in INT64, put back into INT32 */
    args[0].value.tensor.dtype = TD_i32;
    args[0].value.tensor.data = small;
    args[1].value.tensor.dtype = TD_i64;
    args[1].value.tensor.data = whole[0];
    ck_assert_int_eq(td_run_bind(&run, "add_", args, 2, &options), 0);
    ck_assert_ptr_nonnull(run.parts);
    step = step_of(&run);
    int32_t others[4] = {10, 20, 30, 40};
    td_step_set_input(step, 0, -1, others);
    td_step_set_input(step, 1, -1, whole[1]);
    td_step_set_result(step, 0, others);
    execute_step(step);
    for (int k = 0; k < 4; k++)
        ck_assert_int_eq(others[k], 10 * (k + 1) + whole[1][k]);
    ck_assert_int_eq(small[3], 4);
    td_run_set_input(&run, 0, others); /* and so does the run itself */
    run.call.out[0].data = others;
    select_and_run(&run);
    td_run_release(&run);
    ck_assert_int_eq(others[3], 40 + 8 - 4);
    td_step_release(&step);
    td_arena_destroy(arena);
}
END_TEST

/* Whether the result of a selected call may lie where each of its first two arguments does. */
static void check_overwrites(const char *op, const struct td_named *args, bool first, bool second)
{
    struct td_run run;
    size_t scratch;
    ck_assert_msg(!td_run_bind(&run, op, args, 2, &options), "%s", run.problem.text);
    ck_assert_msg(!td_run_select(&run, &scratch), "%s", run.problem.text);
    ck_assert_int_eq(td_run_may_overwrite(&run, 0), first);
    ck_assert_int_eq(td_run_may_overwrite(&run, 1), second);
    if (first) {
        run.call.out[0].data = args[0].value.tensor.data;
        td_run_execute(&run, td_arena_alloc(arena, scratch + 64));
    }
    td_run_release(&run);
}

START_TEST(test_overwriting)
{
    float self[4] = {1, 2, 3, 4}, other[4] = {10, 20, 30, 40};
    int64_t whole[4] = {1, 2, 3, 0}, backwards = -1;
    start();
    arena = td_arena_create();
    struct td_named args[] = {tensor_arg("self", self, 4), tensor_arg("other", other, 4)};
    check_overwrites("add_", args, true, true);
    for (int i = 0; i < 4; i++)
        ck_assert_float_eq(self[i], 11 * (float)(i + 1));
    check_overwrites("lt", args, false, false);
    args[1].value.tensor.stride = &backwards;
    args[1].value.tensor.data = &other[3];
    check_overwrites("add", args, true, false);
    args[1] = tensor_arg("other", NULL, 4); /* is converted first */
    args[1].value.tensor.dtype = TD_i64;
    args[1].value.tensor.data = whole;
    check_overwrites("add", args, true, false);
    args[1].name = "index";
    check_overwrites("take", args, false, false); /* of any element of it */
    args[0] = tensor_arg("self", self, 4);
    args[1] = tensor_arg("other", other, 1); /* read again and again */
    check_overwrites("add", args, true, false);
    td_arena_destroy(arena);
}
END_TEST

/* ---- what goes wrong ---- */

static int left; /* allocations until there is no memory */

static void *take_few(void *arg, size_t bytes)
{
    return left-- > 0 ? take(arg, bytes) : NULL;
}

START_TEST(test_no_memory)
{
    static float data[8];
    struct td_step *step = NULL;
    struct td_run run;
    size_t bytes;
    int n = 0, err = -ENOMEM;
    start();
    arena = td_arena_create();
    struct td_named arg = tensor_arg("self", data, 8);
    arg.keys = td_keyset_of(TD_KEY_PrivateUse1);
    ck_assert_int_eq(td_run_bind(&run, "silu", &arg, 1, &options), 0);
    ck_assert_int_eq(td_run_select(&run, &bytes), 0);
    for (; err; n++) {
        left = n;
        err = td_step_make(&step, &run, take_few, NULL);
        ck_assert(err ? err == -ENOMEM && !step : step != NULL);
    }
    ck_assert_int_gt(n, 1);
    td_step_release(&step);
    td_step_release(&step);
    td_run_release(&run);
    td_arena_destroy(arena);
}
END_TEST

/* What lies between parts may be more than can be counted, all together: that is refused. */
START_TEST(test_too_much_between)
{
    static float a[1];
    struct td_named arg = tensor_arg("a", a, 1);
    struct td_run run;
    size_t bytes;
    start();
    arena = td_arena_create();
    ck_assert_int_eq(
        td_run_bind_expr(&run, "sum(repeat(a, [576460752303423488]))", &arg, 1, &options), 0);
    ck_assert_int_eq(td_run_select(&run, &bytes), -ENOMEM);
    ck_assert_ptr_null(run.step);
    td_arena_destroy(arena);
}
END_TEST

/* Values that decide where a kernel reads are judged each time. */
START_TEST(test_refused)
{
    float table[3] = {1, 2, 3}, out[2] = {0};
    int64_t good[2] = {2, 0}, bad[2] = {0, 3};
    struct td_problem problem = {0};
    struct td_run run;
    start();
    arena = td_arena_create();
    struct td_named args[] = {tensor_arg("self", table, 3),
                              {"dim", {.kind = TD_KIND_int, .i = 0}},
                              tensor_arg("index", NULL, 2)};
    args[2].value.tensor.dtype = TD_i64;
    args[2].value.tensor.data = bad;
    ck_assert_int_eq(td_run_bind(&run, "index_select", args, 3, &options), 0);
    struct td_step *step = step_of(&run);
    td_step_set_result(step, 0, out);
    ck_assert_int_eq(td_step_execute(step, NULL, &problem), -EINVAL);
    ck_assert_msg(strstr(problem.text, "index") != NULL, "%s", problem.text);
    ck_assert_int_eq(td_step_execute(step, NULL, NULL), -EINVAL);
    td_step_set_input(step, 2, -1, good);
    ck_assert_int_eq(td_step_execute(step, NULL, &problem), 0);
    ck_assert_float_eq(out[0], 3);
    ck_assert_float_eq(out[1], 1);
    td_step_release(&step);
    td_arena_destroy(arena);
}
END_TEST

static void define(const struct td_op *op)
{
    struct td_problem problem;
    struct td_kernel_def def = {.key = TD_KEY_CPU, .rows = op->impls, .origin = TD_HERE};
    char name[TD_NAME_SIZE];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(op->schema, "("), op->schema);
    ck_assert_int_eq(td_define(op, "here:1", &problem), 0);
    ck_assert_int_eq(td_register(name, &def, NULL, &problem), 0);
}

/* One that is asked to stop begins no unit any more. */
START_TEST(test_stopped)
{
    static float a[4] = {1, 2, 3, 4}, out[4];
    struct td_stop stop = {0};
    struct td_run run;
    start();
    define(&toy_op);
    arena = td_arena_create();
    struct td_named arg = tensor_arg("a", a, 4);
    ck_assert_int_eq(td_run_bind_expr(&run, "toy(toy(a))", &arg, 1, &options), 0);
    struct td_step *step = step_of(&run);
    td_step_set_result(step, 0, out);
    const struct td_stop *before = td_stop_obey(&stop);
    atomic_store(&stop.asked, true);
    execute_step(step);
    ck_assert_int_eq(toy_ran, 0);
    atomic_store(&stop.asked, false);
    execute_step(step);
    td_stop_obey(before);
    ck_assert_int_eq(toy_ran, 2);
    ck_assert_float_eq(out[3], 16);
    td_step_release(&step);
    td_arena_destroy(arena);
}
END_TEST

static int64_t seen; /* by the kernel: what its rule has bounded */

static int counted_rule(struct td_call *call)
{
    call->counted = 1;
    return toy_rule(call);
}

static void counted_run(const struct td_call *call)
{
    const float *in = call->arg[0].tensor.data;
    float *out = call->out[0].data;
    seen = call->out[0].shape[0];
    for (int64_t i = 0; i < call->arg[0].tensor.shape[0]; i++)
        if (in[i] > 0)
            out[(*call->rows)++] = in[i];
}

/* A kernel always finds the bound, whatever the run before has counted. */
START_TEST(test_counted)
{
    static const struct td_impl rows[] = {{.name = "ref", .run = counted_run, .dtypes = TD_ALL},
                                          {0}};
    static const int64_t counts[] = {2, 0, 4};
    static struct td_op op;
    static float a[3][4] = {{1, -1, 2, -2}, {-1, -1, -1, -1}, {1, 2, 3, 4}}, out[4];
    struct td_run run;
    start();
    op = toy_op;
    op.schema = "toy_positive(Tensor self) -> Tensor";
    op.rule = counted_rule;
    op.impls = rows;
    define(&op);
    arena = td_arena_create();
    struct td_named arg = tensor_arg("self", a[0], 4);
    ck_assert_int_eq(td_run_bind(&run, "toy_positive", &arg, 1, &options), 0);
    struct td_step *step = step_of(&run);
    ck_assert_int_eq(td_step_result(step, 0)->shape[0], 4);
    td_step_set_result(step, 0, out);
    for (int i = 0; i < 3; i++) {
        td_step_set_input(step, 0, -1, a[i]);
        execute_step(step);
        ck_assert_int_eq(td_step_result(step, 0)->shape[0], counts[i]);
        ck_assert_int_eq(seen, 4);
    }
    td_step_release(&step);
    td_arena_destroy(arena);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_composites, test_expression,       test_one_team, test_casts,   test_no_memory,
        test_refused,    test_too_much_between, test_stopped,  test_counted, test_overwriting};
    return td_run_tests("step", tests, sizeof tests / sizeof *tests);
}
