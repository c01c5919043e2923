/* ONNX's norms. */
#include "dispatch/onnx/ops/onnx.h"

/* The sizes from the dimension axis on. */
static void let_shape(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "X");
    int axis = axis_of(n, "axis", x->rank);
    let_ints(n, "shape", x->shape + axis, x->rank - axis);
}

/* Whether an operand is left out, or has X's sizes from axis on; else it is broadcast to them. */
static bool is_whole(struct td_onnx *n, const char *name)
{
    if (!has(n, name))
        return true;
    const struct td_tensor *x = tensor_of(n, "X"), *scale = tensor_of(n, name);
    int axis = axis_of(n, "axis", x->rank);
    bool same = scale->rank == x->rank - axis;
    for (int d = 0; same && d < scale->rank; d++)
        same = scale->shape[d] == x->shape[axis + d];
    return same;
}

void td_onnx_layer_norm(struct td_onnx *n)
{
    let_shape(n);
    bool apart = !is_whole(n, "Scale") || !is_whole(n, "B"), more = wants(n, 1) || wants(n, 2);
    if (!apart && !more)
        return give(n, "layer_norm(X, shape, Scale, B, epsilon)");
    if (!apart)
        set(n, "y", "native_layer_norm(X, shape, Scale, B, epsilon)[0]");
    else
        set(n, "y", "layer_norm(X, shape, None, None, epsilon) * Scale");
    if (apart && has(n, "B"))
        set(n, "y", "y + B");
    put(n, 0, *at(n, "y"));
    if (wants(n, 1))
        put(n, 1, eval(n, "native_layer_norm(X, shape, None, None, epsilon)[1]"));
    if (wants(n, 2))
        put(n, 2, eval(n, "native_layer_norm(X, shape, None, None, epsilon)[2]"));
}

void td_onnx_rms_norm(struct td_onnx *n)
{
    let_shape(n);
    give(n, is_whole(n, "scale") ? "rms_norm(X, shape, scale, epsilon)"
                                 : "rms_norm(X, shape, None, epsilon) * scale");
}

void td_onnx_group_norm(struct td_onnx *n)
{
    int64_t groups = whole(n, "num_groups", 0), channels = tensor_of(n, "X")->shape[1];
    if (groups < 1 || channels % groups)
        return refuse(n, "num_groups: %lld channels are not so many groups", (long long)channels);
    if (n->version < 21) { /* one number a group */
        let_int(n, "each", channels / groups);
        set(n, "scale", "repeat_interleave(scale, each)");
        set(n, "bias", "repeat_interleave(bias, each)");
    }
    give(n, "group_norm(X, num_groups, scale, bias, epsilon)");
}

void td_onnx_batch_norm(struct td_onnx *n)
{
    int64_t dims[TD_MAX_RANK] = {0};
    int rank = tensor_of(n, "X")->rank, count = 1;
    bool trains = n->version < 7 ? !whole(n, "is_test", 0) : whole(n, "training_mode", 0) != 0;
    if (!whole(n, "spatial", 1))
        return refuse(n, "spatial: 1 alone is right");
    if (!trains)
        return put(n, 0,
                   eval(n, "batch_norm(X, scale, B, input_mean, input_var, False, 0.0, "
                           "epsilon, False)"));
    for (int d = 2; d < rank; d++)
        dims[count++] = d;
    let_ints(n, "dims", dims, count);
    let(n, "rest", td_item_float(1 - real(n, "momentum", 0.9)));
    set(n, "mean", "var_mean(X, dims, correction=0)[1]");
    set(n, "var", "var_mean(X, dims, correction=0)[0]");
    give(n, "y = batch_norm(X, scale, B, mean, var, False, 0.0, epsilon, False); "
            "m = input_mean * momentum + mean * rest; v = input_var * momentum + var * rest");
}

void td_onnx_lrn(struct td_onnx *n)
{
    int64_t size = whole(n, "size", 1), pads[2 * TD_MAX_RANK] = {0};
    int rank = tensor_of(n, "X")->rank;
    if (size < 1 || rank < 3)
        return refuse(n, "size, X: a size of 1 or more, and three dimensions or more, are right");
    pads[2 * rank - 4] = (size - 1) / 2;
    pads[2 * rank - 3] = size / 2;
    let_ints(n, "pads", pads, 2 * rank - 2);
    let(n, "share", td_item_float(real(n, "alpha", 0) / (double)size));
    give(n, "X / (sum.dim_IntList(unfold(constant_pad_nd(X * X, pads), 1, size, 1), [-1]) * share "
            "+ bias) ** beta");
}
