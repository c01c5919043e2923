/* Tables that a file keeps in few bits, and of which it makes floats before rows are picked by
 * index: rows are picked first here, and made floats of then. What is computed of elements one by
 * one is the same either way, and the table stays as small as in the file. */
#include "dispatch/onnx/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 8                   /* of nodes between a table and its rows */
#define LITTLE ((int64_t)1 << 18) /* elements of a table that is not worth it */

static const char *const pointwise[] = {"Cast", "Mul", "Add", "Sub", "Div"};

struct rows {
    struct td_model *model;
    struct td_node *node; /* the new list, n of them */
    int n;
    int *maker, *constant, *readers; /* by value: 1 + the node that makes it, 1 + the constant's
                                        number; and how many nodes and outputs read it */
    const struct td_node *gather;    /* that is being moved */
    const struct td_tensor *table;   /* the largest constant behind it */
    size_t bytes;                    /* of all constants that have its rows */
};

static bool is_pointwise(const struct td_node *node)
{
    for (size_t i = 0; i < sizeof pointwise / sizeof *pointwise; i++)
        if (!strcmp(node->op, pointwise[i]))
            return node->n_outs == 1;
    return false;
}

/* Index of the operand called so, when it is a value; else -1. */
static int value_operand(const struct td_node *node, const char *name)
{
    int i = td_node_find(node, name);
    return i >= 0 && node->operand[i].kind == TD_OPERAND_value ? i : -1;
}

/* The node whose rows are made of a value that nobody else reads; NULL: there is none such. */
static const struct td_node *pointwise_maker(const struct rows *r, int value)
{
    const struct td_node *node =
        r->maker[value] ? &r->model->graph.node[r->maker[value] - 1] : NULL;
    return node && r->readers[value] == 1 && is_pointwise(node) ? node : NULL;
}

/* The first table that a value is made of. */
static const struct td_tensor *find_table(const struct rows *r, int value, int depth)
{
    if (r->constant[value])
        return &r->model->constant[r->constant[value] - 1].tensor;
    const struct td_node *node = depth < DEPTH ? pointwise_maker(r, value) : NULL;
    return node && node->operand[0].kind == TD_OPERAND_value
               ? find_table(r, node->operand[0].value, depth + 1)
               : NULL;
}

static bool has_rows(const struct rows *r, const struct td_tensor *t)
{
    return t->rank == r->table->rank && t->shape[0] == r->table->shape[0];
}

/* Whether a value is made of constants that either have the table's rows, or are the same for all
 * of them in whichever place those then stand; counts the bytes of the first. */
static bool is_by_rows(struct rows *r, int value, int depth)
{
    if (r->constant[value]) {
        const struct td_tensor *t = &r->model->constant[r->constant[value] - 1].tensor;
        r->bytes += has_rows(r, t) ? td_nbytes(t) : 0;
        return has_rows(r, t) || t->rank < r->table->rank;
    }
    const struct td_node *node = depth < DEPTH ? pointwise_maker(r, value) : NULL;
    bool all = node;
    for (int i = 0; all && i < node->n_operands; i++)
        if (node->operand[i].kind == TD_OPERAND_value)
            all = is_by_rows(r, node->operand[i].value, depth + 1);
    return all;
}

static bool is_worth_it(struct rows *r, const struct td_node *node)
{
    int data = value_operand(node, "data");
    if (strcmp(node->op, "Gather") != 0 || td_node_int(node, "axis", 0) || data < 0 ||
        node->n_outs != 1 || node->out[0] < 0)
        return false;
    int value = node->operand[data].value;
    r->bytes = 0;
    r->table = r->constant[value] ? NULL : find_table(r, value, 0);
    return r->table && r->table->rank && td_numel(r->table) >= LITTLE && is_by_rows(r, value, 0) &&
           2 * r->bytes <= sizeof(float) * (size_t)td_numel(r->table);
}

/* A copy of a node, with operands of its own, which makes another value. NULL: no memory. */
static struct td_node *copy(struct rows *r, const struct td_node *from, int value)
{
    size_t bytes = sizeof *from->operand * (size_t)from->n_operands;
    struct td_node_operand *operand = td_program_alloc(r->model, bytes);
    int *out = td_program_alloc(r->model, sizeof *out);
    if (!operand || !out)
        return NULL;
    struct td_node *node = &r->node[r->n++];
    *node = *from;
    node->operand = memcpy(operand, from->operand, bytes);
    *out = value;
    node->out = out;
    return node;
}

static bool build(struct rows *r, int value, int to);

/* The value that takes an operand's place behind the gather. */
static bool build_operand(struct rows *r, const struct td_node_operand *o, int *made)
{
    *made = o->value;
    if (o->kind != TD_OPERAND_value)
        return true;
    const struct td_constant *constant =
        r->constant[o->value] ? &r->model->constant[r->constant[o->value] - 1] : NULL;
    if (constant && !has_rows(r, &constant->tensor))
        return true;
    *made = td_program_value(r->model);
    return build(r, o->value, *made);
}

/* Puts the nodes that make the gathered rows of value behind those that are there, the last of
 * which makes to. False: no memory. */
static bool build(struct rows *r, int value, int to)
{
    if (r->constant[value]) {
        struct td_node *picks = copy(r, r->gather, to);
        if (picks)
            ((struct td_node_operand *)picks->operand)[value_operand(picks, "data")].value = value;
        return picks;
    }
    const struct td_node *from = &r->model->graph.node[r->maker[value] - 1];
    int made[TD_ONNX_NAMES];
    bool done = true;
    for (int i = 0; i < from->n_operands && done; i++)
        done = build_operand(r, &from->operand[i], &made[i]);
    struct td_node *node = done ? copy(r, from, to) : NULL;
    for (int i = 0; node && i < node->n_operands; i++)
        ((struct td_node_operand *)node->operand)[i].value = made[i];
    r->readers[value] = 0;
    return node;
}

static bool moves(struct rows *r, const struct td_node *node)
{
    r->gather = node;
    return build(r, node->operand[value_operand(node, "data")].value, node->out[0]);
}

/* ---- the graph ---- */

/* Leaves out the nodes that have been copied to behind a gather. */
static int leave_out(struct rows *r, int n_values)
{
    int n = 0;
    for (int i = 0; i < r->n; i++) {
        int value = is_pointwise(&r->node[i]) ? r->node[i].out[0] : -1;
        if (value < 0 || value >= n_values || !r->maker[value] || r->readers[value])
            r->node[n++] = r->node[i];
    }
    return n;
}

int td_onnx_pick_rows(struct td_model *model)
{
    struct td_node_graph *graph = &model->graph;
    size_t values = (size_t)model->n_values + 1;
    struct rows r = {.model = model};
    int *room = calloc(3 * values, sizeof *room), n_values = model->n_values;
    /* A tree of n nodes has n + 1 tables at most. */
    r.node = td_program_alloc(model, sizeof *r.node * 2 * (size_t)graph->n_nodes);
    bool done = room && r.node;
    r.maker = room;
    if (done) {
        r.constant = room + values;
        r.readers = room + 2 * values;
        td_program_find_makers(model, r.maker, r.constant);
        td_program_count_readers(model, r.readers);
    }
    for (int i = 0; i < graph->n_nodes && done; i++)
        if (is_worth_it(&r, &graph->node[i]))
            done = moves(&r, &graph->node[i]);
        else
            r.node[r.n++] = graph->node[i];
    if (done) {
        graph->n_nodes = leave_out(&r, n_values);
        graph->node = r.node;
    }
    free(room);
    return done ? 0 : -ENOMEM;
}
