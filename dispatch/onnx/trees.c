/* The trees of ai.onnx.ml's ensembles become tree_ensemble's tables when a file is read: attributes
 * that name each node's children by number become nodes that lie breadth-first, a pair of children
 * side by side, all with one comparison, x <= threshold. */
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
        int half;      /* 1: the second half */
        int64_t like;  /* place of the node that this repeats, or -1 */
        int32_t depth; /* steps from the root */
    } * place;
    int64_t n, room;
    float *threshold, *value;
    int32_t *link;
    int64_t width;
};

/* ---- places ---- */

static int64_t put_place(struct layout *l, int64_t node, int half, int64_t like, int32_t depth)
{
    l->place[l->n] = (struct place){node, half, like, depth};
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
        int64_t child = put_place(l, other, 0, at + 1, p.depth + 1);
        put_place(l, same, 0, -1, p.depth + 1);
        put_node(l, at, below(node->threshold), node->feature, child, false);
        return;
    }
    int64_t child = put_place(l, p.node, 1, -1, p.depth + 1);
    put_place(l, other, 0, -1, p.depth + 2);
    put_node(l, at, (float)node->threshold, node->feature, child, equal && node->nan_true);
}

static void lay_node(struct layout *l, int64_t at)
{
    struct place p = l->place[at];
    const struct td_onnx_tree_node *node = &l->forest->node[p.node];
    if (node->mode == TD_ONNX_TREE_leaf) {
        put_leaf(l, at, p.node);
    } else if (p.like >= 0) {
        memcpy(&l->link[2 * at], &l->link[2 * p.like], 2 * sizeof *l->link);
        l->threshold[at] = l->threshold[p.like];
    } else if (node->mode == TD_ONNX_TREE_eq || node->mode == TD_ONNX_TREE_neq) {
        lay_equal(l, at, node);
    } else {
        bool strict = node->mode == TD_ONNX_TREE_lt || node->mode == TD_ONNX_TREE_gte;
        bool swaps = node->mode == TD_ONNX_TREE_gt || node->mode == TD_ONNX_TREE_gte;
        int64_t first = swaps ? node->when_false : node->when_true;
        int64_t child = put_place(l, first, 0, -1, p.depth + 1);
        put_place(l, swaps ? node->when_true : node->when_false, 0, -1, p.depth + 1);
        put_node(l, at, strict ? below(node->threshold) : (float)node->threshold, node->feature,
                 child, node->nan_true != swaps);
    }
}

/* From a root on, breadth first; gives the steps that reach its deepest leaf. */
static int32_t lay_tree(struct layout *l, int64_t root)
{
    int32_t steps = 0;
    for (int64_t at = put_place(l, root, 0, -1, 0); at < l->n; at++) {
        lay_node(l, at);
        steps = l->place[at].depth > steps ? l->place[at].depth : steps;
    }
    return steps;
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

/* Which tree each node is of. -EINVAL where a node is of none, or goes round. */
static int find_trees(struct td_onnx_reader *r, const struct td_onnx_forest *f, int64_t *tree_of,
                      int64_t *queue)
{
    int64_t seen = 0;
    for (int64_t i = 0; i < f->n; i++)
        tree_of[i] = -1;
    for (int64_t i = 0; i < f->roots; i++) {
        int64_t begin = 0, end = 0;
        queue[end++] = f->root[i];
        while (begin < end) {
            int64_t at = queue[begin++];
            const struct td_onnx_tree_node *node = &f->node[at];
            if (tree_of[at] >= 0)
                return td_onnx_wrong(r, "a node of its trees is reached by two ways");
            tree_of[at] = i;
            seen++;
            if (node->mode == TD_ONNX_TREE_leaf)
                continue;
            queue[end++] = node->when_true;
            if (node->when_false != node->when_true)
                queue[end++] = node->when_false;
            if (end > f->n)
                return td_onnx_wrong(r, "a node of its trees is reached by two ways");
        }
    }
    return seen == f->n ? 0 : td_onnx_wrong(r, "a node of its trees is reached from no root");
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
        enum td_onnx_tree_mode mode = f->node[i].mode;
        bool equal = mode == TD_ONNX_TREE_eq || mode == TD_ONNX_TREE_neq;
        n += mode == TD_ONNX_TREE_leaf ? 0 : equal ? 4 : 2;
    }
    return n;
}

static int lay_out(struct layout *l, struct td_node *node, int32_t *output, bool one)
{
    const struct td_onnx_forest *f = l->forest;
    l->width = one ? 1 : f->outputs;
    l->room = count_places(f);
    if (l->width > 1 && l->room > (64 * f->first[f->n] + 65536) / l->width)
        return td_onnx_wrong(l->r, "leaves of so few of %lld outputs are not right here",
                             (long long)l->width);
    int32_t *trees = td_onnx_take(3 * f->roots, sizeof *trees);
    l->place = td_onnx_take(l->room, sizeof *l->place);
    l->threshold = td_onnx_take(l->room, sizeof *l->threshold);
    l->link = td_onnx_take(2 * l->room, sizeof *l->link);
    l->value = td_onnx_take(l->room * l->width, sizeof *l->value);
    int err =
        trees && l->place && l->threshold && l->link && l->value ? 0 : td_onnx_no_memory(l->r);
    for (int64_t i = 0; i < f->roots && !err; i++) {
        trees[3 * i] = (int32_t)l->n;
        trees[3 * i + 2] = one && output[i] > 0 ? output[i] : 0;
        trees[3 * i + 1] = lay_tree(l, f->root[i]);
    }
    err = err ? err : put_tables(l, node, trees);
    td_onnx_give_back(trees);
    td_onnx_give_back(l->place);
    td_onnx_give_back(l->threshold);
    td_onnx_give_back(l->link);
    td_onnx_give_back(l->value);
    return err;
}

int td_onnx_put_forest(struct td_onnx_reader *r, const struct td_onnx_forest *forest,
                       struct td_node *node)
{
    struct layout l = {.r = r, .forest = forest};
    int64_t *tree_of = td_onnx_take(forest->n, sizeof *tree_of);
    int64_t *queue = td_onnx_take(forest->n + 2, sizeof *queue);
    int32_t *output = td_onnx_take(forest->roots, sizeof *output);
    int err =
        tree_of && queue && output ? find_trees(r, forest, tree_of, queue) : td_onnx_no_memory(r);
    if (!err)
        err = lay_out(&l, node, output, find_outputs(forest, tree_of, output));
    td_onnx_give_back(tree_of);
    td_onnx_give_back(queue);
    td_onnx_give_back(output);
    return err;
}
