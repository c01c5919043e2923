/* Constant folding: nodes that depend only on constants are computed when the model is loaded.
 * Large results become weights like those of the file, so that a weight that the file transposes,
 * or converts from INT8, has packed forms, too. */
#include "dispatch/walk/walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NS INT64_C(5000000000) /* for all folding, at most */
#define MOST_WORK 5e9               /* operations, at most */
#define MOST_GROWTH 8            /* results have this many times the operands' bytes, at most, or */
#define LITTLE ((size_t)1 << 20) /* this many bytes, if that is more */

struct folding {
    struct td_walk walk;
    struct td_model *model;
    int *constant; /* by value: 1 + its index in model->constant, or HELD; 0: it is none */
    int *readers;  /* by value: its uses as operand or output */
    int held;      /* the value that only the next node reads, in the walk's memory; -1: none */
};

#define HELD -1

/* Whether an operand is constant; adds up its bytes. */
static bool is_known(const struct folding *f, const struct td_node_operand *o, size_t *bytes)
{
    bool known = o->kind != TD_OPERAND_graph;
    if (o->kind == TD_OPERAND_value) {
        known = f->constant[o->value];
        *bytes += known ? td_nbytes(&f->walk.item[o->value].v.tensor) : 0;
    }
    for (int i = 0; o->kind == TD_OPERAND_list && i < o->n && known; i++)
        known = is_known(f, &o->list[i], bytes);
    return known;
}

/* Whether the node may be replaced by these results: they are tensors, and not too large. */
static bool is_worth(const struct td_node *node, const struct td_item *out, size_t bytes)
{
    size_t made = 0, most = bytes * MOST_GROWTH > LITTLE ? bytes * MOST_GROWTH : LITTLE;
    for (int i = 0; i < node->n_outs; i++) {
        if (node->out[i] < 0)
            continue;
        if (out[i].v.kind != TD_KIND_tensor || !out[i].v.tensor.data)
            return false;
        made += td_nbytes(&out[i].v.tensor);
    }
    return made <= most;
}

static int keep(struct folding *f, int value, const struct td_tensor *tensor)
{
    int err = td_program_constant(f->model, value, tensor);
    if (err)
        return err;
    f->constant[value] = f->model->n_constants;
    f->walk.item[value].v = (struct td_value){
        .kind = TD_KIND_tensor, .tensor = f->model->constant[f->model->n_constants - 1].tensor};
    return 0;
}

/* Whether the result of a node is read by the next one only, which is likely to be folded, too: an
 * INT8 weight is converted, then scaled. No weight is made of it then. A view of a constant has no
 * memory of its own and is not held. */
static bool is_passing(const struct folding *f, const struct td_node *node,
                       const struct td_node *next, const struct td_item *out)
{
    if (!next || node->n_outs != 1 || node->out[0] < 0 || !out->block ||
        f->readers[node->out[0]] != 1)
        return false;
    bool reads = false, known = true;
    size_t bytes = 0;
    for (int i = 0; i < next->n_operands && known; i++) {
        const struct td_node_operand *o = &next->operand[i];
        bool read = o->kind == TD_OPERAND_value && o->value == node->out[0];
        reads |= read;
        known = read || is_known(f, o, &bytes);
    }
    return reads && known;
}

static int keep_results(struct folding *f, const struct td_node *node, const struct td_node *next,
                        const struct td_item *out)
{
    int err = 0;
    if (is_passing(f, node, next, out)) {
        f->held = node->out[0];
        f->constant[f->held] = HELD;
        f->walk.item[f->held] = td_item_hold(out);
        return 0;
    }
    for (int i = 0; i < node->n_outs && !err; i++)
        if (node->out[i] >= 0)
            err = keep(f, node->out[i], &out[i].v.tensor);
    return err;
}

/* Once the node that reads a held value is done; it becomes a constant if that was not folded. */
static int settle_held(struct folding *f, int held, bool folded)
{
    struct td_item item = f->walk.item[held];
    int err = folded ? 0 : keep(f, held, &item.v.tensor);
    f->walk.item[held].block = NULL;
    td_item_drop(&f->walk, &item);
    return err;
}

/* Frees the weights of constants whose last use was the folded node. */
static void drop_operands(struct folding *f, const struct td_node_operand *operand, int n)
{
    for (int i = 0; i < n; i++) {
        const struct td_node_operand *o = &operand[i];
        if (o->kind == TD_OPERAND_value && !--f->readers[o->value] && f->constant[o->value] > 0)
            td_weight_unref(&f->model->constant[f->constant[o->value] - 1].weight);
        if (o->kind == TD_OPERAND_list)
            drop_operands(f, o->list, o->n);
    }
}

/* Folds a node, if all its operands are constant and it is worth it (*folded). next: that in the
 * graph, or NULL. -ENOMEM, what the budget returns. */
static int fold_node(struct folding *f, const struct td_node *node, const struct td_node *next,
                     bool *folded)
{
    size_t bytes = 0, n = (size_t)node->n_operands + (size_t)node->n_outs;
    *folded = false;
    for (int i = 0; i < node->n_operands; i++)
        if (!is_known(f, &node->operand[i], &bytes))
            return 0;
    struct td_item *in = malloc(sizeof *in * (n + 1)), *out = in + node->n_operands;
    if (!in)
        return -ENOMEM;
    size_t mark = td_walk_mark(&f->walk);
    f->walk.chance = false;
    int err = td_walk_node(&f->walk, node, in, out);
    *folded = !err && !f->walk.chance && !td_stopped() && is_worth(node, out, bytes);
    err = *folded ? keep_results(f, node, next, out) : 0;
    if (*folded && !err)
        drop_operands(f, node->operand, node->n_operands);
    td_walk_release(&f->walk, mark, NULL, 0);
    free(in);
    return err;
}

static int fold_graph(struct folding *f, struct td_node_graph *graph, int depth)
{
    int n = 0, err = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct td_node *node = &graph->node[i];
        const struct td_node *next = i + 1 < graph->n_nodes ? node + 1 : NULL;
        int held = f->held; /* of the node before */
        bool folded = false;
        f->held = -1;
        if (!err && !td_stopped() && depth < TD_PROGRAM_DEPTH)
            err = fold_node(f, node, next, &folded);
        if (held >= 0) {
            int short_ = settle_held(f, held, folded);
            err = err ? err : short_;
        }
        for (int k = 0; k < node->n_operands && !err && depth < TD_PROGRAM_DEPTH; k++)
            if (node->operand[k].kind == TD_OPERAND_graph)
                err = fold_graph(f, node->operand[k].graph, depth + 1);
        f->model->n_folded += folded;
        if (!folded)
            graph->node[n++] = graph->node[i];
    }
    graph->n_nodes = n;
    return err;
}

static void drop_unread(struct folding *f)
{
    struct td_model *model = f->model;
    int n = 0;
    for (int i = 0; i < model->n_constants; i++)
        if (f->readers[model->constant[i].value])
            model->constant[n++] = model->constant[i];
        else
            td_weight_unref(&model->constant[i].weight);
    model->n_constants = n;
}

int td_program_fold(struct td_model *model, struct td_problem *problem)
{
    struct td_model_call call = {.threads = 1, .node = -1};
    struct folding *f = calloc(1, sizeof *f);
    size_t values = (size_t)model->n_values + 1;
    int *room = calloc(2 * values, sizeof *room);
    struct td_problem why; /* ignored: a node that fails here will fail again when it is run */
    int err = f && room ? 0 : -ENOMEM;
    if (!err) {
        *f = (struct folding){
            .model = model, .constant = room, .readers = room + values, .held = -1};
        f->walk = (struct td_walk){
            .model = model, .call = &call, .problem = &why, .most_work = MOST_WORK};
        err = td_walk_begin(&f->walk);
    }
    for (int i = 0; i < model->n_constants && !err; i++)
        f->constant[model->constant[i].value] = i + 1;
    if (!err)
        td_program_count_readers(model, f->readers);
    struct td_stop stop = {.deadline_ns = td_clock_ns() + MOST_NS};
    const struct td_stop *before = td_stop_obey(&stop);
    err = err ? err : fold_graph(f, &model->graph, 0);
    td_stop_obey(before);
    if (!err)
        drop_unread(f);
    if (f) {
        td_walk_release(&f->walk, 0, NULL, 0);
        td_walk_end(&f->walk);
        free(f->walk.made);
    }
    free(room);
    free(f);
    return err ? td_problem_set(problem, -err, "no memory for the model's constants") : 0;
}
