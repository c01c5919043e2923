/* Which plans a model has: what is recorded, for which inputs, what is evicted for it, and when it
 * is made. Recordings and kernels' runs are counted, not timed. */
#define MOST 4100
#include "dispatch/call/own.h"
#include "dispatch/step/own.h"
#include "tests/dispatch/model_test.h"

static float x[3] = {1, 2, 3}, got[3], got_four[4];

/* Of a model of make_repeated: so many times, and a number that is only added. */
static void run_times(int64_t times, int64_t more)
{
    const struct td_tensor in[2] = {{.data = &times, .dtype = TD_i64},
                                    {.data = &more, .dtype = TD_i64}};
    ck_assert_msg(run(x, 3, in, false, got) == 3, "%s", problem.text);
    int64_t added = model.n_inputs > 2 ? more : 0;
    ck_assert_float_eq(got[2], (float)(3 * ((int64_t)1 << times) + 1 + added));
}

static int count_plans(void)
{
    int n = 0;
    for (const struct td_plan *plan = model.plans_; plan; plan = plan->next)
        n += !*plan->refused;
    return n;
}

/* A plan is made for the value that comes first, and for those that come again, as the positions of
 * a second sequence do. What is new in a call has nothing recorded. */
START_TEST(test_moving_value)
{
    make_repeated(2);
    for (int turn = 0; turn < 4; turn++)
        run_times(2, 0);
    ck_assert_int_eq(model.recorded_, 2); /* once to see that the value decides */
    ck_assert_int_eq(count_plans(), 1);
    const struct td_plan *first = model.plans_;
    for (int n = 3; n < 20; n++)
        run_times(n, 0);
    ck_assert_int_eq(model.recorded_, 2);
    ck_assert_int_eq(first->runs, 4);
    for (int turn = 0; turn < 3; turn++)
        for (int n = 2; n < 20; n++)
            run_times(n, 0);
    ck_assert_int_eq(first->runs, 7);
    ck_assert_int_eq(count_plans(), 18);
    ck_assert_int_eq(model.recorded_, count_plans() + 1);
    for (const struct td_plan *plan = model.plans_; plan != first; plan = plan->next)
        ck_assert_int_eq(plan->runs, 3);
    end();
}
END_TEST

/* Other shapes are noticed to come again behind any number of ever new values. */
START_TEST(test_moving_value_beside_others)
{
    float wide[6] = {0}, of_wide[6];
    int64_t times = 1, next = 0;
    struct td_tensor t = {.data = &times, .dtype = TD_i64};
    make_repeated(2);
    for (int turn = 0; turn < 3; turn++)
        run_times(2, 0);
    for (int turn = 0; turn < 3; turn++) {
        ck_assert_int_eq(run(wide, 6, &t, false, of_wide), 6);
        for (int i = 0; i < 5; i++)
            run_times(3 + next++, 0);
    }
    ck_assert_int_eq(count_plans(), 2);
    end();
}
END_TEST

/* Values that nobody reads are data: plans are for the value that decides alone. */
START_TEST(test_values_of_one_input)
{
    make_repeated(3);
    for (int turn = 0; turn < 20; turn++)
        run_times(2, turn);
    ck_assert_uint_eq(model.fixes_, td_input_bit(1));
    ck_assert_int_eq(model.recorded_, 2);
    ck_assert_int_eq(count_plans(), 1);
    ck_assert_int_ge(model.plans_->runs, 15);
    end();
}
END_TEST

/* Each size has a plan from its first call on; what they compute in is one piece of memory. */
START_TEST(test_each_size)
{
    float wide[60] = {0}, of_wide[120];
    begin(1);
    finish(add("cumsum(sin(a), 0) + 1", 1, V(graph_inputs[0])));
    for (int turn = 0; turn < 3; turn++)
        for (int n = 1; n <= 60; n++) {
            ck_assert_int_eq(run(wide, 60 - n % 60, NULL, false, of_wide), 60 - n % 60);
            ck_assert_float_eq(*of_wide, 1);
        }
    ck_assert_int_eq(model.recorded_, 60);
    ck_assert_int_eq(count_plans(), 60);
    for (const struct td_plan *plan = model.plans_; plan; plan = plan->next)
        ck_assert(plan->runs == 3 && plan->memory == model.idle_->data);
    ck_assert_ptr_null(model.idle_->next);
    end();
}
END_TEST

/* There are some hundred plans, and the one unused for longest leaves first. */
START_TEST(test_too_many_plans)
{
    static float wide[1100], of_wide[1100];
    begin(1);
    finish(add("a + 1", 1, V(graph_inputs[0])));
    for (int n = 1; n <= 1100; n++) {
        ck_assert_int_eq(run(wide, n, NULL, false, of_wide), n);
        ck_assert_int_eq(run(wide, 7, NULL, false, of_wide), 7);
    }
    ck_assert_int_eq(count_plans(), 1024);
    ck_assert_int_eq(model.evicted_, 1100 - 1024);
    ck_assert_int_eq(model.recorded_, 1100);
    end();
}
END_TEST

/* What large or fractional inputs decide no plan can be for: that is found once, not for each value
 * of small ones. */
START_TEST(test_large_values_decide)
{
    int64_t value;
    struct td_tensor t = {.data = &value, .dtype = TD_i64};
    begin(2);
    finish(add("sum(nonzero(a)) * 1.0 + b", 2, V(graph_inputs[0], graph_inputs[1])));
    for (value = 0; value < 20; value++) {
        ck_assert_msg(run(x, 3, &t, false, got) == 1, "%s", problem.text);
        ck_assert_float_eq(*got, (float)(3 + value));
    }
    ck_assert_uint_eq(model.fixes_, 0);
    ck_assert_int_eq(model.recorded_, 1);
    ck_assert_msg(strstr(model.plans_->refused, "size of a result"), "%s", model.plans_->refused);
    end();
}
END_TEST

/* ---- steps that cannot be bound ---- */

static bool refuses;

static int moody_rule(struct td_call *call)
{
    return refuses ? td_refuse(call, "self: not a second time") : toy_rule(call);
}

static const struct td_impl moody_rows[] = {{.name = "ref", .run = toy_run, .dtypes = TD_ALL}, {0}};
static const struct td_op moody = {.schema = "toy_moody(Tensor self) -> Tensor",
                                   .rule = moody_rule,
                                   .dtypes = TD_ALL,
                                   .impls = moody_rows};

/* Calls it, and has it refuse whoever binds it once more. */
static int lower_moody(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                       struct td_item *out)
{
    (void)node;
    refuses = false;
    int err = TD_CALL(walk, "toy_moody", out, TD_GIVE(in[0]));
    refuses = true;
    return err;
}

START_TEST(test_cannot_be_bound)
{
    struct td_kernel_def def = {.key = TD_KEY_CPU, .rows = moody_rows, .origin = TD_HERE};
    begin(1);
    ck_assert_int_eq(td_define(&moody, "here:1", &problem), 0);
    ck_assert_int_eq(td_register("toy_moody", &def, NULL, &problem), 0);
    finish(add("a + 1", 1, V(graph_inputs[0])));
    nodes[0].lower = lower_moody;
    for (int turn = 0; turn < 20; turn++)
        ck_assert_msg(run(x, 3, NULL, false, got) == 3, "%s", problem.text);
    ck_assert_int_eq(model.recorded_, 1);
    ck_assert_ptr_nonnull(model.plans_);
    ck_assert_str_eq(model.plans_->refused, "a call cannot be bound: node 'it' (toy_moody): "
                                            "self: not a second time");
    end();
}
END_TEST

/* ---- when a plan is made ---- */

/* The first call is computed once, by its plan. */
START_TEST(test_first_call)
{
    struct td_kernel_def def = {.key = TD_KEY_CPU, .rows = toy_rows, .origin = TD_HERE};
    begin(1);
    ck_assert_int_eq(td_define(&toy_op, "here:1", &problem), 0);
    ck_assert_int_eq(td_register("toy", &def, NULL, &problem), 0);
    finish(add("toy(toy(a))", 1, V(graph_inputs[0])));
    for (int turn = 1; turn < 4; turn++) {
        ck_assert_msg(run(x, 3, NULL, false, got) == 3, "%s", problem.text);
        ck_assert_float_eq(got[2], 12);
        ck_assert_int_eq(toy_ran, 2 * turn);
    }
    ck_assert_int_eq(model.recorded_, 1);
    ck_assert_int_eq(model.plans_->runs, 3);
    end();
}
END_TEST

/* What does not fit is refused before anything is computed. */
START_TEST(test_first_call_is_wrong)
{
    struct td_kernel_def def = {.key = TD_KEY_CPU, .rows = toy_rows, .origin = TD_HERE};
    float w[4] = {0};
    begin(1);
    ck_assert_int_eq(td_define(&toy_op, "here:1", &problem), 0);
    ck_assert_int_eq(td_register("toy", &def, NULL, &problem), 0);
    int y = add("toy(a)", 1, V(graph_inputs[0]));
    finish(add("a + b", 2, V(y, constant(w, 4))));
    for (int turn = 0; turn < 3; turn++)
        ck_assert_int_eq(run(x, 3, NULL, false, got), -EINVAL);
    ck_assert_msg(strstr(problem.text, "node 'it' (formula): add"), "%s", problem.text);
    ck_assert_int_eq(toy_ran, 0);
    ck_assert_ptr_null(model.plans_);
    ck_assert_int_eq(run(w, 4, NULL, false, got_four), 4);
    end();
}
END_TEST

/* An answer that is nearly due is not kept waiting for a plan. */
START_TEST(test_nearly_due)
{
    struct td_stop stop = {0};
    struct td_tensor in = {.data = x, .dtype = TD_f32, .rank = 1, .shape = {3}};
    struct td_model_call call = {.threads = 1, .node = -1, .stop = &stop};
    struct td_model_results *results;
    begin(1);
    finish(add("a * 2", 1, V(graph_inputs[0])));
    for (int n = 1000000; n; n = n == 1 ? 0 : 1) { /* 20 s of making, by the rule */
        model.n_nodes = n;
        stop.deadline_ns = td_clock_ns() + 10 * INT64_C(1000000000);
        ck_assert_int_eq(td_model_run(&model, &in, &call, &results, &problem), 0);
        ck_assert_float_eq(((const float *)td_model_result(results, 0)->data)[2], 6);
        ck_assert_int_eq(model.recorded_, n == 1);
        td_model_free_results(&results);
    }
    end();
}
END_TEST

/* ---- closing ---- */

/* Copies that mean nothing, views, what is computed alone and what is computed together. */
static int make_chain(int n)
{
    static const char *const formulas[] = {
        "a + 1",
        "clone(a)",
        "reshape(transpose(reshape(a, [2, 2]), 0, 1), [-1])",
        "softmax(a, 0)",
        "sigmoid(a) * a",
        "reshape(softmax(permute(reshape(a, [2, 2]), [1, 0]), 1), [-1])"};
    int value = graph_inputs[0];
    for (int i = 0; i < n; i++)
        value = add(formulas[i % 6], 1, V(value));
    return value;
}

/* All that half of the nodes make lives until the other half adds it up. */
static int make_wide(int n)
{
    static int value[MOST];
    for (int i = 0; i < n / 2; i++)
        value[i] = add("softmax(a, 0)", 1, V(graph_inputs[0]));
    int sum = value[0];
    for (int i = 1; i < n / 2; i++)
        sum = add("cumsum(a + b, 0)", 2, V(sum, value[i]));
    return sum;
}

/* Values that live at the same time lie apart. */
static int count_overlaps(const struct td_plan *plan)
{
    int n = 0;
    for (int i = 0; i < plan->n_values; i++)
        for (int k = 0; k < i; k++) {
            const struct td_plan_value *a = &plan->value[i], *b = &plan->value[k];
            bool own = a->step >= 0 && b->step >= 0 && plan->step[a->step].handle &&
                       plan->step[b->step].handle && !a->inside && !b->inside && a->over < 0 &&
                       b->over < 0;
            n += own && a->first <= b->last && b->first <= a->last &&
                 a->at < b->at + td_room_of(td_nbytes(&b->like)) &&
                 b->at < a->at + td_room_of(td_nbytes(&a->like));
        }
    return n;
}

/* What closing a plan of so many nodes looks at. */
static double close_one(int (*make)(int n), int n, size_t most_bytes)
{
    float four[4] = {1, -2, 3, 4}, plain[4];
    begin(1);
    finish(make(n));
    ck_assert_int_eq(run(four, 4, NULL, true, plain), 4);
    for (int turn = 0; turn < 3; turn++) {
        ck_assert_msg(run(four, 4, NULL, false, got_four) == 4, "%s", problem.text);
        ck_assert_int_eq(memcmp(got_four, plain, sizeof plain), 0);
    }
    const struct td_plan *plan = model.plans_;
    ck_assert(plan && !*plan->refused && plan->runs == 3);
    ck_assert_int_eq(n < 4000 ? count_overlaps(plan) : 0, 0);
    ck_assert_uint_le(plan->bytes, most_bytes);
    double visits = (double)plan->visits;
    end();
    return visits;
}

/* The work grows with the nodes, and a logarithm of their number at most. */
START_TEST(test_closing_is_linear)
{
    double chain = close_one(make_chain, 1000, 640), wide = close_one(make_wide, 1000, 64200);
    ck_assert_double_lt(close_one(make_chain, 4000, 640), 5.5 * chain);
    ck_assert_double_lt(close_one(make_wide, 4000, 256200), 5.5 * wide);
}
END_TEST

/* ---- what is computed together ---- */

static int asked;

static void count_and_run(const struct td_call *call)
{
    asked++;
    (void)call;
}

static void run_two(float *a, float *b)
{
    struct td_tensor t = {.data = b, .dtype = TD_f32, .rank = 1, .shape = {3}};
    float plain[3];
    ck_assert_msg(run(a, 3, &t, true, plain) == 3, "%s", problem.text);
    ck_assert_int_eq(run(a, 3, &t, false, got), 3);
    ck_assert_int_eq(memcmp(got, plain, sizeof plain), 0);
}

/* How is worked out when the plan is made, not in each run: no row is asked any more. Inputs that
 * were one tensor when it was recorded may be two. */
START_TEST(test_fused_once)
{
    static struct td_impl counting[MOST];
    float y[3] = {5, -6, 7};
    begin(2);
    int sum = add("sin(a) + b * 2", 2, V(graph_inputs[0], graph_inputs[1]));
    finish(add("a * b - c", 3, V(sum, graph_inputs[0], graph_inputs[1])));
    for (int turn = 0; turn < 3; turn++)
        run_two(x, x);
    const struct td_plan *plan = model.plans_;
    ck_assert(plan && !*plan->refused && plan->step[0].with == plan->n_steps - 1);
    for (int s = 0; s < plan->n_steps; s++) {
        struct unit *u = plan->step[s].made->unit;
        counting[s] = *u->impl;
        counting[s].run = count_and_run;
        u->impl = &counting[s];
    }
    for (int turn = 0; turn < 3; turn++) {
        run_two(x, y);
        run_two(y, x);
    }
    ck_assert_int_eq(plan->runs, 9);
    ck_assert_int_eq(asked, 0);
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_moving_value,        test_moving_value_beside_others,
                                  test_values_of_one_input, test_each_size,
                                  test_too_many_plans,      test_large_values_decide,
                                  test_cannot_be_bound,     test_first_call,
                                  test_first_call_is_wrong, test_nearly_due,
                                  test_closing_is_linear,   test_fused_once};
    return td_run_tests("plans", tests, sizeof tests / sizeof *tests);
}
