/* A model that is loaded: what its ports are, whether a client's tensors fit them, and its end. */
#include "dispatch/model/model.h"
#include "dispatch/passes/passes.h"
#include "pools/pools.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct td_model *td_model_ref(struct td_model *model)
{
    atomic_fetch_add_explicit(&model->refs, 1, memory_order_relaxed);
    return model;
}

void td_model_unref(struct td_model **model)
{
    struct td_model *m = *model;
    *model = NULL;
    if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) > 1)
        return;
    td_plans_free(m);
    td_derived_free(m);
    pthread_mutex_destroy(&m->lock_);
    for (int i = 0; i < m->n_constants; i++)
        td_weight_unref(&m->constant[i].weight);
    td_arena_destroy(m->arena);
    td_program_give(m, sizeof *m);
    free(m);
}

const char *td_model_format(const struct td_model *model)
{
    return model->format;
}

int td_model_count_nodes(const struct td_model *model)
{
    return model->n_nodes;
}

int td_model_count_folded(const struct td_model *model)
{
    return model->n_folded;
}

size_t td_model_bytes(const struct td_model *model)
{
    size_t bytes = model->held_;
    for (int i = 0; i < model->n_constants; i++)
        bytes += model->constant[i].weight ? td_weight_bytes(model->constant[i].weight) : 0;
    return bytes;
}

int td_model_inputs(const struct td_model *model, const struct td_model_port **ports)
{
    *ports = model->input;
    return model->n_inputs;
}

int td_model_outputs(const struct td_model *model, const struct td_model_port **ports)
{
    *ports = model->output;
    return model->n_outputs;
}

/* ---- checking ---- */

/* "[?, 3, 224]" */
static void write_shape(char *text, size_t size, const int64_t *shape, int rank)
{
    size_t at = (size_t)snprintf(text, size, "[");
    for (int d = 0; d < rank && at < size; d++)
        at += (size_t)(shape[d] < 0 ? snprintf(text + at, size - at, "%s?", d ? ", " : "")
                                    : snprintf(text + at, size - at, "%s%lld", d ? ", " : "",
                                               (long long)shape[d]));
    if (at < size)
        snprintf(text + at, size - at, "]");
}

static bool has_shape(const struct td_model_port *port, const struct td_tensor *t)
{
    bool right = port->rank < 0 || port->rank == t->rank;
    for (int d = 0; d < port->rank && right; d++)
        right = port->shape[d] < 0 || port->shape[d] == t->shape[d];
    return right;
}

int td_model_check(const struct td_model *model, const struct td_tensor *inputs, int n,
                   struct td_problem *problem)
{
    if (n != model->n_inputs)
        return td_problem_set(problem, EINVAL, "inputs: the model has %d, but %d were given",
                              model->n_inputs, n);
    for (int i = 0; i < n; i++) {
        const struct td_model_port *port = &model->input[i];
        char is[200], right[200];
        if (port->dtype && inputs[i].dtype != port->dtype)
            return td_problem_set(problem, EINVAL, "%.80s: must be %s, but is %s", port->name,
                                  td_dtype_name(port->dtype), td_dtype_name(inputs[i].dtype));
        if (has_shape(port, &inputs[i]))
            continue;
        write_shape(right, sizeof right, port->shape, port->rank);
        write_shape(is, sizeof is, inputs[i].shape, inputs[i].rank);
        return td_problem_set(problem, EINVAL, "%.80s: must have the shape %s, but has %s",
                              port->name, right, is);
    }
    return 0;
}

/* ---- listing ---- */

static void visit(const struct td_node_graph *graph, int depth, td_each_node *each, void *arg)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct td_node *node = &graph->node[i];
        each(arg, node->name, node->op, depth);
        for (int k = 0; k < node->n_operands; k++)
            if (node->operand[k].kind == TD_OPERAND_graph)
                visit(node->operand[k].graph, depth + 1, each, arg);
    }
}

void td_model_each_node(const struct td_model *model, td_each_node *each, void *arg)
{
    visit(&model->graph, 0, each, arg);
}
