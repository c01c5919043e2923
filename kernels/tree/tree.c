/* tree_ensemble: decision trees, walked for each row, and what their leaves say added up. It is
 * what ONNX's tree ensembles are made of; any tables may be given, and no walk leaves them. */
#include "kernels/tree/tree.h"

#include "kernels/backward.h"
#include "kernels/weight.h"

#include <errno.h>
#include <math.h>

enum { SELF, THRESHOLDS, LINKS, TREES, VALUES, OUTPUTS };

struct td_trees td_trees_of(const struct td_call *call)
{
    const struct td_tensor *x = td_arg(call, SELF), *trees = td_arg(call, TREES);
    return (struct td_trees){.x = x,
                             .threshold = td_arg(call, THRESHOLDS),
                             .link = td_arg(call, LINKS)->data,
                             .tree = trees->data,
                             .value = td_arg(call, VALUES),
                             .out = &call->out[0],
                             .rows = x->shape[0],
                             .features = x->shape[1],
                             .count = trees->shape[0],
                             .width = td_arg(call, VALUES)->shape[1],
                             .outputs = call->arg[OUTPUTS].i};
}

/* A table with as many rows and columns, -1 for any, of the type, or of self's. */
static int rule_table(struct td_call *call, int i, const char *name, enum td_dtype type,
                      const char *what, int64_t rows, int64_t columns)
{
    const struct td_tensor *t = td_arg(call, i);
    int rank = columns ? 2 : 1;
    bool fits = t->rank == rank && (rows < 0 || t->shape[0] == rows) &&
                (columns <= 0 || t->shape[1] == columns);
    if (type && t->dtype != type)
        return td_refuse(call, "%s: is %s; %s is right", name, td_dtype_name(t->dtype),
                         td_dtype_name(type));
    int err = type ? 0 : td_rule_type(call, i, name);
    return err || fits ? err : td_refuse(call, "%s: has another shape than %s", name, what);
}

static int rule(struct td_call *call)
{
    const struct td_tensor *x = td_arg(call, SELF);
    int64_t nodes = td_arg(call, THRESHOLDS)->rank ? td_arg(call, THRESHOLDS)->shape[0] : 0;
    int64_t outputs = call->arg[OUTPUTS].i;
    if (x->rank != 2)
        return td_refuse(call, "self: has %d dimensions; two are right, rows and their features",
                         x->rank);
    if (outputs < 1)
        return td_refuse(call, "targets: is %lld; 1 and up is right", (long long)outputs);
    int err = rule_table(call, THRESHOLDS, "thresholds", TD_DTYPE_none, "[nodes]", -1, 0);
    err = err ? err
              : rule_table(call, LINKS, "links", TD_i32,
                           "[nodes, 2], a feature and a child of each", nodes, 2);
    err = err ? err
              : rule_table(call, TREES, "trees", TD_i32,
                           "[trees, 3], each one's root, steps and first target", -1, 3);
    err = err ? err
              : rule_table(call, VALUES, "values", TD_DTYPE_none, "[nodes, numbers of each]", nodes,
                           -1);
    if (err)
        return err;
    call->out[0] =
        (struct td_tensor){.dtype = x->dtype, .rank = 2, .shape = {x->shape[0], outputs}};
    call->n_out = 1;
    return 0;
}

/* ---- what tables say ---- */

struct reach { /* of the links: -1 where there are none */
    int64_t least, feature, child;
};

static void reach_of(const struct td_tensor *links, struct reach *reach)
{
    const struct td_tree_link *link = links->data;
    *reach = (struct reach){0, -1, -1};
    for (int64_t i = 0; i < links->shape[0]; i++) {
        int64_t child = link[i].child < 0 ? -1 - link[i].child : link[i].child;
        reach->least = link[i].feature < reach->least ? link[i].feature : reach->least;
        reach->feature = link[i].feature > reach->feature ? link[i].feature : reach->feature;
        reach->child = child > reach->child ? child : reach->child;
    }
}

static int fill_reach(void *packed, const struct td_tensor *plain, void *arg)
{
    (void)arg;
    reach_of(plain, packed);
    return 0;
}

/* Of links that are a constant it is found once. */
static struct reach find_reach(const struct td_tensor *links)
{
    static const char key[] = "tree_ensemble";
    struct td_weight *weight = td_weight_of(links);
    const struct reach *kept = weight
                                   ? td_weight_pack(weight, key, sizeof key, "tree_ensemble reach",
                                                    sizeof *kept, fill_reach, NULL, NULL)
                                   : NULL;
    struct reach own;
    if (kept)
        return *kept;
    reach_of(links, &own);
    return own;
}

static int check(const struct td_call *call)
{
    struct td_trees t = td_trees_of(call);
    int64_t nodes = td_arg(call, LINKS)->shape[0];
    struct reach reach = find_reach(td_arg(call, LINKS));
    if (reach.least < 0 || reach.feature >= t.features)
        return td_refuse(call, "links: feature %lld; from 0 to self's %lld is right",
                         (long long)(reach.least < 0 ? reach.least : reach.feature),
                         (long long)t.features - 1);
    if (reach.child >= nodes - 1 && nodes)
        return td_refuse(call, "links: child %lld; up to the last node but one, %lld, is right",
                         (long long)reach.child, (long long)nodes - 2);
    for (int64_t i = 0; i < t.count; i++) {
        const struct td_tree *tree = &t.tree[i];
        if (tree->root < 0 || tree->root >= nodes)
            return td_refuse(call,
                             "trees: the root of tree %lld is %d; a node, from 0 to %lld, is "
                             "right",
                             (long long)i, tree->root, (long long)nodes - 1);
        if (tree->steps < 0 || tree->steps > nodes)
            return td_refuse(call,
                             "trees: tree %lld has %d steps; 0 to as many as nodes, %lld, is "
                             "right",
                             (long long)i, tree->steps, (long long)nodes);
        if (tree->output < 0 || tree->output > t.outputs - t.width)
            return td_refuse(call,
                             "trees: tree %lld begins at target %d; its %lld must lie within "
                             "%lld",
                             (long long)i, tree->output, (long long)t.width, (long long)t.outputs);
    }
    return 0;
}

static double flops(const struct td_call *call)
{
    const struct td_tensor *trees = td_arg(call, TREES);
    double nodes = (double)td_arg(call, LINKS)->shape[0], n = (double)trees->shape[0];
    return (double)call->out[0].shape[0] * n * 4 * (1 + log2(1 + nodes / (n + 1)));
}

td_kernel td_tree_ref, td_tree_default;

static const struct td_impl impls[] = {
    TD_SIMD(default, tree, TD_f32 | TD_f64) TD_REF(tree),
    {0},
};

const struct td_op td_op_tree_ensemble = {
    .schema = "tree_ensemble(Tensor self, Tensor thresholds, Tensor links, Tensor trees, Tensor "
              "values, int targets) -> Tensor",
    .doc =
        "ONNX's tree ensembles: for each row and each (root, steps, first) of trees, node = root, "
        "and steps times node = child where self[row, feature] <= thresholds[node], else child + "
        "1, by (feature, child) = links[node]; NaN goes to child + 1, but to c where child is "
        "written -1 - c; values[node] is added to the row's targets from first on",
    .rule = rule,
    .dtypes = TD_f32 | TD_f64,
    .int32 = 1 << LINKS | 1 << TREES,
    .ulp = 1,
    .impls = impls,
    .flops = flops,
    .follows = 1 << LINKS | 1 << TREES,
    .check = check,
    .mixes = TD_MAX_RANK,
    .samples =
        (const char *const[]){
            "self=[n,5] thresholds=[9] links=[9,2]:i32<5 trees=[m,3]:i32<1 values=[9,1] targets=2",
            "self=[n,6] thresholds=[7] links=[7,2]:i32<6 trees=[m,3]:i32<2 values=[7,3] targets=5",
            "self=[3,m] thresholds=[n] links=[n,2]:i32<1 trees=[9,3]:i32<1 values=[n,2] targets=2",
            NULL},
};
