/* dispatch/call/{dispatch,bind}.c, step/direct.c, graph/composite.c, setup.c: the way of a call
 * through its keys.
 */
#include "dispatch/call/own.h"
#include "tests/dispatch/dispatch_test.h"

#include <math.h>

static float x[4] = {-1, 0, 1, 2}, y[4] = {4, 5, 6, 7}, out[4];

/* DSP-1, DSP-27: keys come from all tensor arguments; the key of the set picks the kernel. */
START_TEST(test_keys_of_arguments)
{
    struct td_run run;
    struct td_named args[] = {tensor_arg("self", x, 4), tensor_arg("other", y, 4)};
    start();
    ck_assert_int_eq(bind(&run, "add", args, 2, NULL), 0);
    ck_assert_uint_eq(run.keys, td_keyset_of(TD_KEY_CPU));
    ck_assert_int_eq(run.key, TD_KEY_CPU);
    execute(&run, out);
    ck_assert_float_eq(out[3], 9);
    args[1].keys = td_keyset_of(TD_KEY_PrivateUse1); /* DSP-40: the highest backend has it */
    ck_assert_int_eq(bind(&run, "add", args, 2, NULL), 0);
    ck_assert_int_eq(run.key, TD_KEY_PrivateUse1);
    execute(&run, out);
    ck_assert_str_eq(run.impl->name, "ref");
    args[0].keys = td_keyset_of(TD_KEY_Meta);
    ck_assert_int_eq(bind(&run, "add", args, 2, NULL), 0);
    ck_assert_int_eq(run.key, TD_KEY_Meta);
    ck_assert_ptr_null(run.rows);
}
END_TEST

/* DSP-37: Meta gives what any backend would, by shape and type, for every operator it is asked. */
START_TEST(test_meta)
{
    struct td_run run;
    struct td_named args[] = {tensor_arg("self", NULL, 4), tensor_arg("other", NULL, 1)};
    start();
    args[0].keys = td_keyset_of(TD_KEY_Meta);
    args[1].value.tensor.dtype = TD_f64;
    ck_assert_int_eq(bind(&run, "add", args, 2, NULL), 0);
    ck_assert_int_eq(run.call.out[0].dtype, TD_f64);
    ck_assert_int_eq(run.call.out[0].shape[0], 4);
    ck_assert_int_eq(bind(&run, "silu", args, 1, NULL), 0); /* by its formula */
    ck_assert_int_eq(run.call.out[0].shape[0], 4);
    args[1].value.tensor.shape[0] = 3;
    ck_assert_int_eq(bind(&run, "add", args, 2, NULL), -EINVAL);
}
END_TEST

/* DSP-23, DSP-25: overloads and positions; alpha is keyword-only. */
START_TEST(test_positions)
{
    struct td_run run;
    struct td_named args[] = {tensor_arg(NULL, x, 4),
                              tensor_arg(NULL, y, 4),
                              {.name = "alpha", .value = {.kind = TD_KIND_int, .i = 3}}};
    start();
    ck_assert_int_eq(bind(&run, "add", args, 3, NULL), 0);
    ck_assert_str_eq(run.handle->full, "add.Tensor");
    execute(&run, out);
    ck_assert_float_eq(out[3], 2 + 3 * 7);
    args[2].name = NULL;
    ck_assert_int_eq(bind(&run, "add", args, 3, NULL), -EINVAL);
    ck_assert_ptr_nonnull(strstr(run.problem.text, "keyword-only"));
    args[1] = (struct td_named){.value = {.kind = TD_KIND_int, .i = 2}};
    ck_assert_int_eq(bind(&run, "add", args, 2, NULL), 0);
    ck_assert_str_eq(run.handle->full, "add.Scalar");
    args[1] = tensor_arg("self", y, 4);
    ck_assert_int_eq(bind(&run, "relu", args, 2, NULL), -EINVAL);
    ck_assert_ptr_nonnull(strstr(run.problem.text, "by name and by position"));
    args[1].name = NULL;
    ck_assert_int_eq(bind(&run, "relu", args, 2, NULL), -EINVAL);
    ck_assert_ptr_nonnull(strstr(run.problem.text, "takes 1 by position"));
}
END_TEST

/* DSP-29, DSP-30: no kernel, and no tensors. */
START_TEST(test_no_kernel)
{
    struct td_run run;
    struct td_named args[] = {tensor_arg("self", x, 4)};
    start();
    args[0].keys = td_keyset_of(TD_KEY_SparseCPU);
    ck_assert_int_eq(bind(&run, "relu", args, 1, NULL), -ENOSYS);
    ck_assert_int_eq(run.key, TD_KEY_SparseCPU);
    ck_assert_ptr_nonnull(strstr(run.problem.text, "'relu'"));
    ck_assert_ptr_nonnull(strstr(run.problem.text, "'SparseCPU'"));
    ck_assert_ptr_nonnull(strstr(run.problem.text, "CPU, RefCPU, Meta"));
    struct td_problem problem;
    static struct td_op none;
    none = toy_op;
    none.schema = "make(int n) -> Tensor";
    ck_assert_int_eq(td_define(&none, "here:1", &problem), 0);
    struct td_named n = {.name = "n", .value = {.kind = TD_KIND_int, .i = 3}};
    ck_assert_int_eq(bind(&run, "make", &n, 1, NULL), -ENOSYS);
    ck_assert_ptr_nonnull(strstr(run.problem.text, "no tensor among its arguments"));
}
END_TEST

static int make_backend(struct td_run *run, td_keyset keys)
{
    return td_redispatch(run,
                         (keys & td_keyset_below(TD_KEY_BackendSelect)) | td_keyset_of(TD_KEY_CPU));
}

static int made(struct td_run *run, td_keyset keys)
{
    (void)keys;
    run->call.n_out = 1;
    run->call.out[0] =
        (struct td_tensor){.dtype = TD_f32, .rank = 1, .shape = {run->call.arg[0].i}};
    return 0;
}

/* DSP-30: an operator without tensors goes through BackendSelect to a backend. */
START_TEST(test_factory)
{
    struct td_run run;
    struct td_problem problem;
    static struct td_op make;
    make = toy_op;
    make.schema = "make(int n) -> Tensor";
    struct td_named n = {.name = "n", .value = {.kind = TD_KIND_int, .i = 3}};
    start();
    ck_assert_int_eq(td_define(&make, "here:1", &problem), 0);
    ck_assert_int_eq(register_key("make", TD_KEY_BackendSelect, make_backend), 0);
    ck_assert_int_eq(register_key("make", TD_KEY_CPU, made), 0);
    ck_assert_int_eq(bind(&run, "make", &n, 1, NULL), 0);
    ck_assert_int_eq(run.call.out[0].shape[0], 3);
    ck_assert_int_eq(run.key, TD_KEY_CPU);
    struct td_key_scope before = td_keys_enter(0, td_keyset_of(TD_KEY_BackendSelect));
    ck_assert_int_eq(bind(&run, "make", &n, 1, NULL), -ENOSYS);
    td_keys_leave(before);
    ck_assert_ptr_nonnull(strstr(run.problem.text, "no tensor among its arguments"));
}
END_TEST

static int boxed_toy(struct td_run *run, td_keyset keys)
{
    (void)keys;
    run->rows = toy_rows;
    return toy_rule(&run->call);
}

/* DSP-31: a caller written for another signature is told so, with both. */
START_TEST(test_typed)
{
    const struct td_handle *handle;
    struct td_problem problem = {0};
    const char *right = "mul.Tensor(Tensor self, Tensor other) -> Tensor",
               *other = "mul.Tensor(Tensor self, Scalar other) -> Tensor";
    start();
    ck_assert_int_eq(td_handle_typed(&handle, "mul.Tensor", right, &problem), 0);
    ck_assert_str_eq(handle->full, "mul.Tensor");
    ck_assert_int_eq(td_handle_typed(&handle, "mul.Tensor", other, &problem), -EINVAL);
    ck_assert_ptr_null(handle);
    ck_assert_ptr_nonnull(strstr(problem.text, right));
    ck_assert_ptr_nonnull(strstr(problem.text, other));
    ck_assert_int_eq(td_handle_typed(&handle, "mul", right, &problem), -ENOENT);
    ck_assert_int_eq(td_handle_typed(&handle, "nosuch", right, &problem), -ENOENT);
}
END_TEST

/* DSP-21: kernels registered boxed and unboxed, called boxed, unboxed and by a stack. */
START_TEST(test_boxed_and_unboxed)
{
    struct td_run run;
    struct td_problem problem;
    struct td_named args[] = {tensor_arg("self", x, 4)};
    struct td_kernel_def rows = {.key = TD_KEY_CPU, .rows = toy_rows, .origin = TD_HERE};
    start();
    ck_assert_int_eq(td_define(&toy_op, "here:1", &problem), 0);
    ck_assert_int_eq(register_key("toy", TD_KEY_XLA, boxed_toy), 0);
    ck_assert_int_eq(td_register("toy", &rows, NULL, &problem), 0);
    for (int i = 0; i < 2; i++) { /* boxed calls, of both */
        args[0].keys = td_keyset_of(i ? TD_KEY_XLA : TD_KEY_CPU);
        memset(out, 0, sizeof out);
        ck_assert_int_eq(bind(&run, "toy", args, 1, NULL), 0);
        execute(&run, out);
        ck_assert_float_eq(out[3], 4);
    }
    struct td_tensor result = args[0].value.tensor;
    struct td_call call = {.op = &toy_op,
                           .n_args = 1,
                           .arg = &args[0].value,
                           .n_out = 1,
                           .out = &result,
                           .threads = 1};
    result.data = out;
    const struct td_handle *toy = td_registry_find("toy");
    for (int i = 0; i < 2; i++) {
        td_keyset keys = td_keyset_of(i ? TD_KEY_XLA : TD_KEY_CPU);
        memset(out, 0, sizeof out);
        td_call_unboxed(toy, &call, keys, NULL);
        ck_assert_float_eq(out[3], 4);
        ck_assert_int_eq(toy_ran, 3 + 2 * i);
        struct td_options options = {.alloc = heap};
        struct td_stack stack = {.n = 2, .v = {{.kind = TD_KIND_int, .i = 7}, args[0].value}};
        ck_assert_int_eq(td_call_boxed(toy, &stack, keys, &options, &problem), 0);
        ck_assert_int_eq(stack.n, 2); /* what lay below, and the result */
        ck_assert_int_eq(stack.v[0].i, 7);
        ck_assert_float_eq(((float *)stack.v[1].tensor.data)[3], 4);
        ck_assert_int_eq(toy_ran, 4 + 2 * i);
    }
    struct td_stack empty = {0};
    struct td_options options = {.alloc = heap};
    ck_assert_int_eq(td_call_boxed(toy, &empty, td_keyset_of(TD_KEY_CPU), &options, &problem),
                     -EINVAL);
    ck_assert_ptr_nonnull(strstr(problem.text, "stack"));
}
END_TEST

/* DSP-19: silu = self * sigmoid(self), registered once, serves RefCPU; the CPU has its own. */
START_TEST(test_composite)
{
    struct td_run run;
    struct td_trace trace = {0};
    struct td_named args[] = {tensor_arg("self", x, 4)};
    start();
    args[0].keys = td_keyset_of(TD_KEY_PrivateUse1);
    ck_assert_int_eq(bind(&run, "silu", args, 1, &trace), 0);
    ck_assert_ptr_nonnull(run.parts);
    ck_assert_str_eq(run.parts->handle->full, "sigmoid");
    ck_assert_str_eq(run.parts->next->handle->full, "mul.Tensor");
    execute(&run, out);
    ck_assert_str_eq(run.impl->name, "composite");
    for (int i = 0; i < 4; i++)
        ck_assert_float_eq_tol(out[i], x[i] / (1 + expf(-x[i])), 1e-6);
    ck_assert_int_eq(trace.n, 3);
    ck_assert_int_eq(trace.line[0].depth, 0);
    ck_assert_int_eq(trace.line[1].depth, 1);
    ck_assert(!trace.line[1].redispatch);
    args[0].value.tensor.dtype = TD_i32; /* converted in a part of its own */
    int32_t whole[4] = {-1, 0, 1, 2};
    args[0].value.tensor.data = whole;
    ck_assert_int_eq(bind(&run, "silu", args, 1, NULL), 0);
    execute(&run, out);
    ck_assert_float_eq_tol(out[3], 2 / (1 + expf(-2)), 1e-6);
    run.forced = "simd";
    size_t bytes;
    ck_assert_int_eq(td_run_select(&run, &bytes), -EINVAL);
    struct td_options without = {0};
    ck_assert_int_eq(td_run_bind(&run, "silu", args, 1, &without), -ENOMEM);
    args[0].keys = 0;
    ck_assert_int_eq(td_run_bind(&run, "silu", args, 1, NULL), 0);
    ck_assert_ptr_null(run.parts);
}
END_TEST

static int parts_of(const struct td_run *run)
{
    int n = 0;
    for (const struct td_run *part = run->parts; part; part = part->next)
        n++;
    return n;
}

/* DSP-19: numbers in a formula; an argument that is converted is converted once for all its places;
 * and a formula that is none is noticed when it is registered. */
START_TEST(test_formulas)
{
    static struct td_op swish;
    struct td_run run;
    struct td_problem problem;
    struct td_named args[] = {tensor_arg("self", x, 4)};
    struct td_kernel_def def = {
        .key = TD_KEY_CompositeImplicitAutograd, .boxed = td_kernel_composite, .origin = TD_HERE};
    start();
    swish = toy_op;
    swish.schema = "odd(Tensor self) -> Tensor";
    swish.promote = TD_PROMOTE_float;
    swish.composite = "add.Scalar(mul(self, mul.Scalar(self, -0.25)), 1.5e-1)";
    ck_assert_int_eq(td_define(&swish, "here:1", &problem), 0);
    const char *const nothing[] = {NULL};
    ck_assert_int_eq(td_formula_check(td_registry_find("odd"), swish.composite, nothing, &problem),
                     0);
    ck_assert_int_eq(td_register("odd", &def, NULL, &problem), 0);
    ck_assert_int_eq(bind(&run, "odd", args, 1, NULL), 0);
    ck_assert_int_eq(parts_of(&run), 3);
    execute(&run, out);
    for (int i = 0; i < 4; i++)
        ck_assert_float_eq_tol(out[i], -0.25F * x[i] * x[i] + 0.15F, 1e-6);
    int32_t whole[4] = {-1, 0, 1, 2};
    args[0].value.tensor.dtype = TD_i32;
    args[0].value.tensor.data = whole;
    ck_assert_int_eq(bind(&run, "odd", args, 1, NULL), 0);
    ck_assert_int_eq(parts_of(&run), 4); /* self is converted once, for both its places */
    execute(&run, out);
    ck_assert_float_eq_tol(out[3], -0.85, 1e-6);
    ck_assert_int_eq(td_formula_check(td_registry_find("odd"), "sum.dim_IntList(self, 0, True)",
                                      nothing, &problem),
                     0);
    static const char *const none[] = {"sum.dim_IntList(self, 0, Tru)",
                                       "mul(self",
                                       "mul(self, nosuch)",
                                       "nosuch(self)",
                                       "mul(self, self) x",
                                       "neg(self, self)",
                                       ""};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        ck_assert_msg(td_formula_check(td_registry_find("odd"), none[i], nothing, &problem) ==
                          -EINVAL,
                      "%s", none[i]);
    /* Derivatives have lists besides, and one of several results; composites have not. */
    static const char *const lists[] = {
        "flip(grad, [0, -1])", "linear_backward(self, grad, self, [True, False, None])[2]"};
    static const char *const no_lists[] = {
        "flip(grad, [0)", "linear_backward(self, grad, self, [True])",
        "linear_backward(self, grad, self, [True])[3]", "neg(grad)[0.5]", "flip(grad, [dim])"};
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(
            td_formula_check(td_registry_find("odd"), lists[i], td_derivative_words, &problem), 0);
        ck_assert_int_eq(td_formula_check(td_registry_find("odd"), lists[i], nothing, &problem),
                         -EINVAL);
    }
    for (size_t i = 0; i < sizeof no_lists / sizeof *no_lists; i++)
        ck_assert_msg(td_formula_check(td_registry_find("odd"), no_lists[i], td_derivative_words,
                                       &problem) == -EINVAL,
                      "%s", no_lists[i]);
}
END_TEST

/* Every composite formula against the operator's own reference. */
START_TEST(test_composites_against_reference)
{
    int n = 0;
    start();
    for (int i = 0; i < td_registry_count(); i++) {
        const struct td_handle *handle = td_registry_at(i);
        struct td_named args[] = {tensor_arg("self", x, 4)};
        struct td_run run, ref;
        float want[4];
        if (!handle->op->composite)
            continue;
        ck_assert_int_eq(handle->schema.n_params, 1); /* the others are to be added here */
        args[0].keys = td_keyset_of(TD_KEY_PrivateUse1);
        ck_assert_int_eq(bind(&run, handle->full, args, 1, NULL), 0);
        execute(&run, out);
        args[0].keys = 0;
        ck_assert_int_eq(bind(&ref, handle->full, args, 1, NULL), 0);
        ref.forced = "ref";
        execute(&ref, want);
        for (int k = 0; k < 4; k++)
            ck_assert_float_eq_tol(out[k], want[k], 1e-6);
        n++;
    }
    ck_assert_int_gt(n, 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_keys_of_arguments,
                                  test_meta,
                                  test_positions,
                                  test_no_kernel,
                                  test_factory,
                                  test_boxed_and_unboxed,
                                  test_typed,
                                  test_formulas,
                                  test_composite,
                                  test_composites_against_reference};
    return td_run_tests("calls", tests, sizeof tests / sizeof *tests);
}
