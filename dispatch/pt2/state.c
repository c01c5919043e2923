/* What a model would have to remember between two calls. Parameters, buffers and tensor constants
 * are constants of a program, so their new values end with the call; a model whose answers depend
 * on these is refused. A stored tensor is state if it is written and its old contents reach an
 * output of the user's, or an assertion. Counters that no output depends on, running statistics in
 * training and what is overwritten as a whole before it is read are no state. */
#include "dispatch/pt2/pt2.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- running statistics ---- */

static bool is_statistic(const char *name)
{
    return name && (!strcmp(name, "running_mean") || !strcmp(name, "running_var"));
}

int td_pt2_lose_statistics(struct td_pt2_graph *graph)
{
    const cJSON *inputs = td_pt2_get(graph->reading, "inputs");
    for (const cJSON *in = inputs ? inputs->child : NULL; in; in = in->next) {
        const cJSON *member = td_pt2_argument(td_pt2_get(in, "arg"));
        if (!is_statistic(td_pt2_text(in, "name")) || !member || cJSON_IsArray(member))
            continue;
        struct td_pt2_leaf leaf = td_pt2_leaf(member->string, member);
        struct td_pt2_value *value = leaf.name ? td_pt2_value(graph, leaf.name) : NULL;
        if (leaf.name && !value)
            return -EINVAL;
        if (!value)
            continue;
        value = td_pt2_root(value);
        value->lost = true;
        value->writer = td_pt2_name(graph->reading);
    }
    return 0;
}

/* ---- what outputs depend on ---- */

/* Whether a node's results do not depend on what its first operand holds. */
static bool overwrites(const struct td_node *node)
{
    static const char *const names[] = {"copy",         "fill",       "zero",      "zeros_like",
                                        "ones_like",    "full_like",  "rand_like", "randn_like",
                                        "randint_like", "empty_like", "new_zeros", "new_ones",
                                        "new_full",     "new_empty",  "sym_size",  "sym_numel"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (td_pt2_is_called(node->op, names[i]))
            return true;
    return td_pt2_puts_all(node);
}

static bool is_training(const struct td_node *node)
{
    const char *flag = td_pt2_training_flag(node->op);
    return flag && td_node_int(node, flag, 0);
}

/* Whether a node may refuse the call: it has no results, or such a node within. */
static bool is_assertion(const struct td_node *node, int depth)
{
    bool asserts = !node->n_outs || depth == TD_PROGRAM_DEPTH;
    for (int i = 0; i < node->n_operands && !asserts; i++) {
        const struct td_node_graph *inner = node->operand[i].graph;
        for (int k = 0; inner && k < inner->n_nodes && !asserts; k++)
            asserts = is_assertion(&inner->node[k], depth + 1);
    }
    return asserts;
}

static void see(bool *seen, const struct td_node_operand *o)
{
    if (o->kind == TD_OPERAND_value)
        seen[o->value] = true;
    for (int i = 0; o->kind == TD_OPERAND_list && i < o->n; i++)
        see(seen, &o->list[i]);
}

/* Marks the values that outputs and assertions depend on. */
static void see_all(const struct td_node_graph *graph, bool *seen)
{
    for (int i = 0; i < graph->n_outputs; i++)
        seen[graph->output[i]] = true;
    for (int i = graph->n_nodes - 1; i >= 0; i--) {
        const struct td_node *node = &graph->node[i];
        bool wanted = is_assertion(node, 0), trains = is_training(node);
        for (int k = 0; k < node->n_outs && !wanted; k++)
            wanted = node->out[k] >= 0 && seen[node->out[k]];
        for (int k = overwrites(node); wanted && k < node->n_operands; k++)
            if (!trains || !is_statistic(node->operand[k].name))
                see(seen, &node->operand[k]);
    }
}

/* ---- what is state ---- */

static bool is_written(const struct td_pt2_value *value)
{
    return value->version || value->lost ||
           (value->becomes >= 0 && value->becomes != value->loaded);
}

/* The entry of a stored tensor's bytes, which several may share; NULL when there is none. */
static struct td_pt2_key *entry_of(struct td_pt2_graph *graph, const struct td_pt2_value *value)
{
    const char *path = td_pt2_text(value->stored, "path_name");
    return path ? td_pt2_entry(&graph->pt2->archive, value->folder, path, "") : NULL;
}

static int refuse(struct td_pt2_graph *graph, const struct td_pt2_value *value)
{
    return td_problem_set(graph->pt2->problem, EINVAL,
                          "node '%.80s' writes the %s '%.80s', whose previous contents reach an "
                          "output: its new value would be lost between calls, for models keep no "
                          "state here; give it as an input and an output",
                          value->writer, value->kind, value->stored->string);
}

int td_pt2_refuse_state(struct td_pt2_graph *graph, const struct td_node_graph *program)
{
    bool any = false;
    for (int i = 0; i < graph->n_keys && !any; i++)
        any = graph->value[i]->stored && is_written(graph->value[i]);
    if (!any)
        return 0;
    bool *seen = calloc((size_t)graph->pt2->model->n_values + 1, sizeof *seen);
    if (!seen)
        return td_problem_set(graph->pt2->problem, ENOMEM, "no memory for the model's graph");
    see_all(program, seen);
    for (int i = 0; i < graph->n_keys; i++) {
        const struct td_pt2_value *value = graph->value[i];
        struct td_pt2_key *entry = NULL;
        if (value->stored && value->loaded >= 0 && seen[value->loaded])
            entry = entry_of(graph, value);
        if (entry)
            entry->seen = true;
    }
    free(seen);
    for (int i = 0; i < graph->n_keys; i++) {
        const struct td_pt2_value *value = graph->value[i];
        const struct td_pt2_key *entry =
            value->stored && is_written(value) ? entry_of(graph, value) : NULL;
        if (entry && entry->seen)
            return refuse(graph, value);
    }
    return 0;
}
