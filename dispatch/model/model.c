/* A loaded model: reference counting, its memory, and listing its nodes. */
#include "dispatch/model/model.h"
#include "dispatch/passes/passes.h"
#include "pools/pools.h"

#include <stdatomic.h>
#include <stdlib.h>

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
    for (int i = 0; i < m->n_states; i++)
        td_weight_unref(&m->initial[i].weight);
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
    for (int i = 0; i < model->n_states; i++)
        bytes += model->initial[i].weight ? td_weight_bytes(model->initial[i].weight) : 0;
    return bytes;
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
