/* The trees of ai.onnx.ml's ensembles, as a file has them. Internal to dispatch/onnx/. */
#ifndef TD_DISPATCH_ONNX_TREES_H
#define TD_DISPATCH_ONNX_TREES_H

#include "dispatch/onnx/file.h"

enum td_onnx_tree_mode { /* as TreeEnsemble numbers them; the last is ours */
                         TD_ONNX_TREE_leq,
                         TD_ONNX_TREE_lt,
                         TD_ONNX_TREE_gte,
                         TD_ONNX_TREE_gt,
                         TD_ONNX_TREE_eq,
                         TD_ONNX_TREE_neq,
                         TD_ONNX_TREE_leaf
};

/* Nodes of all trees; for td_onnx_free_forest. */
struct td_onnx_forest {
    int64_t n, roots, outputs;
    int64_t *root; /* nodes */
    struct td_onnx_tree_node {
        enum td_onnx_tree_mode mode;
        bool nan_true;
        int64_t feature, when_true, when_false; /* numbers of nodes */
        double threshold;
    } * node;
    int64_t *first; /* n + 1: each node's first weight */
    struct td_onnx_tree_weight {
        int64_t target;
        double value;
    } * weight;
    int one_score; /* two classes share one score: 1, of weights that are not negative, or 2 */
};

/* Whether an attribute of such a node is part of its trees' tables. */
bool td_onnx_is_tree_table(const char *name);
/* Reads the attributes of a node whose op begins with TreeEnsemble. -EINVAL, -ENOMEM. */
int td_onnx_read_forest(struct td_onnx_reader *r, const TdOnnx__Node *from,
                        struct td_onnx_forest *forest);
void td_onnx_free_forest(struct td_onnx_forest *forest);

/* Room for n of each bytes and one more, zeroed and counted, for td_onnx_give_back; NULL: there is
 * none. */
void *td_onnx_take(int64_t n, size_t each);
void td_onnx_give_back(void *room); /* NULL is fine */

/* ---- trees.c ---- */

/* Gives a node the operands thresholds, links, trees and values (kernels/tree/tree.c), outputs and
 * one_score; it has room for TD_ONNX_TREE_OPERANDS more. -EINVAL, -ENOMEM. */
#define TD_ONNX_TREE_OPERANDS 6
int td_onnx_put_forest(struct td_onnx_reader *r, const struct td_onnx_forest *forest,
                       struct td_node *node);

#endif
