/* What the files of tree_ensemble share: the tables of its trees. */
#ifndef TD_KERNELS_TREE_H
#define TD_KERNELS_TREE_H

#include "kernels/kernels.h"

struct td_trees {
    const struct td_tensor *x;         /* [rows, features] */
    const struct td_tensor *threshold; /* of each node, in x's type */
    const struct td_tree_link {
        int32_t feature, child; /* a child -1 - c is c, and takes NaN */
    } * link;
    const struct td_tree {
        int32_t root, steps, output;
    } * tree;
    const struct td_tensor *value; /* width of each node, in x's type */
    const struct td_tensor *out;
    int64_t rows, features, count, width, outputs; /* count: of trees */
};

struct td_trees td_trees_of(const struct td_call *call);

#endif
