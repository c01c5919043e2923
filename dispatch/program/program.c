/* Building programs: their memory, values and constants, which importers add, and the last use of
 * each value, which is found once the program is complete. */
#include "dispatch/program/program.h"
#include "pools/pools.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SMALL 256 /* bytes, at most, of a constant that does not become a weight */

int td_program_take(struct td_model *model, size_t bytes)
{
    int err = model->room ? model->room->take(model->room, bytes, true)
                          : td_budget_take(&td_memory, bytes);
    if (err)
        atomic_store(&model->short_, err);
    else
        atomic_fetch_add(&model->held_, bytes);
    return err;
}

void td_program_give(struct td_model *model, size_t bytes)
{
    atomic_fetch_sub(&model->held_, bytes);
    if (model->room)
        model->room->give(model->room, bytes, true);
    else
        td_budget_give(&td_memory, bytes);
}

static int take(void *arg, size_t bytes)
{
    return td_program_take(arg, bytes);
}

static void give(void *arg, size_t bytes)
{
    td_program_give(arg, bytes);
}

struct td_arena *td_program_arena(struct td_model *model)
{
    const struct td_arena_room room = {take, give, model};
    return td_arena_create_in(&room);
}

void *td_program_alloc(struct td_model *model, size_t bytes)
{
    return td_arena_zalloc(model->arena, bytes ? bytes : 1);
}

char *td_program_text(struct td_model *model, const char *text, size_t length)
{
    return td_arena_strdup(model->arena, text, length);
}

int td_program_value(struct td_model *model)
{
    return model->n_values++;
}

static int more_constants(struct td_model *model)
{
    int room = model->constants_room_ ? 2 * model->constants_room_ : 64;
    struct td_constant *more = td_program_alloc(model, sizeof *more * (size_t)room);
    if (!more)
        return -ENOMEM;
    if (model->n_constants)
        memcpy(more, model->constant, sizeof *more * (size_t)model->n_constants);
    model->constant = more;
    model->constants_room_ = room;
    return 0;
}

int td_program_constant(struct td_model *model, int value, const struct td_tensor *tensor)
{
    if (!td_fits(tensor))
        return -EINVAL;
    if (model->n_constants == model->constants_room_ && more_constants(model))
        return -ENOMEM;
    struct td_constant *c = &model->constant[model->n_constants];
    size_t bytes = td_nbytes(tensor);
    *c = (struct td_constant){.value = value, .tensor = *tensor};
    c->tensor.weight = NULL;
    if (bytes > SMALL) {
        int err = td_weight_create(&c->weight, tensor, model->room);
        if (err)
            return err;
        c->tensor = *td_weight_tensor(c->weight);
    } else {
        c->tensor.data = td_program_alloc(model, bytes);
        if (!c->tensor.data)
            return -ENOMEM;
        if (bytes)
            memcpy(c->tensor.data, tensor->data, bytes);
    }
    model->n_constants++;
    return 0;
}

int td_program_take_out(struct td_model *model, int value, struct td_constant *taken)
{
    for (int i = 0; i < model->n_constants; i++) {
        if (model->constant[i].value != value)
            continue;
        *taken = model->constant[i];
        model->constant[i] = model->constant[--model->n_constants];
        return 0;
    }
    return -EINVAL;
}

/* ---- last uses ---- */

struct frame { /* a graph that is being visited */
    int at;    /* the present node */
};

struct closing {
    struct td_model *model;
    struct td_problem *problem;
    struct frame **owner; /* by value: the graph that makes it; NULL: none so far */
    struct frame always;  /* the owner of constants */
    int *last;            /* by value: the node of the owner graph with its last use so far */
};

static int want(struct closing *c, int value, const struct td_node *node)
{
    if (value >= 0 && value < c->model->n_values && c->owner[value]) {
        c->last[value] = c->owner[value]->at;
        return 0;
    }
    return td_problem_set(c->problem, EINVAL, "%s%.80s%s%.80s reads a value that nothing makes",
                          node ? "node '" : "", node ? node->name : "the graph", node ? "', " : "",
                          node ? node->op : "");
}

static int make(struct closing *c, int value, struct frame *frame)
{
    if (value < 0)
        return 0;
    if (value >= c->model->n_values || c->owner[value])
        return td_problem_set(c->problem, EINVAL, "a value is made twice");
    c->owner[value] = frame;
    c->last[value] = frame->at;
    return 0;
}

static int close_graph(struct closing *c, struct td_node_graph *graph, int depth);

static int want_operands(struct closing *c, const struct td_node *node,
                         const struct td_node_operand *operand, int n, int depth)
{
    int err = 0;
    for (int i = 0; i < n && !err; i++) {
        const struct td_node_operand *o = &operand[i];
        if (o->kind == TD_OPERAND_value)
            err = want(c, o->value, node);
        else if (o->kind == TD_OPERAND_list)
            err = want_operands(c, node, o->list, o->n, depth);
        else if (o->kind == TD_OPERAND_graph)
            err = close_graph(c, o->graph, depth + 1);
    }
    return err;
}

/* The values that a graph makes, with its inputs; the caller frees the list. NULL: no memory. */
static int *list_own(const struct td_node_graph *graph, int *n)
{
    size_t most = (size_t)graph->n_inputs;
    for (int i = 0; i < graph->n_nodes; i++)
        most += (size_t)graph->node[i].n_outs;
    int *own = malloc(sizeof *own * (most + 1));
    *n = 0;
    for (int i = 0; i < graph->n_inputs && own; i++)
        own[(*n)++] = graph->input[i];
    for (int i = 0; i < graph->n_nodes && own; i++)
        for (int k = 0; k < graph->node[i].n_outs; k++)
            if (graph->node[i].out[k] >= 0)
                own[(*n)++] = graph->node[i].out[k];
    return own;
}

/* Fills node->last of each node of the graph. It visits the graph's own values only, because there
 * may be as many graphs as values. */
static int note_last(struct closing *c, struct td_node_graph *graph)
{
    int *count = calloc((size_t)graph->n_nodes + 1, sizeof *count), n;
    int *own = list_own(graph, &n), err = count && own ? 0 : -ENOMEM;
    for (int i = 0; i < n && !err; i++)
        if (c->last[own[i]] >= 0 && c->last[own[i]] < graph->n_nodes)
            count[c->last[own[i]]]++;
    for (int i = 0; i < graph->n_nodes && !err; i++) {
        struct td_node *node = &graph->node[i];
        node->last = td_program_alloc(c->model, sizeof(int) * (size_t)count[i]);
        node->n_last = 0;
        err = node->last ? 0 : -ENOMEM;
    }
    for (int i = 0; i < n && !err; i++) {
        int last = c->last[own[i]];
        if (last >= 0 && last < graph->n_nodes) {
            struct td_node *node = &graph->node[last];
            ((int *)node->last)[node->n_last++] = own[i];
        }
        c->owner[own[i]] = NULL; /* the value is not visible outside the graph */
    }
    free(count);
    free(own);
    return err;
}

static int close_graph(struct closing *c, struct td_node_graph *graph, int depth)
{
    struct frame frame = {.at = -1};
    int err = depth > TD_PROGRAM_DEPTH
                  ? td_problem_set(c->problem, EINVAL,
                                   "graphs stand in each other more than %d deep", TD_PROGRAM_DEPTH)
                  : 0;
    for (int i = 0; i < graph->n_inputs && !err; i++)
        err = make(c, graph->input[i], &frame);
    for (int i = 0; i < graph->n_nodes && !err; i++) {
        const struct td_node *node = &graph->node[i];
        frame.at = i;
        err = want_operands(c, node, node->operand, node->n_operands, depth);
        for (int k = 0; k < node->n_outs && !err; k++)
            err = make(c, node->out[k], &frame);
    }
    frame.at = graph->n_nodes;
    for (int i = 0; i < graph->n_outputs && !err; i++)
        err = want(c, graph->output[i], NULL);
    c->model->n_nodes += graph->n_nodes;
    return err ? err : note_last(c, graph);
}

int td_program_close(struct td_model *model, struct td_problem *problem)
{
    size_t n = (size_t)model->n_values + 1;
    struct closing c = {.model = model, .problem = problem};
    c.owner = calloc(n, sizeof *c.owner);
    c.last = calloc(n, sizeof *c.last);
    int err = c.owner && c.last ? 0 : -ENOMEM;
    model->n_nodes = 0;
    for (int i = 0; i < model->n_constants && !err; i++)
        err = make(&c, model->constant[i].value, &c.always);
    if (!err)
        err = close_graph(&c, &model->graph, 0);
    free(c.owner);
    free(c.last);
    return err;
}

/* ---- a node's operands ---- */

int td_node_find(const struct td_node *node, const char *name)
{
    for (int i = 0; i < node->n_operands; i++)
        if (node->operand[i].name && !strcmp(node->operand[i].name, name))
            return i;
    return -1;
}

int64_t td_node_int(const struct td_node *node, const char *name, int64_t otherwise)
{
    int i = td_node_find(node, name);
    if (i < 0 || node->operand[i].kind != TD_OPERAND_constant)
        return otherwise;
    const struct td_value *v = &node->operand[i].constant;
    return v->kind == TD_KIND_int || v->kind == TD_KIND_bool ? v->i : otherwise;
}

/* ---- counting uses ---- */

static void count_operands(int *readers, const struct td_node_operand *operand, int n);

static void count_graph(int *readers, const struct td_node_graph *graph)
{
    for (int i = 0; i < graph->n_nodes; i++)
        count_operands(readers, graph->node[i].operand, graph->node[i].n_operands);
    for (int i = 0; i < graph->n_outputs; i++)
        readers[graph->output[i]]++;
}

static void count_operands(int *readers, const struct td_node_operand *operand, int n)
{
    for (int i = 0; i < n; i++)
        if (operand[i].kind == TD_OPERAND_value)
            readers[operand[i].value]++;
        else if (operand[i].kind == TD_OPERAND_list)
            count_operands(readers, operand[i].list, operand[i].n);
        else if (operand[i].kind == TD_OPERAND_graph)
            count_graph(readers, operand[i].graph);
}

void td_program_count_readers(const struct td_model *model, int *readers)
{
    count_graph(readers, &model->graph);
}

void td_program_find_makers(const struct td_model *model, int *maker, int *constant)
{
    for (int i = 0; i < model->n_constants; i++)
        constant[model->constant[i].value] = i + 1;
    for (int i = 0; i < model->graph.n_nodes; i++) {
        const struct td_node *node = &model->graph.node[i];
        for (int k = 0; k < node->n_outs; k++)
            if (node->out[k] >= 0)
                maker[node->out[k]] = i + 1;
    }
}
