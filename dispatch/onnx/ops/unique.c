/* ONNX's Unique: by sorting, and by where a row differs from the one before it. */
#include "dispatch/onnx/ops/onnx.h"

/* Names rows, a matrix: its rows are told apart. False where there are none. */
static bool let_rows(struct td_onnx *n)
{
    bool parts = has(n, "axis");
    struct td_tensor x = *tensor_of(n, "X");
    int axis = parts ? axis_of(n, "axis", x.rank) : 0;
    int64_t all = td_numel(&x), count = parts ? x.shape[axis] : all;
    let_int(n, "along", axis);
    if (!all)
        refuse(n, "X: has no elements");
    if (n->err)
        return false;
    set(n, "from", parts ? "alias(X)" : "view(X, [-1])");
    set(n, "rows", "movedim.int(from, along, 0)");
    let_ints(n, "sizes", (const int64_t[]){count, all / count}, 2);
    set(n, "rows", "reshape(rows, sizes)");
    let_int(n, "count", count);
    return true;
}

/* Names order, the rows' places by their first number, then their second and so on; those alike
 * stay as they were. */
static void let_order(struct td_onnx *n, int64_t columns)
{
    set(n, "order", "arange(count)");
    for (int64_t c = columns - 1; c >= 0 && !n->err; c--) {
        let_int(n, "column", c);
        set(n, "key", "index_select(select.int(rows, 1, column), 0, order)");
        set(n, "order", "index_select(order, 0, argsort.stable(key, stable=True))");
    }
}

void td_onnx_unique(struct td_onnx *n)
{
    if (!let_rows(n))
        return;
    let_order(n, tensor_of(n, "rows")->shape[1]);
    set(n, "rows", "index_select(rows, 0, order)");
    set(n, "later", "slice.Tensor(rows, 0, 1)");
    set(n, "earlier", "slice.Tensor(rows, 0, 0, -1)");
    struct td_item differs[2] = {eval(n, "ones([1], dtype=BOOL)"),
                                 eval(n, "any.dim(ne.Tensor(later, earlier), 1)")};
    int64_t dim = 0;
    let(n, "begins", call_list(n, "cat", differs, 2, &dim));
    set(n, "first", "masked_select(order, begins)");
    set(n, "group", "sub.Scalar(cumsum(begins, 0), 1)");
    set(n, "counts", "scatter_add(zeros_like(first), 0, group, ones_like(order))");
    set(n, "inverse", "scatter.src(order, 0, order, group)");
    if (!whole(n, "sorted", 1)) { /* as they come */
        set(n, "turn", "argsort.stable(first, stable=True)");
        set(n, "first", "index_select(first, 0, turn)");
        set(n, "counts", "index_select(counts, 0, turn)");
        set(n, "inverse", "index_select(argsort.stable(turn, stable=True), 0, inverse)");
    }
    put(n, 0, eval(n, "index_select(from, along, first)"));
    put(n, 1, *at(n, "first"));
    put(n, 2, *at(n, "inverse"));
    put(n, 3, *at(n, "counts"));
}
