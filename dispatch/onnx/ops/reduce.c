/* ONNX's operators that go along dimensions: reductions, running sums, softmax and its kin, and the
 * losses that are taken of these. */
#include "dispatch/onnx/ops/onnx.h"

#include <math.h>
#include <string.h>

/* ---- reductions ---- */

/* Names the dimensions axes, each once, from 0. False: the tensor stays as it is. */
static bool reduces(struct td_onnx *n)
{
    int64_t axes[TD_MAX_RANK], all[TD_MAX_RANK];
    int rank = tensor_of(n, "data")->rank, count = ints(n, "axes", axes, TD_MAX_RANK), kept = 0;
    unsigned seen = 0;
    if (count <= 0 && whole(n, "noop_with_empty_axes", 0))
        return false;
    for (int i = 0; i < count; i++) {
        if (axes[i] < -rank || axes[i] >= rank)
            refuse(n, "axes: %lld is none of %d dimensions", (long long)axes[i], rank);
        else
            seen |= 1u << (axes[i] < 0 ? axes[i] + rank : axes[i]);
    }
    for (int d = 0; d < rank; d++)
        if (count <= 0 || seen & 1u << d)
            all[kept++] = d;
    let_ints(n, "axes", all, kept);
    return true;
}

/* before and after are formulas of data, reduce one of data, axes and keepdims; NULL: none. */
static void reduce(struct td_onnx *n, const char *before, const char *formula, const char *after)
{
    if (before)
        set(n, "data", before);
    if (reduces(n))
        set(n, "data", formula);
    if (after)
        set(n, "data", after);
    put(n, 0, *at(n, "data"));
}

#define SUM "sum.dim_IntList(data, axes, keepdims, dtype=kind)"

void td_onnx_reduce_sum(struct td_onnx *n)
{
    reduce(n, NULL, SUM, NULL);
}

void td_onnx_reduce_mean(struct td_onnx *n)
{
    reduce(n, NULL, "mean.dim(data, axes, keepdims)", NULL);
}

void td_onnx_reduce_l1(struct td_onnx *n)
{
    reduce(n, "abs(data)", SUM, NULL);
}

/* Of floats by the norm, whose squares FP16 need not hold. */
void td_onnx_reduce_l2(struct td_onnx *n)
{
    if (tensor_of(n, "data")->dtype & TD_FLOATS)
        give(n, reduces(n) ? "linalg_vector_norm(data, 2, axes, keepdims)" : "abs(data)");
    else
        reduce(n, "mul(data, data)", SUM, "to.dtype(sqrt(data), kind)");
}

void td_onnx_reduce_sum_square(struct td_onnx *n)
{
    reduce(n, "mul(data, data)", SUM, NULL);
}

void td_onnx_reduce_log_sum(struct td_onnx *n)
{
    reduce(n, NULL, SUM, "to.dtype(log(data), kind)");
}

void td_onnx_reduce_log_sum_exp(struct td_onnx *n)
{
    reduce(n, NULL, "logsumexp(data, axes, keepdims)", NULL);
}

/* Of no elements, the neutral one. */
static void extreme(struct td_onnx *n, const char *formula, double sign)
{
    struct td_tensor x = *tensor_of(n, "data");
    int64_t axes[TD_MAX_RANK];
    bool some = reduces(n);
    int count = some ? ints(n, "axes", axes, TD_MAX_RANK) : 0;
    bool empty = false;
    for (int i = 0; i < count; i++) {
        empty = empty || !x.shape[axes[i]];
        x.shape[axes[i]] = 1;
    }
    if (!empty) {
        give(n, some ? formula : "alias(data)");
        return;
    }
    double limit = ldexp(sign, 8 * (int)td_dtype_size(x.dtype) - 1);
    bool lowest = sign < 0;
    if (x.dtype & TD_FLOATS)
        let(n, "limit", td_item_float(sign * HUGE_VAL));
    else if (x.dtype == TD_i64)
        let_int(n, "limit", lowest ? INT64_MIN : INT64_MAX);
    else if (td_dtype_kind(x.dtype) != 'i')
        let_int(n, "limit", lowest ? 0 : -1); /* which wraps to the type's last */
    else
        let_int(n, "limit", (int64_t)limit - !lowest);
    let_ints(n, "sizes", x.shape, x.rank);
    set(n, "full", "full(sizes, limit, dtype=kind)");
    give(n, at(n, "keepdims")->v.i ? "alias(full)" : "squeeze.dims(full, axes)");
}

void td_onnx_reduce_max(struct td_onnx *n)
{
    extreme(n, "amax(data, axes, keepdims)", -1);
}

void td_onnx_reduce_min(struct td_onnx *n)
{
    extreme(n, "amin(data, axes, keepdims)", 1);
}

void td_onnx_reduce_prod(struct td_onnx *n)
{
    int64_t axes[TD_MAX_RANK];
    int count = reduces(n) ? ints(n, "axes", axes, TD_MAX_RANK) : 0;
    while (count-- > 0) { /* from the last dimension on, so that the others keep their numbers */
        let_int(n, "axis", axes[count]);
        set(n, "data", "prod.dim_int(data, axis, keepdims, dtype=kind)");
    }
    put(n, 0, *at(n, "data"));
}

/* ---- along one dimension ---- */

void td_onnx_arg_extreme(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "data");
    bool last = whole(n, "select_last_index", 0) != 0;
    let_int(n, "end", x->shape[axis_of(n, "axis", x->rank)] - 1);
    if (last)
        set(n, "data", "flip(data, [axis])");
    set(n, "found", n->formula);
    give(n, last ? "rsub.Scalar(found, end)" : "alias(found)");
}

static void running(struct td_onnx *n, const char *formula, int64_t first)
{
    const struct td_tensor *x = tensor_of(n, "x");
    int64_t pads[2 * TD_MAX_RANK] = {0};
    int axis = axis_of(n, "axis", x->rank), before = 2 * (x->rank - 1 - axis);
    bool back = whole(n, "reverse", 0) != 0;
    if (!x->rank)
        return refuse(n, "x: no number has a running sum; a dimension is right");
    let_int(n, "axis", axis);
    let_int(n, "first", first);
    if (back)
        set(n, "x", "flip(x, [axis])");
    if (whole(n, "exclusive", 0) && x->shape[axis]) {
        pads[before] = 1;
        pads[before + 1] = -1;
        let_ints(n, "pads", pads, before + 2);
        set(n, "x", "constant_pad_nd(x, pads, first)");
    }
    set(n, "x", formula);
    give(n, back ? "flip(x, [axis])" : "alias(x)");
}

void td_onnx_cumsum(struct td_onnx *n)
{
    running(n, "cumsum(x, axis, dtype=kind)", 0);
}

void td_onnx_cumprod(struct td_onnx *n)
{
    running(n, "cumprod(x, axis, dtype=kind)", 1);
}

void td_onnx_topk(struct td_onnx *n)
{
    let_int(n, "K", whole(n, has(n, "K") ? "K" : "k", 0));
    give(n, "values = topk(X, K, axis, largest, sorted)[0]; "
            "places = topk(X, K, axis, largest, sorted)[1]");
}

/* Up to the twelfth set, all dimensions from axis on were one. */
void td_onnx_normalise(struct td_onnx *n)
{
    struct td_tensor x = *tensor_of(n, "input");
    if (!has(n, "axis"))
        let_int(n, "axis", n->version < 13 ? 1 : -1);
    if (n->version >= 13)
        return give(n, n->formula);
    int64_t sizes[2] = {1, 1};
    int axis = x.rank == whole(n, "axis", 1) ? x.rank : axis_of(n, "axis", x.rank);
    for (int d = 0; d < x.rank; d++)
        sizes[d >= axis] *= x.shape[d];
    let_ints(n, "sizes", sizes, 2);
    let_ints(n, "shape", x.shape, x.rank);
    let_int(n, "axis", 1);
    set(n, "input", "reshape(input, sizes)");
    set(n, "input", n->formula);
    give(n, "reshape(input, shape)");
}

/* ---- losses ---- */

/* Of logarithms x: the target's own, negative, by weights; none where it is to be ignored. */
static void lose(struct td_onnx *n, const char *weight)
{
    const char *how = text(n, "reduction");
    if (has(n, "ignore_index")) {
        set(n, "ignored", "eq(target, ignore_index)");
        set(n, "target", "masked_fill(target, ignored, 0)");
    }
    set(n, "y", "neg(squeeze(gather(x, 1, to.dtype(unsqueeze(target, 1), INT64)), 1))");
    set(n, "share", "ones_like(y)");
    if (has(n, weight)) {
        struct td_item list = {0};
        let(n, "target", eval(n, "to.dtype(target, INT64)"));
        if (!n->err)
            n->err = td_walk_list(n->walk, at(n, "target"), 1, &list);
        let(n, "places", list);
        let(n, "each", *at(n, weight));
        set(n, "share", "index(each, places)");
    }
    if (has(n, "ignore_index"))
        set(n, "share", "masked_fill(share, ignored, 0)");
    set(n, "y", "y * share");
    put(n, 0,
        eval(n, !strcmp(how, "none")  ? "alias(y)"
                : !strcmp(how, "sum") ? "sum(y)"
                                      : "sum(y) / sum(share)"));
}

void td_onnx_nll_loss(struct td_onnx *n)
{
    let(n, "x", *at(n, "input"));
    lose(n, "weight");
}

void td_onnx_cross_entropy(struct td_onnx *n)
{
    set(n, "x", "log_softmax(scores, 1)");
    let(n, "target", *at(n, "labels"));
    lose(n, "weights");
    put(n, 1, *at(n, "x"));
}
