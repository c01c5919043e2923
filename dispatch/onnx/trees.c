/* The trees of ai.onnx.ml's ensembles become tree_ensemble's tables when a file is read: attributes
 * that name each node's children by number become nodes that lie breadth-first, a pair of children
 * side by side, all with one comparison, x <= threshold. A node may be the child of several, as
 * LightGBM's sets of categories are written: each place of it but the first has the same children.
 */
#include "dispatch/onnx/trees.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* What is known of an ensemble while its tables are laid out. */
struct layout {
    struct td_onnx_reader *r;
    const struct td_onnx_forest *forest;
    struct place { /* where a node, or the second half of one that asks for equality, will lie */
        int64_t node;
        int half;     /* 1: the second half */
        int64_t like; /* place of the node that this repeats, or -1 */
    } * place;
    int64_t *laid; /* 1 + each inner node's first place; 0: not yet */
    int64_t n, room;
    float *threshold, *value;
    int32_t *link;
    int64_t width;
};

/* ---- places ---- */

static int64_t put_place(struct layout *l, int64_t node, int half, int64_t like)
{
    l->place[l->n] = (struct place){node, half, like};
    return l->n++;
}

static float below(double threshold) /* x < threshold is x <= this */
{
    return threshold == -INFINITY ? NAN : nextafterf((float)threshold, -INFINITY);
}

static void put_node(struct layout *l, int64_t at, float threshold, int64_t feature, int64_t child,
                     bool nan_first)
{
    l->threshold[at] = threshold;
    l->link[2 * at] = (int32_t)feature;
    l->link[2 * at + 1] = (int32_t)(nan_first ? -1 - child : child);
}

static void put_leaf(struct layout *l, int64_t at, int64_t node)
{
    const struct td_onnx_forest *f = l->forest;
    put_node(l, at, INFINITY, 0, at, true);
    for (int64_t i = f->first[node]; i < f->first[node + 1]; i++) {
        int64_t target = l->width == 1 ? 0 : f->weight[i].target;
        l->value[at * l->width + target] += (float)f->weight[i].value;
    }
}

/* A node that asks for equality is two: x <= threshold, and of those x < threshold. */
static void lay_equal(struct layout *l, int64_t at, const struct td_onnx_tree_node *node)
{
    struct place p = l->place[at];
    bool equal = node->mode == TD_ONNX_TREE_eq;
    int64_t other = equal ? node->when_false : node->when_true;
    int64_t same = equal ? node->when_true : node->when_false;
    if (p.half) { /* its first child is the second one of the first half, which lies behind it */
        int64_t child = put_place(l, other, 0, at + 1);
        put_place(l, same, 0, -1);
        put_node(l, at, below(node->threshold), node->feature, child, false);
        return;
    }
    int64_t child = put_place(l, p.node, 1, -1);
    put_place(l, other, 0, -1);
    put_node(l, at, (float)node->threshold, node->feature, child, equal && node->nan_true);
}

static bool is_equal(const struct td_onnx_tree_node *node) /* such a node is two */
{
    return node->mode == TD_ONNX_TREE_eq || node->mode == TD_ONNX_TREE_neq;
}

static void lay_node(struct layout *l, int64_t at)
{
    struct place p = l->place[at];
    const struct td_onnx_tree_node *node = &l->forest->node[p.node];
    if (node->mode != TD_ONNX_TREE_leaf && !p.half && p.like < 0) {
        p.like = l->laid[p.node] - 1;
        l->laid[p.node] = p.like < 0 ? at + 1 : l->laid[p.node];
    }
    if (node->mode == TD_ONNX_TREE_leaf) {
        put_leaf(l, at, p.node);
    } else if (p.like >= 0) {
        memcpy(&l->link[2 * at], &l->link[2 * p.like], 2 * sizeof *l->link);
        l->threshold[at] = l->threshold[p.like];
    } else if (is_equal(node)) {
        lay_equal(l, at, node);
    } else {
        bool strict = node->mode == TD_ONNX_TREE_lt || node->mode == TD_ONNX_TREE_gte;
        bool swaps = node->mode == TD_ONNX_TREE_gt || node->mode == TD_ONNX_TREE_gte;
        int64_t first = swaps ? node->when_false : node->when_true;
        int64_t child = put_place(l, first, 0, -1);
        put_place(l, swaps ? node->when_true : node->when_false, 0, -1);
        put_node(l, at, strict ? below(node->threshold) : (float)node->threshold, node->feature,
                 child, node->nan_true != swaps);
    }
}

/* ---- tables ---- */

/* The one output that all leaves of each tree add to: else all have room for all. */
static bool find_outputs(const struct td_onnx_forest *f, const int64_t *tree_of, int32_t *output)
{
    for (int64_t i = 0; i < f->roots; i++)
        output[i] = -1;
    for (int64_t n = 0; n < f->n; n++)
        for (int64_t i = f->first[n]; i < f->first[n + 1]; i++) {
            int32_t *own = &output[tree_of[n]];
            if (*own >= 0 && *own != f->weight[i].target)
                return false;
            *own = (int32_t)f->weight[i].target;
        }
    return true;
}

struct walk {       /* of each node, but the queue and steps */
    int64_t *tree;  /* which it is of; -1: none yet */
    int64_t *into;  /* nodes it is a child of that have not been walked */
    int64_t *depth; /* the most steps from the root; one that asks for equality takes two */
    int64_t *queue;
    int32_t *steps; /* of each tree: to its deepest leaf */
    int32_t *output;
};

static int walk_child(struct td_onnx_reader *r, struct walk *w, int64_t tree, int64_t child,
                      int64_t depth, int64_t *end)
{
    if (w->tree[child] >= 0 && w->tree[child] != tree)
        return td_onnx_wrong(r, "a node of its trees is of two trees");
    w->tree[child] = tree;
    w->depth[child] = depth > w->depth[child] ? depth : w->depth[child];
    if (!--w->into[child])
        w->queue[(*end)++] = child;
    return 0;
}

/* From a root on, each node behind all that it is a child of. How many there are, or -EINVAL. */
static int64_t walk_tree(struct td_onnx_reader *r, const struct td_onnx_forest *f, struct walk *w,
                         int64_t tree)
{
    int64_t begin = 0, end = 0, root = f->root[tree];
    if (w->tree[root] >= 0 || w->into[root])
        return td_onnx_wrong(r, "a root of its trees is a node of another");
    w->tree[root] = tree;
    w->queue[end++] = root;
    while (begin < end) {
        int64_t at = w->queue[begin++];
        const struct td_onnx_tree_node *node = &f->node[at];
        int64_t depth = w->depth[at] + (is_equal(node) ? 2 : 1);
        if (node->mode == TD_ONNX_TREE_leaf) {
            w->steps[tree] = w->depth[at] > w->steps[tree] ? (int32_t)w->depth[at] : w->steps[tree];
            continue;
        }
        int err = walk_child(r, w, tree, node->when_true, depth, &end);
        err = err ? err : walk_child(r, w, tree, node->when_false, depth, &end);
        if (err)
            return err;
    }
    return end;
}

/* Which tree each node is of, and how deep they are. -EINVAL where a node is of none, or goes
 * round. */
static int walk_trees(struct td_onnx_reader *r, const struct td_onnx_forest *f, struct walk *w)
{
    int64_t seen = 0;
    for (int64_t i = 0; i < f->n; i++) {
        const struct td_onnx_tree_node *node = &f->node[i];
        w->tree[i] = -1;
        w->into[node->when_true] += node->mode != TD_ONNX_TREE_leaf;
        w->into[node->when_false] += node->mode != TD_ONNX_TREE_leaf;
    }
    for (int64_t i = 0; i < f->roots; i++) {
        int64_t n = walk_tree(r, f, w, i);
        if (n < 0)
            return (int)n;
        seen += n;
    }
    return seen == f->n ? 0
                        : td_onnx_wrong(r, "a node of its trees goes round, or no root reaches it");
}

static int put_constant(struct td_onnx_reader *r, struct td_node *node, const char *name,
                        const struct td_tensor *t)
{
    struct td_node_operand *o = &((struct td_node_operand *)node->operand)[node->n_operands++];
    *o = (struct td_node_operand){.name = name, .kind = TD_OPERAND_value};
    o->value = td_program_value(r->model);
    int err = td_program_constant(r->model, o->value, t);
    return err == -ENOMEM ? td_onnx_no_memory(r) : err;
}

static void put_number(struct td_node *node, const char *name, int64_t i)
{
    struct td_node_operand *o = &((struct td_node_operand *)node->operand)[node->n_operands++];
    *o = (struct td_node_operand){.name = name, .kind = TD_OPERAND_constant};
    o->constant = (struct td_value){.kind = TD_KIND_int, .i = i};
}

static int put_tables(struct layout *l, struct td_node *node, int32_t *trees)
{
    int64_t n = l->n + 1; /* the last child of all has one behind it */
    struct td_tensor threshold = {l->threshold, TD_f32, 1, {n}, NULL, NULL};
    struct td_tensor links = {l->link, TD_i32, 2, {n, 2}, NULL, NULL};
    struct td_tensor table = {trees, TD_i32, 2, {l->forest->roots, 3}, NULL, NULL};
    struct td_tensor values = {l->value, TD_f32, 2, {n, l->width}, NULL, NULL};
    int err = put_constant(l->r, node, "thresholds", &threshold);
    put_number(node, "outputs", l->forest->outputs);
    put_number(node, "one_score", l->forest->one_score);
    err = err ? err : put_constant(l->r, node, "links", &links);
    err = err ? err : put_constant(l->r, node, "trees", &table);
    return err ? err : put_constant(l->r, node, "values", &values);
}

/* A root each, two children of each inner node, or four; the last child has one behind it. */
static int64_t count_places(const struct td_onnx_forest *f)
{
    int64_t n = f->roots + 1;
    for (int64_t i = 0; i < f->n; i++) {
        const struct td_onnx_tree_node *node = &f->node[i];
        n += node->mode == TD_ONNX_TREE_leaf ? 0 : is_equal(node) ? 4 : 2;
    }
    return n;
}

static int lay_out(struct layout *l, struct td_node *node, const struct walk *w, bool one)
{
    const struct td_onnx_forest *f = l->forest;
    l->width = one ? 1 : f->outputs;
    l->room = count_places(f);
    if (l->width > 1 && l->room > (64 * f->first[f->n] + 65536) / l->width)
        return td_onnx_wrong(l->r, "leaves of so few of %lld outputs are not right here",
                             (long long)l->width);
    int32_t *trees = td_onnx_take(3 * f->roots, sizeof *trees);
    l->place = td_onnx_take(l->room, sizeof *l->place);
    l->laid = td_onnx_take(f->n, sizeof *l->laid);
    l->threshold = td_onnx_take(l->room, sizeof *l->threshold);
    l->link = td_onnx_take(2 * l->room, sizeof *l->link);
    l->value = td_onnx_take(l->room * l->width, sizeof *l->value);
    bool all = trees && l->place && l->laid && l->threshold && l->link && l->value;
    int err = all ? 0 : td_onnx_no_memory(l->r);
    for (int64_t i = 0; i < f->roots && !err; i++) {
        trees[3 * i] = (int32_t)l->n;
        trees[3 * i + 1] = w->steps[i];
        trees[3 * i + 2] = one && w->output[i] > 0 ? w->output[i] : 0;
        for (int64_t at = put_place(l, f->root[i], 0, -1); at < l->n; at++)
            lay_node(l, at);
    }
    err = err ? err : put_tables(l, node, trees);
    td_onnx_give_back(trees);
    td_onnx_give_back(l->place);
    td_onnx_give_back(l->laid);
    td_onnx_give_back(l->threshold);
    td_onnx_give_back(l->link);
    td_onnx_give_back(l->value);
    return err;
}

int td_onnx_put_forest(struct td_onnx_reader *r, const struct td_onnx_forest *forest,
                       struct td_node *node)
{
    struct layout l = {.r = r, .forest = forest};
    struct walk w = {.tree = td_onnx_take(forest->n, sizeof *w.tree),
                     .into = td_onnx_take(forest->n, sizeof *w.into),
                     .depth = td_onnx_take(forest->n, sizeof *w.depth),
                     .queue = td_onnx_take(forest->n, sizeof *w.queue),
                     .steps = td_onnx_take(forest->roots, sizeof *w.steps),
                     .output = td_onnx_take(forest->roots, sizeof *w.output)};
    bool all = w.tree && w.into && w.depth && w.queue && w.steps && w.output;
    int err = all ? walk_trees(r, forest, &w) : td_onnx_no_memory(r);
    if (!err)
        err = lay_out(&l, node, &w, find_outputs(forest, w.tree, w.output));
    td_onnx_give_back(w.tree);
    td_onnx_give_back(w.into);
    td_onnx_give_back(w.depth);
    td_onnx_give_back(w.queue);
    td_onnx_give_back(w.steps);
    td_onnx_give_back(w.output);
    return err;
}
