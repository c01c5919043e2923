/* dispatch/step/step.h: parts that move no element make no copy. */
#include "dispatch/call/own.h"
#include "dispatch_test.h"
#include "tests/dispatch/step_test.h"

/* A part whose result lies without gaps in its argument makes no copy: no scratch, and its reader
 * reads the argument. */
START_TEST(test_parts)
{
    static const struct {
        const char *expr;
        size_t between; /* results that have memory of their own, of 6 elements */
        float want;     /* element 1: a has 1 and so on, b 10 and so on */
    } cases[] = {
        {"a + reshape(permute(reshape(b, [1, 6]), [1, 0]), [6])", 0, 22},
        {"a + reshape(permute(reshape(b, [2, 3]), [1, 0]), [6])", 1, 42},
        {"narrow(a, 0, 0, 3) + narrow(reshape(b, [2, 3]), 0, 1, 1)", 0, 52},
        {"narrow(cumsum(a, 0), 0, 2, 3) + narrow(b, 0, 2, 3)", 1, 50},
        {"x = select(reshape(a, [2, 3]), 0, 1); y = x + narrow(b, 0, 3, 3)", 0, 5},
        {"slice(a, 0, 0, 6, 2) + narrow(b, 0, 3, 3)", 1, 53},
    };
    float a[6], b[6];
    struct td_named args[] = {tensor_arg("a", a, 6), tensor_arg("b", b, 6)};
    start();
    arena = td_arena_create();
    for (int i = 0; i < 6; i++)
        b[i] = 10 * (a[i] = (float)(i + 1));
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct td_run run;
        size_t bytes;
        float out[TD_MAX_OUTS][6] = {{0}};
        ck_assert_int_eq(td_run_bind_expr(&run, cases[k].expr, args, 2, &options), 0);
        for (int i = 0; i < run.call.n_out; i++)
            run.call.out[i].data = out[i];
        ck_assert_int_eq(td_run_select(&run, &bytes), 0);
        ck_assert_msg(bytes == td_room_of(24) * cases[k].between, "%s: %zu bytes", cases[k].expr,
                      bytes);
        td_run_execute(&run, td_arena_alloc(arena, bytes + 64));
        ck_assert_float_eq(out[0][1], cases[k].want);
        td_run_release(&run);
    }
    td_arena_destroy(arena);
}
END_TEST

/* Who reads through a part that moves elements, with strides, gives what it gives of the part's
 * result; and where all do, there is no such result: no scratch. */
START_TEST(test_seen)
{
    enum { N = 60 * 70 };
    static const struct {
        const char *expr, *after; /* the same of c, which the moved elements of b are copied to */
        size_t between;           /* bytes of results that have memory of their own */
    } cases[] = {
        {"a + permute(b, [1, 0])", "a + c", 0},
        {"permute(b, [1, 0]) - a", "c - a", 0},
        {"relu(a + permute(b, [1, 0])) * 3 + permute(b, [1, 0])", "relu(a + c) * 3 + c", 0},
        {"a + permute(flip(flip(b, [1]), [1]), [1, 0])", "a + c", 0},
        {"a + flip(flip(permute(b, [1, 0]), [1]), [1])", "a + c", 0},
        {"a * slice(permute(b, [1, 0]), 1, 0, 70, 1)", "a * c", 0},
        /* another one reads the result as it is; or it is one of the whole's */
        {"cumsum(permute(b, [1, 0]), 1) + permute(b, [1, 0]) * a", "cumsum(c, 1) + c * a",
         2 * 4 * (size_t)N},
        {"x = permute(b, [1, 0]); y = x * a", "x = c + 0; y = c * a", 0},
        /* a copy costs less: of three readers, of a row that is reduced */
        {"_t = permute(b, [1, 0]); x = a + _t * cumsum(_t - (_t > a), 1)",
         "_t = c; x = a + _t * cumsum(_t - (_t > a), 1)", 3 * 4 * (size_t)N},
        {"sum(a + permute(b, [1, 0]), [1])", "sum(a + c, [1])", 4 * (size_t)N},
        /* by rows, as of two bytes an element no loop is generated */
        {"cast(a, BF16) * cast(permute(b, [1, 0]), BF16) + permute(b, [1, 0])",
         "cast(a, BF16) * cast(c, BF16) + c", 0},
        {"where(permute(b, [1, 0]) > a, permute(b, [1, 0]), a)", "where(c > a, c, a)", 0},
        /* what it moves is made before */
        {"a + permute(relu(b), [1, 0])", "a + relu(c)", 4 * (size_t)N},
        {"a + permute(cumsum(b, 0), [1, 0])", "a + cumsum(c, 1)", 4 * (size_t)N},
    };
    static float a[N], b[N], c[N], made[3][2][N]; /* by one thread, by two, and of c */
    struct td_named args[] = {tensor_arg("b", b, N), tensor_arg("a", a, N), tensor_arg("c", c, N)};
    start();
    arena = td_arena_create();
    for (int i = 0; i < 3; i++) {
        struct td_tensor *t = &args[i].value.tensor;
        t->rank = 2;
        t->shape[0] = i == 0 ? 70 : 60;
        t->shape[1] = i == 0 ? 60 : 70;
    }
    for (int i = 0; i < N; i++) {
        a[i] = (float)(i % 23) - 11;
        b[i] = (float)(i * 7 % 37) - 19;
    }
    for (int i = 0; i < N; i++)
        c[i] = b[i % 70 * 60 + i / 70];
    for (size_t k = 0; k < 2 * sizeof cases / sizeof *cases; k++) {
        bool seen = k % 2 == 0;
        const char *expr = seen ? cases[k / 2].expr : cases[k / 2].after;
        struct td_run run;
        size_t bytes;
        ck_assert_msg(!td_run_bind_expr(&run, expr, &args[!seen], 2, &options), "%s: %s", expr,
                      run.problem.text);
        for (int threads = 1; threads < 3; threads++) { /* selected again, it sees the same */
            float(*out)[N] = made[seen ? threads - 1 : 2];
            memset(out, 0x77, sizeof *made);
            for (int i = 0; i < run.call.n_out; i++)
                run.call.out[i].data = out[i];
            run.call.threads = threads;
            ck_assert_int_eq(td_run_select(&run, &bytes), 0);
            ck_assert_msg(!seen || (bytes >= cases[k / 2].between &&
                                    bytes < cases[k / 2].between + 4 * (size_t)N),
                          "%s: %zu bytes", expr, bytes);
            td_run_execute(&run, td_arena_alloc(arena, bytes + 64));
            td_run_release(&run);
            if (!seen)
                ck_assert_msg(!memcmp(made[0], made[2], sizeof *made) &&
                                  !memcmp(made[1], made[2], sizeof *made),
                              "%s", cases[k / 2].expr);
        }
    }
    td_arena_destroy(arena);
}
END_TEST

static int tail_rule(struct td_call *call)
{
    toy_rule(call);
    call->out[0].shape[0]--;
    return 0;
}

/* The same of a step's input, wherever it lies in the next run. */
START_TEST(test_view_of_input)
{
    static const struct td_impl none[] = {{0}};
    float in[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}}, out[3];
    struct td_kernel_def def = {
        .key = TD_KEY_CompositeImplicitAutograd, .boxed = td_kernel_composite, .origin = TD_HERE};
    struct td_problem problem;
    struct td_op op = toy_op;
    struct td_run run;
    start();
    op.schema = "toy_tail(Tensor self) -> Tensor";
    op.composite = "neg(narrow(self, 0, 1, 3))";
    op.rule = tail_rule;
    op.impls = none;
    ck_assert_int_eq(td_define(&op, "here:1", &problem), 0);
    ck_assert_int_eq(td_register("toy_tail", &def, NULL, &problem), 0);
    arena = td_arena_create();
    struct td_named arg = tensor_arg("self", in[0], 4);
    arg.keys = td_keyset_of(TD_KEY_PrivateUse1);
    ck_assert_msg(!td_run_bind(&run, "toy_tail", &arg, 1, &options), "%s", run.problem.text);
    struct td_step *step = step_of(&run);
    ck_assert_uint_eq(td_step_scratch(step), 0);
    td_step_set_result(step, 0, out);
    for (int i = 0; i < 2; i++) {
        td_step_set_input(step, 0, -1, in[i]);
        execute_step(step);
        for (int k = 0; k < 3; k++)
            ck_assert_float_eq(out[k], -in[i][k + 1]);
    }
    td_step_release(&step);
    td_arena_destroy(arena);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_parts, test_seen, test_view_of_input};
    return td_run_tests("step_views", tests, 3);
}
