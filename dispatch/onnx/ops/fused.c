/* Operators of com.microsoft that are several of ONNX's in one: products, convolutions and norms
 * with what comes before and after them. */
#include "dispatch/onnx/ops/onnx.h"
#include "kernels/sizes.h"

#include <string.h>

/* ---- with an activation ---- */

static double parameter(struct td_onnx *n, int i, double otherwise)
{
    static const char *const names[] = {"activation_alpha", "activation_beta", "activation_gamma"};
    double v[TD_MAX_LIST];
    if (!has(n, "activation_params"))
        return i < 3 ? real(n, names[i], otherwise) : otherwise;
    int count = reals(n, "activation_params", v, TD_MAX_LIST);
    return i < count ? v[i] : otherwise;
}

/* The node's result 0 becomes its activation. */
static void activate(struct td_onnx *n)
{
    static const struct {
        const char *name, *formula;
        double alpha, beta;
    } rows[] = {
        {"", "alias(y)", 0, 0},
        {"Relu", "relu(y)", 0, 0},
        {"Tanh", "tanh(y)", 0, 0},
        {"Sigmoid", "sigmoid(y)", 0, 0},
        {"Softplus", "softplus(y)", 0, 0},
        {"LeakyRelu", "leaky_relu(y, a)", 0.01, 0},
        {"Elu", "elu(y, a)", 1, 0},
        {"Clip", "clamp(y, a, b)", -1e300, 1e300},
        {"HardSigmoid", "clamp(y * a + b, 0, 1)", 0.2, 0.5},
    };
    const char *name = text(n, "activation");
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !n->err; i++)
        if (!strcmp(rows[i].name, name)) {
            let(n, "y", n->out[0]);
            let(n, "a", td_item_float(parameter(n, 0, rows[i].alpha)));
            let(n, "b", td_item_float(parameter(n, 1, rows[i].beta)));
            return put(n, 0, eval(n, rows[i].formula));
        }
    unfit(n, "activation: there is no %.40s here", name);
}

void td_onnx_ms_conv(struct td_onnx *n)
{
    td_onnx_conv(n);
    if (has(n, "Z") && !n->err) {
        let(n, "y", n->out[0]);
        put(n, 0, eval(n, "y + Z"));
    }
    activate(n);
}

void td_onnx_ms_gemm(struct td_onnx *n)
{
    td_onnx_gemm(n);
    activate(n);
}

void td_onnx_ms_fast_gelu(struct td_onnx *n)
{
    give(n, has(n, "bias") ? "gelu(X + bias, approximate='tanh')" : "gelu(X, approximate='tanh')");
}

/* ---- products ---- */

/* The first dimension goes behind the last but one, then the last two change places. */
static void turn(struct td_onnx *n, const char *name, const char *batch, const char *swap)
{
    int64_t order[TD_MAX_RANK];
    int rank = tensor_of(n, name)->rank;
    bool swaps = whole(n, swap, 0), moves = whole(n, batch, 0);
    if (!swaps && !moves)
        return;
    if (rank < 2)
        return refuse(n, "%s: two dimensions or more are right", name);
    for (int d = 0; d < rank; d++)
        order[d] = d;
    if (moves) {
        for (int d = 0; d < rank - 2; d++)
            order[d] = d + 1;
        order[rank - 2] = 0;
    }
    if (swaps) {
        int64_t last = order[rank - 1];
        order[rank - 1] = order[rank - 2];
        order[rank - 2] = last;
    }
    let_ints(n, "order", order, rank);
    let(n, "x", *at(n, name));
    set(n, name, "permute(x, order)");
}

void td_onnx_ms_matmul(struct td_onnx *n)
{
    turn(n, "A", "transBatchA", "transA");
    turn(n, "B", "transBatchB", "transB");
    give(n, real(n, "alpha", 1) == 1 ? "matmul(A, B)" : "matmul(A, B) * alpha");
}

/* Bits lie low ones first; [.., n] becomes [.., n * 8 / bits]. */
static void unpack(struct td_onnx *n, const char *name, int64_t bits)
{
    static const char *const parts[] = {
        "stack([v & 3, bitwise_right_shift(v, two) & 3, bitwise_right_shift(v, four) & 3, "
        "bitwise_right_shift(v, six)], -1)",
        "stack([v & 15, bitwise_right_shift(v, four)], -1)"};
    double shift[] = {2, 4, 6};
    let_tensor(n, "two", TD_u8, &shift[0], -1);
    let_tensor(n, "four", TD_u8, &shift[1], -1);
    let_tensor(n, "six", TD_u8, &shift[2], -1);
    let(n, "v", *at(n, name));
    set(n, name, bits == 2 ? parts[0] : bits == 4 ? parts[1] : "alias(v)");
}

/* By the operator that reads such weights as they are. */
static bool give_packed(struct td_onnx *n, int64_t rows, int64_t blocks, int64_t block,
                        int64_t bits)
{
    bool zeros = has(n, "zero_points"), bias = has(n, "bias");
    enum td_dtype type = tensor_of(n, "A")->dtype;
    if (n->err || block * bits % 8 || block * bits / 8 > 1 << 20 ||
        !(type & (TD_f32 | TD_f16 | TD_bf16)) ||
        (zeros && tensor_of(n, "zero_points")->dtype != TD_u8))
        return false;
    let_ints(n, "groups", (int64_t[]){rows, blocks, block * bits / 8}, 3);
    let_ints(n, "each", (int64_t[]){rows, blocks}, 2);
    let_ints(n, "table", (int64_t[]){rows, -1}, 2);
    let_int(n, "bits", bits);
    if (zeros)
        set(n, "zero_points", "reshape(zero_points, table)");
    let(n, "type", td_item_dtype(type));
    if (tensor_of(n, "scales")->dtype != TD_f32)
        set(n, "scales", "to.dtype(scales, FP32)");
    if (type != TD_f32)
        set(n, "A", "to.dtype(A, FP32)");
    if (type != TD_f32 && bias)
        set(n, "bias", "to.dtype(bias, FP32)");
    set(n, "y",
        "linear_bits(reshape(B, groups), reshape(scales, each), A, zero_points, bias, bits=bits)");
    give(n, type == TD_f32 ? "alias(y)" : "to.dtype(y, type)");
    return true;
}

/* The weight in floats: made once, as it depends on no input. */
void td_onnx_ms_matmul_bits(struct td_onnx *n)
{
    int64_t k = whole(n, "K", 0), rows = whole(n, "N", 0), bits = whole(n, "bits", 4);
    int64_t block = whole(n, "block_size", 32),
            blocks = block > 0 && k > 0 ? 1 + (k - 1) / block : 0;
    if (k < 1 || rows < 1 || block < 1 || block > INT32_MAX ||
        (bits != 2 && bits != 4 && bits != 8))
        return unfit(n, "K, N, block_size, bits: sizes of 1 and up, and 2, 4 or 8 bits are right");
    if (has(n, "g_idx"))
        return unfit(n, "g_idx: weights whose groups are not in order are not right here");
    if (tensor_of(n, "B")->dtype != TD_u8)
        return refuse(n, "B: UINT8 is right");
    let(n, "zero", td_item_float((double)(1 << (bits - 1))));
    if (give_packed(n, rows, blocks, block, bits))
        return;
    let_ints(n, "groups", (int64_t[]){rows, blocks, -1}, 3);
    let_ints(n, "each", (int64_t[]){rows, blocks, 1}, 3);
    let_ints(n, "table", (int64_t[]){rows, -1}, 2);
    let_int(n, "blocks", blocks);
    unpack(n, "B", bits);
    bool packed = has(n, "zero_points") && tensor_of(n, "zero_points")->dtype == TD_u8;
    if (packed) {
        set(n, "zero_points", "reshape(zero_points, table)");
        unpack(n, "zero_points", bits);
        set(n, "zero_points", "slice.Tensor(reshape(zero_points, table), 1, 0, blocks)");
    }
    if (has(n, "zero_points"))
        set(n, "zero", "to.dtype(reshape(zero_points, each), FP32)");
    let(n, "type", td_item_dtype(tensor_of(n, "A")->dtype));
    set(n, "w",
        "(to.dtype(reshape(B, groups), FP32) - zero) * to.dtype(reshape(scales, each), FP32)");
    set(n, "w", "to.dtype(slice.Tensor(reshape(w, table), 1, 0, K), type)");
    give(n, "linear(A, w, bias)");
}

/* Rows of a table of few bits: they are picked first, and then become floats. */
void td_onnx_ms_gather_bits(struct td_onnx *n)
{
    const struct td_tensor *data = tensor_of(n, "data"), *scales = tensor_of(n, "scales");
    const struct td_tensor *indices = tensor_of(n, "indices");
    int64_t bits = whole(n, "bits", 4), block = whole(n, "block_size", 128), shape[TD_MAX_RANK];
    int64_t width, most, least;
    if (n->err)
        return;
    if (data->dtype != TD_u8 || data->rank != 2 || scales->rank != 2 || block < 1 ||
        (bits != 4 && bits != 8) || axis_of(n, "gather_axis", 2) != 0 ||
        axis_of(n, "quantize_axis", 2) != 1)
        return refuse(n, "data: rows of UINT8, of 4 or 8 bits along them, are right");
    int64_t blocks = scales->shape[1];
    td_size_times(data->shape[1], 8 / bits, &width);
    td_size_times(blocks, block, &most);
    td_size_times(blocks - 1, block, &least);
    if (scales->shape[0] != data->shape[0] || most < width || least >= width ||
        indices->rank >= TD_MAX_RANK)
        return refuse(n, "scales, block_size: one for each block of a row is right");
    for (int d = 0; d < indices->rank; d++)
        shape[d] = indices->shape[d];
    shape[indices->rank] = width;
    let_ints(n, "shape", shape, indices->rank + 1);
    let(n, "zero", td_item_float((double)(1 << (bits - 1))));
    let(n, "type", td_item_dtype(scales->dtype));
    let_int(n, "block", block);
    let_int(n, "width", width);
    let_int(n, "blocks", blocks);
    set(n, "rows", "to.dtype(reshape(indices, [-1]), INT64)");
    let_int(n, "all", data->shape[0]);
    set(n, "rows", "where(lt(rows, 0), rows + all, rows)");
    let_ints(n, "table", (int64_t[]){td_numel(indices), width}, 2);
    let_ints(n, "places", (int64_t[]){td_numel(indices), -1}, 2);
    set(n, "picked", "index_select(data, 0, rows)");
    unpack(n, "picked", bits);
    set(n, "picked", "to.dtype(reshape(picked, table), FP32)");
    if (has(n, "zero_points")) {
        set(n, "zero", "index_select(zero_points, 0, rows)");
        unpack(n, "zero", bits);
        set(n, "zero", "slice.Tensor(reshape(zero, places), 1, 0, blocks)");
        set(n, "zero",
            "slice.Tensor(repeat_interleave(to.dtype(zero, FP32), block, 1), 1, 0, width)");
    }
    set(n, "scale", "to.dtype(index_select(scales, 0, rows), FP32)");
    set(n, "scale", "slice.Tensor(repeat_interleave(scale, block, 1), 1, 0, width)");
    give(n, "to.dtype(view((picked - zero) * scale, shape), type)");
}

/* ---- norms ---- */

static void let_last(struct td_onnx *n, const char *name)
{
    const struct td_tensor *x = tensor_of(n, name);
    let_ints(n, "shape", &x->shape[x->rank ? x->rank - 1 : 0], 1);
}

static void let_sum(struct td_onnx *n)
{
    set(n, "sum", has(n, "bias") ? "input + skip + bias" : "input + skip");
    let_last(n, "sum");
    if (wants(n, 1) || wants(n, 2))
        refuse(n, "its mean and deviation are not right as results");
    put(n, 3, *at(n, "sum"));
}

void td_onnx_ms_skip_norm(struct td_onnx *n)
{
    let_sum(n);
    put(n, 0, eval(n, "layer_norm(sum, shape, gamma, beta, epsilon)"));
}

void td_onnx_ms_skip_rms_norm(struct td_onnx *n)
{
    let_sum(n);
    put(n, 0, eval(n, "rms_norm(sum, shape, gamma, epsilon)"));
}

void td_onnx_ms_embed(struct td_onnx *n)
{
    const struct td_tensor *ids = tensor_of(n, "ids");
    if (ids->rank != 2)
        return refuse(n, "ids: [batch, steps] is right");
    let_int(n, "steps", ids->shape[1]);
    let_ints(n, "each", (int64_t[]){ids->shape[0]}, 1);
    set(n, "sum", "embedding(words, to.dtype(ids, INT64))");
    set(n, "sum",
        has(n, "position_ids") ? "sum + embedding(positions, to.dtype(position_ids, INT64))"
                               : "sum + slice.Tensor(positions, 0, 0, steps)");
    if (has(n, "segments"))
        set(n, "sum", "sum + embedding(segment_table, to.dtype(segments, INT64))");
    let_last(n, "sum");
    put(n, 0, eval(n, "layer_norm(sum, shape, gamma, beta, epsilon)"));
    if (wants(n, 1))
        put(n, 1,
            eval(n, has(n, "mask") ? "to.dtype(sum.dim_IntList(mask, [1]), INT32)"
                                   : "zeros(each, dtype=INT32)"));
    put(n, 2, *at(n, "sum"));
}
