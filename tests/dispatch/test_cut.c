/* Programs in which values decide what is computed: the plans that follow one another, what each of
 * them computes once, and when there are none. */
#define MOST 4100
#include "tests/dispatch/model_test.h"

static float x[3], got[3], plain[3];

static int call_formula(struct td_walk *walk, const char *formula, const struct td_item *a,
                        struct td_item *out)
{
    const struct td_given given = {"a", *a};
    int n;
    return td_walk_formula(walk, formula, &given, 1, out, &n);
}

/* Twice its first operand, as often as the second one's value says. */
static int lower_times(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                       struct td_item *out)
{
    int64_t times;
    int err = td_walk_ints(walk, &in[1], &times, 1);
    (void)node;
    *out = in[0];
    for (int64_t i = 0; i < times && err >= 0; i++)
        err = call_formula(walk, "a * 2", out, out);
    return err < 0 ? err : 0;
}

/* Twice its operand until the sum is 100 or more. */
static int lower_until(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                       struct td_item *out)
{
    double sum = 0;
    int err = 0;
    (void)node;
    *out = in[0];
    while (sum < 100 && err >= 0) {
        struct td_item total;
        err = call_formula(walk, "a * 2", out, out);
        err = err ? err : call_formula(walk, "sum(a)", out, &total);
        err = err ? err : td_walk_floats(walk, &total, &sum, 1);
    }
    return err < 0 ? err : 0;
}

static void define_toy(void)
{
    static const struct td_kernel_def def = {
        .key = TD_KEY_CPU, .rows = toy_rows, .origin = "here:1"};
    ck_assert_int_eq(td_define(&toy_op, "here:1", &problem), 0);
    ck_assert_int_eq(td_register("toy", &def, NULL, &problem), 0);
}

static int add_lower(td_lower *lower, int n, const int *values)
{
    int value = add("", n, values);
    nodes[model.graph.n_nodes - 1].lower = lower;
    return value;
}

/* toy(x) doubled for each x above 0, and x itself. */
static void make_counted(void)
{
    begin(1);
    define_toy();
    int in = graph_inputs[0];
    int y = add("toy(a)", 1, V(in)), n = add("sum(a > 0)", 1, V(in));
    int z = add_lower(lower_times, 2, V(y, n));
    finish(add("a + b", 2, V(z, in)));
}

static void draw(int turn)
{
    for (int i = 0; i < 3; i++)
        x[i] = (float)((turn >> i & 1) * 2 - 1) * (float)(1 + (turn * 7 + i) % 5);
}

/* As node by node. */
static void run_right(void)
{
    ck_assert_msg(run(x, 3, NULL, true, plain) == 3, "%s", problem.text);
    ck_assert_msg(run(x, 3, NULL, false, got) == 3, "%s", problem.text);
    ck_assert_int_eq(memcmp(got, plain, sizeof got), 0);
}

static int count_after(const struct td_plan *plan)
{
    int n = 0;
    for (const struct td_plan *next = plan->after; next; next = next->beside)
        n += 1 + count_after(next);
    return n;
}

/* What comes before the value is computed once, also where what comes behind it has to be made. */
START_TEST(test_ways)
{
    make_counted();
    for (int turn = 0; turn < 40; turn++) {
        draw(turn);
        int before = toy_ran;
        run_right();
        ck_assert_int_eq(toy_ran, before + 2); /* node by node, and by plans */
    }
    const struct td_plan *root = model.plans_;
    ck_assert(root && !root->next && !*root->refused);
    ck_assert_int_eq(count_after(root), 4); /* for 0, 1, 2 and 3 */
    ck_assert_int_eq(root->misses, 3);
    ck_assert_int_eq(root->runs, 40);
    ck_assert_int_eq(model.recorded_, 1);
    end();
}
END_TEST

/* A loop whose end is found at each turn; what comes later is given out by what came first. */
START_TEST(test_loop)
{
    begin(1);
    int y = add("sin(a) + 2", 1, V(graph_inputs[0]));
    int z = add_lower(lower_until, 1, V(y));
    int w = add_lower(lower_until, 1, V(add("a * 0 + b", 2, V(z, y))));
    finish(add("a + b * c", 3, V(w, y, graph_inputs[0])));
    for (int turn = 0; turn < 60; turn++) {
        for (int i = 0; i < 3; i++)
            x[i] = (float)(turn * 37 % 11) * 0.3f + (float)i;
        run_right();
    }
    const struct td_plan *root = model.plans_;
    ck_assert(root && !root->next && !*root->refused);
    ck_assert_int_ge(count_after(root), 10);
    end();
}
END_TEST

/* Where a value never comes again there is nothing to be gained. */
START_TEST(test_ever_new)
{
    begin(1);
    int in = graph_inputs[0];
    int n = add("sum(a) * 0 + 100 + min(a)", 1, V(in)); /* 100 or more: one turn at once */
    finish(add("a + b", 2, V(add_lower(lower_until, 1, V(n)), in)));
    for (int turn = 0; turn < 140; turn++) {
        for (int i = 0; i < 3; i++)
            x[i] = (float)(turn + i);
        run_right();
    }
    ck_assert_msg(strstr(model.plans_->refused, "ever new"), "%s", model.plans_->refused);
    ck_assert_ptr_null(model.plans_->after);
    end();
}
END_TEST

/* Results that a first plan, a later one and the caller have made. */
START_TEST(test_outputs)
{
    struct td_tensor in = {.data = x, .dtype = TD_f32, .rank = 1, .shape = {3}};
    struct td_model_call call = {.threads = 1, .node = -1};
    struct td_model_results *results;
    make_counted();
    graph_outputs[1] = outs[0][0]; /* toy(x) */
    model.n_outputs = model.graph.n_outputs = 2;
    ck_assert_int_eq(td_program_close(&model, &problem), 0);
    for (int turn = 0; turn < 20; turn++) {
        draw(turn);
        ck_assert_int_eq(td_model_run(&model, &in, &call, &results, &problem), 0);
        const float *sum = td_model_result(results, 0)->data,
                    *twice = td_model_result(results, 1)->data;
        int above = (x[0] > 0) + (x[1] > 0) + (x[2] > 0);
        for (int i = 0; i < 3; i++) {
            ck_assert_float_eq(twice[i], 2 * x[i]);
            ck_assert_float_eq(sum[i], x[i] + 2 * x[i] * (float)(1 << above));
        }
        td_model_free_results(&results);
    }
    end();
}
END_TEST

static void print(const struct td_model_plan *plan, void *arg)
{
    td_model_plan_print(&model, plan, false, arg);
}

/* They are shown one by one, the values that they have of each other by number. */
START_TEST(test_shown)
{
    char *text;
    size_t size;
    make_counted();
    ports[0].name = "x";
    draw(3);
    run_right();
    FILE *to = open_memstream(&text, &size);
    td_model_visit_plans(&model, print, to);
    fclose(to);
    ck_assert_msg(strstr(text, "toy(") && strstr(text, "outer0"), "%s", text);
    free(text);
    end();
}
END_TEST

static struct td_stop stop;

static void stop_and_run(const struct td_call *call)
{
    toy_run(call);
    stop.asked = toy_ran == 2;
}

/* A run that is stopped where a plan more was to be made leaves those that there are. */
START_TEST(test_stopped)
{
    static const struct td_impl rows[] = {{.name = "ref", .run = stop_and_run, .dtypes = TD_ALL},
                                          {0}};
    static const struct td_op op = {.schema = "toy_stop(Tensor self) -> Tensor",
                                    .rule = toy_rule,
                                    .dtypes = TD_ALL,
                                    .impls = rows};
    struct td_kernel_def def = {.key = TD_KEY_CPU, .rows = rows, .origin = TD_HERE};
    struct td_tensor in = {.data = x, .dtype = TD_f32, .rank = 1, .shape = {3}};
    struct td_model_call call = {.threads = 1, .node = -1, .stop = &stop};
    struct td_model_results *results;
    begin(1);
    ck_assert_int_eq(td_define(&op, "here:1", &problem), 0);
    ck_assert_int_eq(td_register("toy_stop", &def, NULL, &problem), 0);
    int n = add("sum(a > 0)", 1, V(graph_inputs[0])), y = add("toy_stop(a)", 1, V(graph_inputs[0]));
    finish(add_lower(lower_times, 2, V(y, n)));
    for (int turn = 0; turn < 12; turn++) {
        draw(turn);
        stop.asked = false;
        int err = td_model_run(&model, &in, &call, &results, &problem);
        ck_assert_int_eq(err, turn == 1 ? -ETIMEDOUT : 0);
        int above = (x[0] > 0) + (x[1] > 0) + (x[2] > 0);
        for (int i = 0; i < 3 && !err; i++)
            ck_assert_float_eq(((const float *)td_model_result(results, 0)->data)[i],
                               2 * x[i] * (float)(1 << above));
        td_model_free_results(&results);
    }
    ck_assert(!model.recording_ && !model.plans_->grows && !*model.plans_->refused);
    end();
}
END_TEST

/* Ways that take too much together are dropped, and made again. */
START_TEST(test_bytes)
{
    begin(1);
    int in = graph_inputs[0];
    int n = add("sum(a > 0) + sum(a > 1) + sum(a > 2) + sum(a > 3) + sum(a > 4) + sum(a > 5)", 1,
                V(in));
    int y = add_lower(lower_times, 2, V(in, n));
    for (int i = 0; i < 4000; i++)
        y = add("softmax(a, 0)", 1, V(y));
    finish(y);
    for (int turn = 0; turn < 20; turn++) {
        for (int i = 0; i < 3; i++)
            x[i] = (float)((turn / 2 >> i) * (5 + i) % 7);
        run_right();
        const struct td_plan *root = model.plans_;
        ck_assert_uint_le(root->held_bytes, (size_t)32 << 20);
        ck_assert_uint_gt(root->held_bytes, (size_t)4 << 20);
        ck_assert_int_lt(count_after(root), 7);
        ck_assert_int_le(root->misses, 1 + turn / 2); /* what was made last has stayed */
    }
    ck_assert_int_ge(model.plans_->misses, 7);
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_ways,  test_loop,    test_ever_new, test_outputs,
                                  test_shown, test_stopped, test_bytes};
    return td_run_tests("cut", tests, sizeof tests / sizeof *tests);
}
