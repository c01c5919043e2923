/* What a model has to remember between two calls. Parameters, buffers and tensor constants are
 * constants of a program, but for those that are state: which are written, and whose old contents
 * reach an output of the user's, an assertion, or the new value of another that is state. Counters
 * that no output depends on, running statistics in training and what is overwritten as a whole
 * before it is read are no state. */
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

static int refuse(struct td_pt2_graph *graph, const struct td_pt2_value *value, const char *why)
{
    return td_problem_set(graph->pt2->problem, EINVAL,
                          "node '%.80s' writes the %s '%.80s', whose previous contents reach an "
                          "output: %s",
                          value->writer, value->kind, value->stored->string, why);
}

/* Notes with each entry whether somebody sees its bytes, and whether several values show them: a
 * write into one is one into the other. */
static void note_entries(struct td_pt2_graph *graph, const bool *seen)
{
    for (int i = 0; i < graph->n_keys; i++) {
        struct td_pt2_value *value = graph->value[i];
        struct td_pt2_key *entry =
            value->stored && value->loaded >= 0 ? entry_of(graph, value) : NULL;
        if (!entry)
            continue;
        entry->seen = entry->seen || seen[value->loaded];
        entry->tied = entry->tied || (entry->value && entry->value != value);
        entry->value = value;
    }
}

/* What a state is at the graph's end becomes something that is to be seen. */
static int add_state(struct td_pt2_graph *graph, struct td_pt2_value *value)
{
    if (value->lost)
        return refuse(graph, value,
                      "its new value is not computed here; call model.eval() before "
                      "torch.export.export");
    if (entry_of(graph, value)->tied)
        return refuse(graph, value,
                      "it cannot be kept, for another tensor of the archive has the same bytes");
    bool said = value->becomes >= 0 && value->becomes != value->loaded;
    value->is_state = true;
    return said ? 0 : td_pt2_current(graph, value, &value->becomes);
}

#define ROUNDS 64 /* of looking for states that are seen by states; then all of them count */

/* Adds the states that are seen by outputs, and by those found before; *n: how many there are. */
static int find_more(struct td_pt2_graph *graph, const int *output, int n_outputs, bool all,
                     struct td_pt2_value **state, int *n)
{
    int *end = malloc(sizeof *end * ((size_t)n_outputs + (size_t)*n + 1)), n_ends = n_outputs;
    bool *seen = calloc((size_t)graph->pt2->model->n_values + 1, sizeof *seen);
    int err = end && seen ? 0 : td_pt2_no_memory(graph->pt2);
    if (!err && n_outputs)
        memcpy(end, output, sizeof *end * (size_t)n_outputs);
    for (int i = 0; i < *n && !err; i++)
        end[n_ends++] = state[i]->becomes;
    struct td_node_graph program = {
        .n_nodes = graph->n_nodes, .node = graph->node, .n_outputs = n_ends, .output = end};
    if (!err) {
        see_all(&program, seen);
        note_entries(graph, seen);
    }
    for (int i = 0; i < graph->n_keys && !err; i++) {
        struct td_pt2_value *value = graph->value[i];
        bool may = value->stored && is_written(value) && !value->is_state;
        const struct td_pt2_key *entry = may ? entry_of(graph, value) : NULL;
        if (!entry || !(entry->seen || (all && value->loaded >= 0)))
            continue;
        err = add_state(graph, value);
        state[(*n)++] = value;
    }
    free(seen);
    free(end);
    return err;
}

int td_pt2_find_states(struct td_pt2_graph *graph, const int *output, int n_outputs,
                       struct td_pt2_value ***state, int *n)
{
    bool any = false;
    int err = 0, before = -1;
    *n = 0;
    *state = td_arena_alloc(graph->pt2->arena, sizeof **state * (size_t)(graph->n_keys + 1));
    if (!*state)
        return td_pt2_no_memory(graph->pt2);
    for (int i = 0; i < graph->n_keys && !any; i++)
        any = graph->value[i]->stored && is_written(graph->value[i]);
    for (int round = 0; any && !err && before != *n; round++) {
        before = *n;
        err = find_more(graph, output, n_outputs, round == ROUNDS, *state, n);
    }
    return err;
}
