/* Graphs in graphs: conditions, loops, maps, and what is but set apart. */
#include "dispatch/pt2/pt2.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The items of operands from first on, lists laid out; in memory that the caller frees. */
static int lay_out(const struct td_node *node, const struct td_item *in, int first,
                   struct td_item **items)
{
    int n = 0, at = 0;
    for (int i = first; i < node->n_operands; i++)
        n += in[i].v.kind == TD_KIND_tensors ? in[i].n
             : in[i].v.kind == TD_KIND_ints  ? in[i].v.ints.n
                                             : 1;
    *items = calloc((size_t)n + 1, sizeof **items);
    if (!*items)
        return -ENOMEM;
    for (int i = first; i < node->n_operands; i++) {
        if (in[i].v.kind == TD_KIND_tensors)
            for (int k = 0; k < in[i].n; k++)
                (*items)[at++] = in[i].list[k];
        else if (in[i].v.kind == TD_KIND_ints)
            for (int k = 0; k < in[i].v.ints.n; k++)
                (*items)[at++] = td_item_int(in[i].v.ints.v[k]);
        else
            (*items)[at++] = in[i];
    }
    return n;
}

/* Runs a graph on n items, for as many outputs. */
static int run_graph(struct td_walk *walk, const struct td_node_graph *graph,
                     const struct td_item *items, int n, struct td_item *out, int n_outs)
{
    if (graph->n_inputs != n || graph->n_outputs != n_outs)
        return td_walk_refuse(walk,
                              "an inner graph has %d inputs and %d outputs, but is given %d "
                              "and %d are wanted",
                              graph->n_inputs, graph->n_outputs, n, n_outs);
    return td_walk_graph(walk, graph, items, out);
}

/* Whether a condition, a number or a tensor of one, holds: 1 or 0. */
static int holds(struct td_walk *walk, const struct td_item *item)
{
    double v;
    int n = td_walk_floats(walk, item, &v, 1);
    return n == 1 ? v != 0 : n < 0 ? n : td_walk_refuse(walk, "a condition has no elements");
}

int td_pt2_cond(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                struct td_item *out)
{
    struct td_item *items;
    int so = holds(walk, &in[0]);
    int n = so < 0 ? so : lay_out(node, in, 3, &items);
    if (n < 0)
        return n;
    int err = run_graph(walk, node->operand[so ? 1 : 2].graph, items, n, out, node->n_outs);
    free(items);
    return err;
}

/* Operands: how gradients or types are to be kept there, a graph, and what it is run on. */
int td_pt2_inline(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                  struct td_item *out)
{
    const struct td_pt2_target *target = node->form;
    struct td_item *items;
    int at = 0;
    while (node->operand[at].kind != TD_OPERAND_graph)
        at++;
    if (target->how == 'a' && (at < 3 || in[2].v.kind != TD_KIND_bool || in[2].v.i))
        return td_walk_refuse(walk, "the model was exported with autocast on");
    int n = lay_out(node, in, at + 1, &items);
    if (n < 0)
        return n;
    int err = run_graph(walk, node->operand[at].graph, items, n, out, node->n_outs);
    free(items);
    return err;
}

/* items: those carried, of which there are as many as results, and those that stay. */
static int loop(struct td_walk *walk, const struct td_node *node, struct td_item *items, int n)
{
    const struct td_node_graph *cond = node->operand[0].graph, *body = node->operand[1].graph;
    struct td_item *next = calloc((size_t)node->n_outs + 1, sizeof *next), go;
    size_t mark = td_walk_mark(walk);
    struct td_turns turns = {0};
    int so = next ? 1 : -ENOMEM;
    while (so > 0) {
        td_walk_turn(walk, &turns, items, node->n_outs);
        so = run_graph(walk, cond, items, n, &go, 1);
        so = so < 0 ? so : holds(walk, &go);
        int err = so > 0 ? run_graph(walk, body, items, n, next, node->n_outs) : 0;
        if (so > 0 && !err)
            err = td_walk_stopped(walk);
        if (so > 0 && !err) {
            td_walk_hand_on(items, next, node->n_outs);
            td_walk_release(walk, mark, next, node->n_outs);
        }
        so = err ? err : so;
    }
    free(next);
    return so;
}

int td_pt2_while(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                 struct td_item *out)
{
    struct td_item *items;
    int n = lay_out(node, in, 2, &items), err = n < 0 ? n : 0;
    if (n >= 0 && n < node->n_outs)
        err = td_walk_refuse(walk, "has more results than it is given values");
    if (!err)
        err = loop(walk, node, items, n);
    if (!err && node->n_outs)
        memcpy(out, items, sizeof *out * (size_t)node->n_outs);
    if (n >= 0)
        free(items);
    return err;
}

/* ---- map ---- */

/* Runs the graph on the i-th of each of the first lists, n of them, and on what follows these. */
static int map_one(struct td_walk *walk, const struct td_node *node, struct td_item *items, int n,
                   int n_mapped, int64_t i, struct td_item *out)
{
    struct td_item *of = calloc((size_t)n + 1, sizeof *of);
    int err = of ? 0 : -ENOMEM;
    for (int k = 0; k < n && !err; k++) {
        of[k] = items[k];
        if (k < n_mapped)
            err = TD_CALL(walk, "select.int", &of[k], TD_GIVE(items[k]), TD_GIVE(td_item_int(0)),
                          TD_GIVE(td_item_int(i)));
    }
    err = err ? err : run_graph(walk, node->operand[0].graph, of, n, out, node->n_outs);
    free(of);
    return err;
}

/* Stacks every n_outs-th of the items. */
static int stack(struct td_walk *walk, const struct td_item *items, int64_t n, int n_outs,
                 struct td_item *out)
{
    struct td_item *list = calloc((size_t)n, sizeof *list), all;
    int err = list ? 0 : -ENOMEM;
    for (int64_t i = 0; i < n && !err; i++)
        list[i] = items[i * n_outs];
    err = err ? err : td_walk_list(walk, list, (int)n, &all);
    err = err ? err : TD_CALL(walk, "stack", out, TD_GIVE(all));
    free(list);
    return err;
}

int td_pt2_map(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
               struct td_item *out)
{
    struct td_item *items, *made = NULL;
    int mapped = in[1].v.kind == TD_KIND_tensors ? in[1].n : 1;
    int n = lay_out(node, in, 1, &items), err = n < 0 ? n : 0;
    if (err)
        return err;
    const struct td_tensor *first = &items[0].v.tensor;
    if (mapped < 1 || n < mapped || items[0].v.kind != TD_KIND_tensor || !first->rank ||
        first->shape[0] < 1 || first->shape[0] > INT32_MAX / 64)
        err = td_walk_refuse(walk, "has nothing to go over");
    int64_t length = err ? 0 : first->shape[0];
    if (!err && !(made = calloc((size_t)length * (size_t)node->n_outs + 1, sizeof *made)))
        err = -ENOMEM;
    for (int64_t i = 0; i < length && !err; i++)
        err = map_one(walk, node, items, n, mapped, i, &made[i * node->n_outs]);
    for (int k = 0; k < node->n_outs && !err; k++)
        err = stack(walk, made + k, length, node->n_outs, &out[k]);
    free(made);
    free(items);
    return err;
}
