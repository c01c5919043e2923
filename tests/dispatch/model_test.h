/* Programs made by hand, of nodes that are formulas, for the tests of models. */
#ifndef TD_MODEL_TEST_H
#define TD_MODEL_TEST_H

#include "dispatch/model/pass.h"
#include "tests/dispatch/dispatch_test.h"

#define MOST 32

static struct td_model model;
static struct td_node nodes[MOST];
static struct td_node_operand operands[MOST][4];
static int outs[MOST][3];
static int graph_inputs[2], graph_outputs[2];
static struct td_model_port ports[2];
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

static inline int constant(float *data, int64_t n)
{
    struct td_tensor t = {.data = data, .dtype = TD_f32, .rank = 1, .shape = {n}};
    int value = td_program_value(&model);
    ck_assert_int_eq(td_program_constant(&model, value, &t), 0);
    return value;
}

/* Runs on x of n elements and gives the result's elements. */
static inline int run(float *x, int64_t n, const struct td_tensor *more, bool eager, float *result)
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

#endif
