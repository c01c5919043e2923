/* Programs made by hand, of nodes that are formulas, for the tests of models. */
#ifndef TD_MODEL_TEST_H
#define TD_MODEL_TEST_H

#include "dispatch/passes/passes.h"
#include "tests/dispatch/dispatch_test.h"

#ifndef MOST
#define MOST 32 /* nodes */
#endif
#define V(...) ((const int[]){__VA_ARGS__})

static struct td_model model;
static struct td_node nodes[MOST];
static struct td_node_operand operands[MOST][4];
static int outs[MOST][3];
static int graph_inputs[3], graph_outputs[2];
static struct td_model_port ports[3];
static struct td_problem problem;

/* The node's form is a formula over its operands, which are a, b, c. */
static inline int lower_formula(struct td_walk *walk, const struct td_node *node,
                                const struct td_item *in, struct td_item *out)
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

static inline void begin(int n_inputs)
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

static inline void finish(int output)
{
    graph_outputs[0] = output;
    model.n_outputs = model.graph.n_outputs = 1;
    model.output = ports;
    ck_assert_msg(!td_program_close(&model, &problem), "%s", problem.text);
}

static inline void end(void)
{
    ck_assert_int_eq(model.refs, 2);
    td_plans_free(&model);
    td_derived_free(&model);
    for (int i = 0; i < model.n_constants; i++)
        td_weight_unref(&model.constant[i].weight);
    td_arena_destroy(model.arena);
}

/* A node with a formula over values; its result. */
static inline int add(const char *formula, int n, const int *values)
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

/* The node's form is a formula over its second operand, a, and the number n that its first one is.
 */
static inline int lower_counted(struct td_walk *walk, const struct td_node *node,
                                const struct td_item *in, struct td_item *out)
{
    int64_t number;
    int n, err = td_walk_ints(walk, &in[0], &number, 1);
    const struct td_given given[] = {{"a", in[1]},
                                     {"n", {.v = {.kind = TD_KIND_int, .i = number}}}};
    return err < 0 ? err : td_walk_formula(walk, node->form, given, 2, out, &n);
}

static inline int add_counted(const char *formula, int number, int value)
{
    int i = model.graph.n_nodes, out = add(formula, 2, V(number, value));
    nodes[i].lower = lower_counted;
    return out;
}

static inline int constant(float *data, int64_t n)
{
    struct td_tensor t = {.data = data, .dtype = TD_f32, .rank = 1, .shape = {n}};
    int value = td_program_value(&model);
    ck_assert_int_eq(td_program_constant(&model, value, &t), 0);
    return value;
}

static inline int constant_of(float *data, int rank, const int64_t *shape)
{
    struct td_tensor t = {.data = data, .dtype = TD_f32, .rank = rank};
    int value = td_program_value(&model);
    memcpy(t.shape, shape, sizeof *shape * (size_t)rank);
    ck_assert_int_eq(td_program_constant(&model, value, &t), 0);
    return value;
}

static inline int weight_of(int64_t to, int64_t from, int64_t k)
{
    static float numbers[4096];
    for (int i = 0; i < 4096; i++)
        numbers[i] = (float)(i * 7 % 23) / 23 - 0.4f;
    return constant_of(numbers, 4, (int64_t[]){to, from, k, k});
}

static inline int count_steps(const char *op)
{
    const struct td_plan *plan = model.plans_;
    int n = 0;
    for (int s = 0; s < plan->n_steps; s++)
        n += plan->step[s].handle && !strcmp(plan->step[s].handle->schema.name, op);
    return n;
}

/* Runs its inner graph as many times as its first operand says, on its second. */
static inline int lower_repeat(struct td_walk *walk, const struct td_node *node,
                               const struct td_item *in, struct td_item *out)
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

/* A graph that runs as often as the second input's value says, which is a result, too; a third one
 * of n_inputs is added to what comes out. */
static inline void make_repeated(int n_inputs)
{
    static int inner_in, twice;
    static struct td_node inner;
    static struct td_node_operand of_inner[1];
    static struct td_node_graph graph;
    begin(n_inputs);
    int i = model.graph.n_nodes;
    inner_in = td_program_value(&model);
    twice = add("a * 2", 1, V(inner_in));
    inner = nodes[i];
    model.graph.n_nodes--;
    *of_inner = operands[i][0];
    inner.operand = of_inner;
    inner.out = &twice;
    graph = (struct td_node_graph){.n_nodes = 1,
                                   .n_inputs = 1,
                                   .n_outputs = 1,
                                   .node = &inner,
                                   .input = &inner_in,
                                   .output = &twice};
    int y = add("a + 1", 2, V(graph_inputs[1], graph_inputs[0]));
    nodes[i].lower = lower_repeat;
    nodes[i].n_operands = 3;
    operands[i][2] = (struct td_node_operand){.kind = TD_OPERAND_graph, .graph = &graph};
    graph_outputs[1] = graph_inputs[1];
    int z = add("a + 1", 1, V(y));
    finish(n_inputs < 3 ? z : add("a + b", 2, V(z, graph_inputs[2])));
    model.n_outputs = model.graph.n_outputs = 2;
    ck_assert_int_eq(td_program_close(&model, &problem), 0);
}

/* Runs on x of n elements, and more inputs, and gives the result's elements. */
static inline int run(float *x, int64_t n, const struct td_tensor *more, bool eager, float *result)
{
    struct td_tensor in[3] = {{.data = x, .dtype = TD_f32, .rank = 1, .shape = {n}}};
    struct td_model_call call = {.threads = 1, .node = -1, .eager = eager};
    struct td_model_results *results;
    for (int i = 1; i < model.n_inputs; i++)
        in[i] = more[i - 1];
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

#endif
