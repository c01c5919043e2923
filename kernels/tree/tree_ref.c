/* tree_ensemble, reference: tree after tree, step after step. */
#include "kernels/elementwise.h"
#include "kernels/tree/tree.h"

#include <math.h>

static int32_t leaf_of(const struct td_trees *t, const struct td_tree *tree, int64_t row)
{
    int32_t node = tree->root;
    for (int32_t i = 0; i < tree->steps; i++) {
        struct td_tree_link link = t->link[node];
        double x = td_get_real(t->x, row * t->features + link.feature);
        int32_t child = link.child < 0 ? -1 - link.child : link.child;
        bool first = isnan(x) ? link.child < 0 : x <= td_get_real(t->threshold, node);
        node = first ? child : child + 1;
    }
    return node;
}

td_kernel td_tree_ref;
void td_tree_ref(const struct td_call *call)
{
    struct td_trees t = td_trees_of(call);
    for (int64_t row = 0; row < t.rows && !td_stopped(); row++)
        for (int64_t k = 0; k < t.outputs; k++) {
            double sum = 0;
            for (int64_t i = 0; i < t.count; i++) {
                int64_t own = k - t.tree[i].output;
                if (own >= 0 && own < t.width)
                    sum += td_get_real(t.value, leaf_of(&t, &t.tree[i], row) * t.width + own);
            }
            td_put_real(t.out, row * t.outputs + k, sum);
        }
}
