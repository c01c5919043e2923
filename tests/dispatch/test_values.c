/* What depends on the values of arguments, however an operator is called: data that are judged
 * before a kernel runs, and results whose size the kernel tells. */
#include "dispatch/call/own.h"
#include "tests/dispatch/dispatch_test.h"

#include <math.h>

static float x[4] = {3, -1, 2, 5}, y[4] = {3, NAN, 2, 5};
static int ran;

/* toy_positive(Tensor self): its elements above 0, in a row; NaN is refused. */
static int check(const struct td_call *call)
{
    const float *in = call->arg[0].tensor.data;
    for (int64_t i = 0; i < call->arg[0].tensor.shape[0]; i++)
        if (isnan(in[i]))
            return td_refuse(call, "self: [%d] is NaN", (int)i);
    return 0;
}

static void positive(const struct td_call *call)
{
    const float *in = call->arg[0].tensor.data;
    *call->rows = 0;
    for (int64_t i = 0; i < call->arg[0].tensor.shape[0]; i++)
        if (in[i] > 0)
            ((float *)call->out[0].data)[(*call->rows)++] = in[i];
    ran++;
}

static int rule(struct td_call *call)
{
    call->counted = 1;
    call->counted_dim = 0;
    return toy_rule(call);
}

static const struct td_impl rows[] = {{.name = "ref", .run = positive, .dtypes = TD_ALL}, {0}};
static const struct td_op op = {.schema = "toy_positive(Tensor self) -> Tensor",
                                .rule = rule,
                                .dtypes = TD_ALL,
                                .impls = rows,
                                .follows = 1,
                                .check = check};
static struct td_op negative = {.schema = "toy_negative(Tensor self) -> Tensor",
                                .rule = rule,
                                .dtypes = TD_ALL,
                                .impls = rows,
                                .follows = 1,
                                .composite = "toy_positive(neg(self))"};

static int boxed(struct td_run *run, td_keyset keys)
{
    (void)keys;
    run->rows = rows;
    return rule(&run->call);
}

static void define(void)
{
    struct td_problem problem = {0};
    struct td_kernel_def unboxed = {.key = TD_KEY_CPU, .rows = rows, .origin = TD_HERE};
    start();
    ck_assert_int_eq(td_define(&op, "here:1", &problem), 0);
    ck_assert_int_eq(td_register("toy_positive", &unboxed, NULL, &problem), 0);
    ck_assert_int_eq(register_key("toy_positive", TD_KEY_XLA, boxed), 0);
}

/* Boxed, unboxed and by a stack; kernels of either kind. */
START_TEST(test_each_way)
{
    float out[4];
    define();
    const struct td_handle *handle = td_registry_find("toy_positive");
    for (int i = 0; i < 4; i++) {
        bool right = i % 2;
        struct td_named arg = tensor_arg("self", right ? x : y, 4);
        struct td_run run;
        struct td_problem problem = {0};
        td_keyset keys = arg.keys = td_keyset_of(i / 2 ? TD_KEY_XLA : TD_KEY_CPU);
        ran = 0;
        ck_assert_int_eq(bind(&run, "toy_positive", &arg, 1, NULL), 0);
        ck_assert_int_eq(run.call.out[0].shape[0], 4);
        execute(&run, out);
        ck_assert_int_eq(run.error, right ? 0 : -EINVAL);
        ck_assert_int_eq(run.call.out[0].shape[0], right ? 3 : 4);
        ck_assert(right || strstr(run.problem.text, "self: [1] is NaN"));

        struct td_tensor result = arg.value.tensor;
        struct td_call call = {.op = &op,
                               .n_args = 1,
                               .arg = &arg.value,
                               .n_out = 1,
                               .out = &result,
                               .threads = 1,
                               .problem = &problem};
        result.data = out;
        call.counted = 1;
        ck_assert_int_eq(td_call_unboxed(handle, &call, keys, NULL), right ? 0 : -EINVAL);
        ck_assert_int_eq(call.out[0].shape[0], right ? 3 : 4);
        ck_assert(right || strstr(problem.text, "self: [1] is NaN"));

        struct td_options options = {.alloc = heap};
        struct td_stack stack = {.n = 1, .v = {arg.value}};
        ck_assert_int_eq(td_call_boxed(handle, &stack, keys, &options, &problem),
                         right ? 0 : -EINVAL);
        ck_assert_int_eq(stack.n, 1);
        ck_assert_int_eq(stack.v[0].tensor.shape[0], right ? 3 : 4);
        ck_assert_int_eq(ran, right ? 3 : 0);
    }
}
END_TEST

/* A result without elements spares the kernel, not the judging. */
START_TEST(test_nothing)
{
    int64_t index[2] = {1, 3};
    struct td_tensor result = {.dtype = TD_f32, .rank = 2, .shape = {2, 0}};
    start();
    const struct td_handle *handle = td_registry_find("index_select");
    for (int limit = 3; limit <= 4; limit++) {
        struct td_problem problem = {0};
        struct td_value arg[3] = {
            {.kind = TD_KIND_tensor, .tensor = {.dtype = TD_f32, .rank = 2, .shape = {limit, 0}}},
            {.kind = TD_KIND_int, .i = 0},
            {.kind = TD_KIND_tensor,
             .tensor = {.dtype = TD_i64, .rank = 1, .shape = {2}, .data = index}}};
        struct td_call call = {.op = handle->op,
                               .n_args = 3,
                               .arg = arg,
                               .n_out = 1,
                               .out = &result,
                               .threads = 1,
                               .problem = &problem};
        int err = td_call_unboxed(handle, &call, td_keyset_of(TD_KEY_CPU), NULL);
        ck_assert_int_eq(err, limit == 4 ? 0 : -EINVAL);
        ck_assert(!err || strstr(problem.text, "index: element 1 is 3"));
    }
}
END_TEST

static void define_composite(const struct td_op *composite)
{
    struct td_problem problem;
    char name[TD_NAME_SIZE];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(composite->schema, "("), composite->schema);
    ck_assert_int_eq(td_define(composite, "here:2", &problem), 0);
    ck_assert_int_eq(register_key(name, TD_KEY_CompositeImplicitAutograd, td_kernel_composite), 0);
}

/* As a part of a formula, which says of the whole what it does of the part. */
START_TEST(test_composites)
{
    float out[4];
    struct td_run run;
    struct td_problem problem;
    define();
    struct td_op silent = negative, on = negative;
    silent.schema = "silent(Tensor self) -> Tensor";
    silent.composite = "toy_positive(self)";
    silent.follows = 0;
    define_composite(&silent);
    ck_assert_int_eq(td_formula_check(td_registry_find("silent"), silent.composite,
                                      (const char *const[]){NULL}, &problem),
                     -EINVAL);
    define_composite(&negative);
    struct td_kernel_def unboxed = {.key = TD_KEY_PrivateUse1, .rows = rows, .origin = TD_HERE};
    ck_assert_int_eq(td_register("toy_positive", &unboxed, NULL, &problem), 0);
    struct td_named arg = tensor_arg("self", x, 4);
    arg.keys = td_keyset_of(TD_KEY_PrivateUse1);
    ck_assert_int_eq(bind(&run, "toy_negative", &arg, 1, NULL), 0);
    execute(&run, out);
    ck_assert_int_eq(run.error, 0);
    ck_assert_int_eq(run.call.out[0].shape[0], 1);
    ck_assert_float_eq(out[0], 1);
    arg.value.tensor.data = y;
    ck_assert_int_eq(bind(&run, "toy_negative", &arg, 1, NULL), 0);
    execute(&run, out);
    ck_assert_int_eq(run.error, -EINVAL);
    ck_assert_ptr_nonnull(strstr(run.problem.text, "is NaN"));

    on.schema = "on(Tensor self) -> Tensor";
    on.composite = "toy_positive(toy_positive(self))";
    define_composite(&on);
    ck_assert_int_eq(bind(&run, "on", &arg, 1, NULL), -EINVAL);
    ck_assert_ptr_nonnull(strstr(run.problem.text, "size is not known yet"));
}
END_TEST

/* It keeps neither its type nor its place: no form in place, and no conversion behind it. */
START_TEST(test_counted_stay)
{
    struct td_run run;
    struct td_named arg = tensor_arg("self", x, 4);
    define();
    ck_assert_int_eq(bind(&run, "toy_positive_", &arg, 1, NULL), -EINVAL);
    ck_assert_int_eq(bind(&run, "toy_positive", &arg, 1, NULL), 0);
    ck_assert_int_eq(td_run_convert(&run, TD_f64), -EINVAL);
    ck_assert(td_op_follows("toy_positive", "self", 9));
    ck_assert(td_op_follows("toy_positive_", NULL, 0));
    ck_assert(!td_op_follows("neg", "self", 0));
    ck_assert(!td_op_follows("nosuch", "self", 0));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_each_way, test_nothing, test_composites, test_counted_stay};
    return td_run_tests("values", tests, sizeof tests / sizeof *tests);
}
