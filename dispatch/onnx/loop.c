/* Loops whose states do not change. Exporters make a state of each value that a loop's body reads,
 * weights among them, and the body returns it unchanged. Here the body's nodes are made to read the
 * initial value instead. Nodes that depend on weights alone are then folded when the model is
 * loaded, and are not computed in each turn. */
#include "dispatch/onnx/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct settling {
    struct td_model *model;
    int *first; /* by value: that which the loop began with, or itself */
};

typedef int settler(struct settling *s, struct td_node *node);

/* All nodes, those of inner graphs behind the one that has them. -ENOMEM. */
static int each_node(struct settling *s, struct td_node_graph *graph, settler *settle)
{
    int err = 0;
    for (int i = 0; i < graph->n_nodes && !err; i++) {
        struct td_node *node = &graph->node[i];
        err = settle(s, node);
        for (int k = 0; k < node->n_operands && !err; k++)
            if (node->operand[k].kind == TD_OPERAND_graph)
                err = each_node(s, node->operand[k].graph, settle);
    }
    return err;
}

static int find_first(struct settling *s, struct td_node *node)
{
    int states = td_node_find(node, "v_initial"), body = td_node_find(node, "body");
    if (strcmp(node->op, "Loop") != 0 || states < 0 || body < 0 ||
        node->operand[states].kind != TD_OPERAND_list ||
        node->operand[body].kind != TD_OPERAND_graph)
        return 0;
    const struct td_node_operand *from = node->operand[states].list;
    const struct td_node_graph *graph = node->operand[body].graph;
    for (int i = 0; i < node->operand[states].n; i++) /* behind the turn's number, the condition */
        if (2 + i < graph->n_inputs && 1 + i < graph->n_outputs &&
            graph->input[2 + i] == graph->output[1 + i] && from[i].kind == TD_OPERAND_value)
            s->first[graph->input[2 + i]] = s->first[from[i].value];
    return 0;
}

static bool has_other(const struct settling *s, const struct td_node_operand *operand, int n)
{
    bool other = false;
    for (int i = 0; i < n && !other; i++)
        other = operand[i].kind == TD_OPERAND_value ? s->first[operand[i].value] != operand[i].value
                : operand[i].kind == TD_OPERAND_list ? has_other(s, operand[i].list, operand[i].n)
                                                     : false;
    return other;
}

/* A copy of operands that reads what loops began with; NULL: no memory. */
static struct td_node_operand *copy(const struct settling *s, const struct td_node_operand *from,
                                    int n)
{
    struct td_node_operand *to = td_program_alloc(s->model, sizeof *to * (size_t)n);
    for (int i = 0; i < n && to; i++) {
        to[i] = from[i];
        if (from[i].kind == TD_OPERAND_value)
            to[i].value = s->first[from[i].value];
        if (from[i].kind == TD_OPERAND_list && !(to[i].list = copy(s, from[i].list, from[i].n)))
            return NULL;
    }
    return to;
}

static int read_first(struct settling *s, struct td_node *node)
{
    if (!has_other(s, node->operand, node->n_operands))
        return 0;
    node->operand = copy(s, node->operand, node->n_operands);
    return node->operand ? 0 : -ENOMEM;
}

int td_onnx_settle_loops(struct td_model *model)
{
    struct settling s = {.model = model,
                         .first = malloc(sizeof *s.first * ((size_t)model->n_values + 1))};
    for (int i = 0; i < model->n_values && s.first; i++)
        s.first[i] = i;
    int err = s.first ? each_node(&s, &model->graph, find_first) : -ENOMEM;
    err = err ? err : each_node(&s, &model->graph, read_first);
    free(s.first);
    return err;
}
