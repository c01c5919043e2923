/* Programs made by hand: what a walk gives, what is recorded of it and run again, and what is
 * refused. */
#include "dispatch/model/pass.h"
#include "tests/dispatch/dispatch_test.h"

#include <math.h>
#define MOST 16

static struct td_model model;
static struct td_node nodes[MOST];
static struct td_node_operand operands[MOST][4];
static int outs[MOST][3];
static int graph_inputs[2], graph_outputs[2];
static struct td_model_port ports[2];
static struct td_problem problem;

/* The node's form is a formula over its operands, which are a, b, c. */
static int lower_formula(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                         struct td_item *out)
{
    static const char *const names[] = {"a", "b", "c"};
    struct td_given given[3];
    int n;
    for (int i = 0; i < node->n_operands; i++)
        given[i] = (struct td_given){names[i], in[i]};
    int err = td_walk_formula(walk, node->form, given, node->n_operands, out, &n);
    ck_assert(err || n == node->n_outs);
    return err;
}

/* Runs its inner graph as many times as its first operand says, on its second. */
static int lower_repeat(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                        struct td_item *out)
{
    int64_t times;
    int err = td_walk_ints(walk, &in[0], &times, 1);
    size_t mark = td_walk_mark(walk);
    struct td_item item = in[1];
    for (int64_t i = 0; i < times && err >= 0; i++) {
        err = td_walk_graph(walk, node->operand[2].graph, &item, &item);
        td_walk_release(walk, mark, &item, 1);
    }
    *out = item;
    return err < 0 ? err : 0;
}

static void begin(int n_inputs)
{
    start();
    model = (struct td_model){.refs = 2, .format = "test", .arena = td_arena_create()};
    pthread_mutex_init(&model.lock_, NULL);
    model.graph.node = nodes;
    model.graph.input = graph_inputs;
    model.graph.output = graph_outputs;
    model.input = ports;
    model.n_inputs = model.graph.n_inputs = n_inputs;
    for (int i = 0; i < n_inputs; i++)
        graph_inputs[i] = td_program_value(&model);
}

static void finish(int output)
{
    graph_outputs[0] = output;
    model.n_outputs = model.graph.n_outputs = 1;
    model.output = ports;
    ck_assert_msg(!td_program_close(&model, &problem), "%s", problem.text);
}

static void end(void)
{
    ck_assert_int_eq(model.refs, 2);
    td_plans_free(&model);
    td_derived_free(&model);
    for (int i = 0; i < model.n_constants; i++)
        td_weight_unref(&model.constant[i].weight);
    td_arena_destroy(model.arena);
}

/* A node with a formula over values; its result. */
static int add(const char *formula, int n, const int *values)
{
    int i = model.graph.n_nodes++;
    outs[i][0] = td_program_value(&model);
    for (int k = 0; k < n; k++)
        operands[i][k] = (struct td_node_operand){.kind = TD_OPERAND_value, .value = values[k]};
    nodes[i] = (struct td_node){.name = "it",
                                .op = "formula",
                                .lower = lower_formula,
                                .form = formula,
                                .n_operands = n,
                                .n_outs = 1,
                                .operand = operands[i],
                                .out = outs[i]};
    return outs[i][0];
}

static int constant(float *data, int64_t n)
{
    struct td_tensor t = {.data = data, .dtype = TD_f32, .rank = 1, .shape = {n}};
    int value = td_program_value(&model);
    ck_assert_int_eq(td_program_constant(&model, value, &t), 0);
    return value;
}

/* Runs on x of n elements and gives the result's elements. */
static int run(float *x, int64_t n, const struct td_tensor *more, bool eager, float *result)
{
    struct td_tensor in[2] = {{.data = x, .dtype = TD_f32, .rank = 1, .shape = {n}}};
    struct td_model_call call = {.threads = 1, .node = -1, .eager = eager};
    struct td_model_results *results;
    if (more)
        in[1] = *more;
    int err = td_model_run(&model, in, &call, &results, &problem);
    if (err)
        return err;
    const struct td_tensor *t = td_model_result(results, 0);
    ck_assert_int_eq(t->dtype, TD_f32);
    memcpy(result, t->data, td_nbytes(t));
    int made = (int)td_numel(t);
    td_model_free_results(&results);
    return made;
}

#define V(...) ((const int[]){__VA_ARGS__})

/* (x + 1) * (2 w), written twice beside each other. */
static void make_small(float *w, int64_t n)
{
    begin(1);
    int k = constant(w, n), x = graph_inputs[0];
    int twice = add("_b = a + a; c = _b + 0", 1, V(k));
    int y = add("a + 1", 1, V(x));
    int z = add("a * b", 2, V(y, twice));
    int view = add("reshape(a, [1, -1])", 1, V(z));
    finish(add("reshape(cat([a, b], 1), [-1])", 2, V(view, view)));
}

static void visit(const struct td_model_plan *plan, void *arg)
{
    struct td_model_step step;
    char *text = arg;
    ck_assert_str_eq(plan->refused, "");
    ck_assert_int_eq(plan->input[0].shape[0], 100);
    for (int i = 0; i < plan->n_steps; i++)
        if (td_model_plan_step(plan, i, &step))
            text +=
                sprintf(text, "%s %s %lld, ", step.node, step.op, (long long)td_numel(step.result));
}

START_TEST(test_walk_and_plan)
{
    float w[100], x[100], got[200];
    for (int i = 0; i < 100; i++)
        w[i] = (float)i;
    make_small(w, 100);
    for (int turn = 0; turn < 5; turn++) { /* walked, recorded, and run as a plan */
        for (int i = 0; i < 100; i++)
            x[i] = (float)(i * turn);
        ck_assert_msg(run(x, 100, NULL, turn == 4, got) == 200, "%s", problem.text);
        for (int i = 0; i < 200; i++)
            ck_assert_float_eq(got[i], (x[i % 100] + 1) * 2 * w[i % 100]);
    }
    const struct td_plan *plan = model.plans_;
    ck_assert(plan && !plan->next);
    ck_assert_str_eq(plan->refused, "");
    ck_assert_int_eq(plan->n_steps, 3); /* add, mul, cat: reshapes are views */
    ck_assert_int_ge(plan->n_folded, 1);
    ck_assert_uint_lt(plan->bytes, plan->bytes_before);
    char text[300];
    td_model_visit_plans(&model, visit, text);
    ck_assert_str_eq(text, "it add.Scalar 100, it mul.Tensor 100, it cat 200, ");
    end();
}
END_TEST

START_TEST(test_folding)
{
    float w[100], x[100], got[200];
    for (int i = 0; i < 100; i++)
        x[i] = w[i] = (float)i;
    make_small(w, 100);
    int nodes_before = model.n_nodes;
    ck_assert_int_eq(td_program_fold(&model, &problem), 0);
    ck_assert_int_eq(td_program_close(&model, &problem), 0);
    ck_assert_int_eq(model.n_folded, 1);
    ck_assert_int_eq(model.n_nodes, nodes_before - 1);
    ck_assert_int_eq(model.n_constants, 1); /* 2 w; w is gone */
    ck_assert_ptr_nonnull(model.constant[0].weight);
    ck_assert_float_eq(((const float *)model.constant[0].tensor.data)[99], 198);
    for (int turn = 0; turn < 3; turn++) {
        ck_assert_int_eq(run(x, 100, NULL, false, got), 200);
        ck_assert_float_eq(got[199], 100 * 2 * 99);
    }
    end();
}
END_TEST

/* What draws chance draws it in each run. */
START_TEST(test_chance)
{
    float w[100] = {0}, x[100] = {0}, got[100], other[100];
    begin(1);
    int k = constant(w, 100), drawn = add("a + rand([100])", 1, V(k));
    finish(add("a + b", 2, V(graph_inputs[0], drawn)));
    ck_assert_int_eq(td_program_fold(&model, &problem), 0);
    ck_assert_int_eq(model.n_folded, 0);
    ck_assert_int_eq(td_program_close(&model, &problem), 0);
    for (int turn = 0; turn < 4; turn++) {
        memcpy(other, got, sizeof other);
        ck_assert_msg(run(x, 100, NULL, false, got) == 100, "%s", problem.text);
        ck_assert(!turn || memcmp(got, other, sizeof got));
    }
    ck_assert(model.plans_ && *model.plans_->refused);
    end();
}
END_TEST

START_TEST(test_other_sizes)
{
    float w[1] = {3}, x[300], got[600];
    make_small(w, 1);
    for (int turn = 0; turn < 60; turn++) {
        int n = 1 + turn * 7 % 300;
        for (int i = 0; i < n; i++)
            x[i] = (float)(i + turn);
        for (int again = 0; again < 1 + turn % 4; again++)
            ck_assert_int_eq(run(x, n, NULL, false, got), 2 * n);
        ck_assert_float_eq(got[n], 6 * (x[0] + 1));
    }
    int n = 0;
    for (const struct td_plan *plan = model.plans_; plan; plan = plan->next)
        n++;
    ck_assert_int_le(n, 8);
    ck_assert_int_gt(n, 1);
    end();
}
END_TEST

/* How often a graph runs is the second input's value: plans are for that value. */
/* Chains, with what is read from outside, from before, and by the output. */
START_TEST(test_fused)
{
    static float x[5000], got[10000], wanted[10000];
    begin(1);
    int a = add("a * a", 1, V(graph_inputs[0]));
    int b = add("a + 1", 1, V(a));
    int c = add("sigmoid(a) - b", 2, V(b, a));
    int total = add("sum(a)", 1, V(c));
    int d = add("a * b", 2, V(c, total));
    int e = add("relu(a) + b", 2, V(d, b));
    finish(add("reshape(cat([a, b]), [-1])", 2, V(e, d)));
    for (int turn = 0; turn < 4; turn++) {
        for (int i = 0; i < 5000; i++)
            x[i] = (float)((i * 13 + turn) % 17) / 8 - 1;
        ck_assert_msg(run(x, 5000, NULL, false, got) == 10000, "%s", problem.text);
        ck_assert_int_eq(run(x, 5000, NULL, true, wanted), 10000);
        ck_assert_int_eq(memcmp(got, wanted, sizeof got), 0);
    }
    struct td_model_plan plan = {.of_ = model.plans_};
    int with[16];
    for (int i = 0; i < model.plans_->n_steps; i++)
        with[i] = model.plans_->step[i].with;
    ck_assert_int_eq(model.plans_->n_steps, 9);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(with[i], 3); /* mul, add, sigmoid, sub */
    ck_assert_int_eq(with[4], -1);    /* sum */
    for (int i = 5; i < 8; i++)
        ck_assert_int_eq(with[i], 7);         /* mul, relu, add */
    ck_assert(plan.of_->value[3 + 0].inside); /* the sigmoid's argument */
    end();
}
END_TEST

START_TEST(test_values_decide)
{
    float x[3] = {1, 2, 3}, got[3];
    begin(2);
    int inner_in = td_program_value(&model), i = model.graph.n_nodes;
    struct td_node inner;
    int twice = add("a * 2", 1, V(inner_in));
    inner = nodes[i];
    model.graph.n_nodes--;
    struct td_node_operand of_inner[1] = {operands[i][0]};
    int inner_out[1] = {twice};
    inner.operand = of_inner;
    inner.out = inner_out;
    struct td_node_graph graph = {.n_nodes = 1,
                                  .n_inputs = 1,
                                  .n_outputs = 1,
                                  .node = &inner,
                                  .input = &inner_in,
                                  .output = &twice};
    int y = add("a + 1", 2, V(graph_inputs[1], graph_inputs[0]));
    nodes[i].lower = lower_repeat;
    nodes[i].n_operands = 3;
    operands[i][2] = (struct td_node_operand){.kind = TD_OPERAND_graph, .graph = &graph};
    finish(add("a + 1", 1, V(y)));
    for (int turn = 0; turn < 12; turn++) {
        int64_t times = turn & 3;
        struct td_tensor t = {.data = &times, .dtype = TD_i64, .rank = 0};
        ck_assert_msg(run(x, 3, &t, false, got) == 3, "%s", problem.text);
        ck_assert_float_eq(got[2], (float)(3 << times) + 1);
    }
    ck_assert(model.fixes_ && model.plans_);
    ck_assert_str_eq(model.plans_->refused, "");
    end();
}
END_TEST

static int constant_of(float *data, int rank, const int64_t *shape)
{
    struct td_tensor t = {.data = data, .dtype = TD_f32, .rank = rank};
    int value = td_program_value(&model);
    memcpy(t.shape, shape, sizeof *shape * (size_t)rank);
    ck_assert_int_eq(td_program_constant(&model, value, &t), 0);
    return value;
}

/* What a convolution, a normalisation and what changes nothing become; and that the numbers stay.
 * read: somebody else reads the convolution, too. */
static void check_norm(const char *conv, bool read, int steps)
{
    float w[2 * 3 * 9], stats[3][4], x[3 * 64], got[2000], wanted[2000];
    for (int i = 0; i < 54; i++)
        w[i] = (float)(i % 7) - 3;
    for (int i = 0; i < 12; i++)
        stats[i / 4][i % 4] = (float)(i % 5) / 4 + 0.5f;
    begin(1);
    bool turned = strstr(conv, "transpose") != NULL;
    int weight = constant_of(w, 4, (int64_t[]){turned ? 3 : 2, turned ? 2 : 3, 3, 3});
    int one[3];
    for (int i = 0; i < 3; i++)
        one[i] = constant_of(stats[i], 1, (int64_t[]){2});
    int image = add("reshape(a, [1, 3, 8, 8])", 1, V(graph_inputs[0]));
    int y = add(conv, 2, V(image, weight));
    int z = add("batch_norm(a, None, b, b, c, False, 0.1, 0.001, False)", 3, V(y, one[1], one[2]));
    int same = add("contiguous(clone(a))", 1, V(z));
    finish(add(read ? "reshape(a + b, [-1])" : "reshape(relu(a), [-1])", read ? 2 : 1, V(same, y)));
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 3 * 64; i++)
            x[i] = (float)((i * 7 + turn) % 11) - 5;
        int n = run(x, 3 * 64, NULL, false, got);
        ck_assert_msg(n > 0, "%d %s", n, problem.text);
        ck_assert_int_eq(run(x, 3 * 64, NULL, true, wanted), n);
        for (int i = 0; i < n; i++)
            ck_assert_msg(fabsf(got[i] - wanted[i]) <= 1e-4f * (1 + fabsf(wanted[i])), "%d: %g %g",
                          i, (double)got[i], (double)wanted[i]);
    }
    const struct td_plan *plan = model.plans_;
    int left = 0;
    for (int s = 0; s < plan->n_steps; s++)
        left += plan->step[s].handle != NULL;
    ck_assert_int_eq(left, steps);
    ck_assert_int_eq(plan->pass[0].done, 2); /* clone, contiguous */
    ck_assert_int_eq(plan->pass[1].done, !read);
    ck_assert_int_eq(plan->pass[1].n_refused, read);
    end();
}

START_TEST(test_norm)
{
    check_norm("conv2d(a, b, None, 1, 1)", false, 2);
    check_norm("conv_transpose2d(a, b, None, [2, 1])", false, 2);
    check_norm("conv2d(a, b, None, 2)", true, 3);
}
END_TEST

START_TEST(test_wrong)
{
    float x[4] = {0}, got[8], w[3] = {1, 2, 3};
    make_small(w, 3);
    ck_assert_int_eq(run(x, 4, NULL, false, got), -EINVAL);
    ck_assert_msg(strstr(problem.text, "node 'it' (formula): mul"), "%s", problem.text);
    end();
    begin(1);
    int later = td_program_value(&model);
    add("a + 1", 1, V(later));
    graph_outputs[0] = later;
    model.graph.n_outputs = 1;
    ck_assert_int_eq(td_program_close(&model, &problem), -EINVAL);
    end();
}
END_TEST

START_TEST(test_stopped)
{
    float x[4] = {0}, got[8], w[4] = {0};
    struct td_stop stop = {.asked = true};
    struct td_tensor in = {.data = x, .dtype = TD_f32, .rank = 1, .shape = {4}};
    struct td_model_call call = {.threads = 1, .node = -1, .stop = &stop};
    struct td_model_results *results;
    make_small(w, 4);
    for (int turn = 0; turn < 3; turn++)
        ck_assert_int_eq(td_model_run(&model, &in, &call, &results, &problem), -ETIMEDOUT);
    ck_assert_ptr_null(results);
    ck_assert_int_eq(run(x, 4, NULL, false, got), 8);
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_walk_and_plan, test_folding,       test_chance,
                                  test_other_sizes,   test_values_decide, test_norm,
                                  test_fused,         test_wrong,         test_stopped};
    return td_run_tests("model", tests, sizeof tests / sizeof *tests);
}
