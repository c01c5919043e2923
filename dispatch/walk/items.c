/* Items: reading them as numbers, formulas over them, and the loop-carried values of loops. */
#include "dispatch/graph/graph.h"
#include "dispatch/walk/walk.h"
#include "kernels/elementwise.h"

#include <string.h>

/* ---- numbers ---- */

/* The number of the item's elements, or -EINVAL if it is above max; sets t, with their data. */
static int count(struct td_walk *walk, const struct td_item *item, int max, struct td_tensor *t)
{
    if (item->v.kind != TD_KIND_tensor)
        return td_walk_refuse(walk, "has numbers where it may have none");
    *t = item->v.tensor;
    int64_t n = td_numel(t);
    if (n > max)
        return td_walk_refuse(walk, "%lld numbers stand where at most %d may", (long long)n, max);
    int err = walk->recorder && item->recorded ? walk->recorder->read(walk, item, t) : 0;
    return err ? err : (int)n;
}

int td_walk_ints(struct td_walk *walk, const struct td_item *item, int64_t *v, int max)
{
    const struct td_value *value = &item->v;
    if ((value->kind == TD_KIND_ints || value->kind == TD_KIND_bools) && value->ints.n <= max) {
        memcpy(v, value->ints.v, sizeof *v * (size_t)value->ints.n);
        return value->ints.n;
    }
    if ((value->kind == TD_KIND_int || value->kind == TD_KIND_bool) && max > 0) {
        *v = value->i;
        return 1;
    }
    struct td_tensor t;
    int n = count(walk, item, max, &t);
    if (n >= 0 && t.dtype & TD_FLOATS)
        return td_walk_refuse(walk, "whole numbers are wanted where it has %s",
                              td_dtype_name(t.dtype));
    for (int i = 0; i < n; i++)
        v[i] = td_get_whole(&t, i);
    return n;
}

int td_walk_floats(struct td_walk *walk, const struct td_item *item, double *v, int max)
{
    const struct td_value *value = &item->v;
    if (value->kind == TD_KIND_floats && value->floats.n <= max) {
        memcpy(v, value->floats.v, sizeof *v * (size_t)value->floats.n);
        return value->floats.n;
    }
    bool ints = value->kind == TD_KIND_ints || value->kind == TD_KIND_bools;
    if (ints && value->ints.n <= max) {
        for (int i = 0; i < value->ints.n; i++)
            v[i] = (double)value->ints.v[i];
        return value->ints.n;
    }
    if (td_is_number(value) && max > 0) {
        *v = td_scalar(value);
        return 1;
    }
    struct td_tensor t;
    int n = count(walk, item, max, &t);
    for (int i = 0; i < n; i++)
        v[i] = td_get_real(&t, i);
    return n;
}

/* ---- formulas ---- */

struct formula { /* a formula that is being computed */
    struct td_walk *walk;
    const struct td_graph *graph;
    const struct td_given *args;
    struct formula_value { /* by node of the formula */
        int n;             /* its results */
        struct td_item one, *several;
    } * value;
};

/* The item of an operand. Its index is checked here, because how many results a call has may depend
 * on sizes. */
static int of_operand(const struct formula *f, const struct td_operand *o, struct td_item *item)
{
    const struct formula_value *value = &f->value[o->node];
    if (o->result >= value->n)
        return td_walk_refuse(f->walk, "%s has %d results; [%d] is none of them",
                              f->graph->node[o->node].handle->full, value->n, o->result);
    *item = value->several ? value->several[o->result] : value->one;
    return 0;
}

static int compute(struct formula *f, int i)
{
    const struct td_graph_node *node = &f->graph->node[i];
    const struct td_operand *operand = &f->graph->operand[node->first];
    struct formula_value *value = &f->value[i];
    struct td_given given[TD_MAX_ARGS];
    struct td_item list[TD_MAX_LIST], result[TD_MAX_OUTS];
    int n, err = 0;
    value->n = 1;
    value->several = NULL;
    if (node->argument == TD_NODE_LIST) {
        for (int k = 0; k < node->n && !err; k++)
            err = of_operand(f, &operand[k], &list[k]);
        return err ? err : td_walk_list(f->walk, list, node->n, &value->one);
    }
    if (!node->handle) {
        value->one =
            node->value ? (struct td_item){.v = *node->value} : f->args[node->argument].item;
        return 0;
    }
    for (int k = 0; k < node->n && !err; k++) {
        given[k].name = operand[k].name;
        err = of_operand(f, &operand[k], &given[k].item);
    }
    const char *op = node->one ? node->handle->full : node->handle->schema.name;
    err = err ? err : td_walk_call(f->walk, op, given, node->n, result, &n);
    if (err)
        return err;
    value->n = n;
    value->one = result[0];
    if (n < 2)
        return 0;
    struct td_block *room = td_block_make(f->walk, sizeof *result * (size_t)n);
    if (!room)
        return td_walk_no_room(f->walk, "a formula");
    value->several = memcpy(room->data, result, sizeof *result * (size_t)n);
    return 0;
}

static int give(struct formula *f, struct td_item *result, int *n)
{
    const struct td_graph *g = f->graph;
    int made = 0, err = 0;
    for (int i = 0; i < g->n_results && made < (n ? TD_MAX_OUTS : 1) && !err; i++)
        if (!g->named || g->result[i].name[0] != '_')
            err = of_operand(f, &g->result[i].of, &result[made++]);
    if (n)
        *n = made;
    return err;
}

int td_walk_formula(struct td_walk *walk, const char *formula, const struct td_given *args,
                    int n_args, struct td_item *result, int *n)
{
    struct td_named named[TD_FORMULA_ARGS];
    struct td_graph_use use;
    if (n_args > (int)(sizeof named / sizeof *named))
        return td_walk_refuse(walk, "has too many operands for its formula");
    for (int i = 0; i < n_args; i++)
        named[i] = (struct td_named){.name = args[i].name, .value = args[i].item.v};
    int err = td_graph_read(&use, formula, named, n_args, "formula", walk->problem);
    if (err)
        return err;
    struct formula f = {.walk = walk, .graph = use.graph, .args = args};
    struct td_block *room = td_block_make(walk, sizeof *f.value * (size_t)use.graph->n_nodes);
    if (!room)
        err = td_walk_no_room(walk, "a formula");
    f.value = room ? (void *)room->data : NULL;
    for (int i = 0; !err && i < use.graph->n_nodes; i++)
        err = compute(&f, i);
    err = err ? err : give(&f, result, n);
    td_graph_release(&use);
    return err;
}

/* ---- items made of numbers ---- */

static int make_tensor(struct td_walk *walk, enum td_dtype dtype, int n, struct td_item *result)
{
    struct td_tensor t = {.dtype = dtype, .rank = n >= 0, .shape = {n}};
    struct td_block *block = td_block_make(walk, td_nbytes(&t));
    if (!block)
        return td_walk_no_room(walk, "a tensor");
    t.data = block->data;
    *result = (struct td_item){
        .v = {.kind = TD_KIND_tensor, .tensor = t}, .block = block, .varies = walk->varies};
    return 0;
}

int td_walk_tensor_i64(struct td_walk *walk, const int64_t *v, int n, struct td_item *result)
{
    int err = make_tensor(walk, TD_i64, n, result);
    if (!err)
        memcpy(result->v.tensor.data, v, sizeof *v * (size_t)(n < 0 ? 1 : n));
    return err;
}

int td_walk_tensor(struct td_walk *walk, enum td_dtype dtype, const double *v, int n,
                   struct td_item *result)
{
    struct td_item wide;
    int err = make_tensor(walk, TD_f64, n, &wide);
    if (err)
        return err;
    memcpy(wide.v.tensor.data, v, sizeof *v * (size_t)(n < 0 ? 1 : n));
    if (dtype == TD_f64) {
        *result = wide;
        return 0;
    }
    return TD_CALL(walk, "cast", result, TD_GIVE(wide), TD_GIVE(td_item_dtype(dtype)));
}

struct td_item td_item_reshaped(const struct td_item *item, const int64_t *shape, int rank)
{
    struct td_item other = *item;
    other.v.tensor.rank = rank;
    memcpy(other.v.tensor.shape, shape, sizeof *shape * (size_t)rank);
    return other;
}

struct td_item td_item_ints(const int64_t *v, int n)
{
    struct td_item item = {.v = {.kind = TD_KIND_ints}};
    item.v.ints.n = n;
    memcpy(item.v.ints.v, v, sizeof *v * (size_t)n);
    return item;
}

/* ---- turns of a loop ---- */

void td_walk_turn(struct td_walk *walk, struct td_turns *turns, struct td_item *state, int n)
{
    turns->apart |= turns->reads && turns->reads != walk->at + 1;
    turns->reads = walk->at + 1;
    for (int i = 0; i < n; i++)
        state[i].varies &= turns->apart;
}

void td_walk_hand_on(struct td_item *state, const struct td_item *next, int n)
{
    for (int i = 0; i < n; i++) {
        bool same = next[i].v.kind == TD_KIND_tensor && state[i].v.kind == TD_KIND_tensor &&
                    next[i].v.tensor.data == state[i].v.tensor.data; /* both are still held */
        bool varies = state[i].varies || !same;
        state[i] = next[i];
        state[i].varies = varies;
    }
}
