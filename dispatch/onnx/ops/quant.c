/* ONNX's operators that make 8 bits of floats, and floats of them, and products of 8 bits. */
#include "dispatch/onnx/ops/onnx.h"

static bool is_one(const struct td_tensor *t)
{
    return t->rank == 0 || (t->rank == 1 && t->shape[0] == 1);
}

/* Names a bound of the type each: least and most. */
static void let_bounds(struct td_onnx *n, enum td_dtype type)
{
    bool sign = td_dtype_kind(type) == 'i';
    int bits = 8 * (int)td_dtype_size(type) - sign;
    let_int(n, "least", sign ? -(INT64_C(1) << bits) : 0);
    let_int(n, "most", (INT64_C(1) << bits) - 1);
    let(n, "type", td_item_dtype(type));
}

/* Has scales or zero points broadcast with what they belong to: blocks are repeated. */
static void spread(struct td_onnx *n, const char *name, const struct td_tensor *x, int axis)
{
    int64_t block = whole(n, "block_size", 0), sizes[TD_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    if (!has(n, name))
        return;
    let(n, "v", *at(n, name));
    let_int(n, "block", block);
    let_int(n, "along", axis);
    let_int(n, "size", x->shape[axis]);
    sizes[axis] = -1;
    let_ints(n, "sizes", sizes, x->rank);
    set(n, name,
        block ? "slice.Tensor(repeat_interleave(v, block, along), along, 0, size)"
              : "view(v, sizes)");
}

/* Names x and axis, and has scales of more than one number broadcast. True: there is but one. */
static bool has_one_scale(struct td_onnx *n, const char *scale, const char *zero)
{
    struct td_tensor x = *tensor_of(n, "x");
    bool blocks = whole(n, "block_size", 0) != 0, one = !blocks && is_one(tensor_of(n, scale));
    int axis = one ? 0 : axis_of(n, "axis", x.rank);
    if (whole(n, "block_size", 0) < 0)
        refuse(n, "block_size: cannot be less than 0");
    if (one || n->err)
        return true;
    spread(n, scale, &x, axis);
    spread(n, zero, &x, axis);
    return false;
}

void td_onnx_quantize(struct td_onnx *n)
{
    int64_t given = whole(n, "output_dtype", 0);
    enum td_dtype type = has(n, "y_zero_point") ? tensor_of(n, "y_zero_point")->dtype
                         : given                ? td_onnx_dtype(given)
                                                : TD_u8;
    if (!(type & (TD_u8 | TD_i8 | TD_i16 | TD_u16)))
        return refuse(n, "output_dtype: UINT8, INT8, UINT16 or INT16 is right, not %s",
                      td_onnx_type_name(given));
    let_bounds(n, type);
    let(n, "real", td_item_dtype(tensor_of(n, "x")->dtype));
    has_one_scale(n, "y_scale", "y_zero_point");
    set(n, "x", "round(div.Tensor(x, y_scale))");
    if (has(n, "y_zero_point"))
        set(n, "x", "add.Tensor(x, to.dtype(y_zero_point, real))");
    give(n, "to.dtype(clamp(x, least, most), type)");
}

void td_onnx_dequantize(struct td_onnx *n)
{
    enum td_dtype to = tensor_of(n, "x_scale")->dtype;
    int64_t given = whole(n, "output_dtype", 0);
    let_bounds(n, tensor_of(n, "x")->dtype);
    let(n, "to", td_item_dtype(given ? td_onnx_dtype(given) : to));
    has_one_scale(n, "x_scale", "x_zero_point");
    set(n, "x",
        has(n, "x_zero_point") ? "sub.Tensor(to.dtype(x, INT32), to.dtype(x_zero_point, INT32))"
                               : "alias(x)");
    let(n, "scale_type", td_item_dtype(to));
    give(n, "to.dtype(mul.Tensor(to.dtype(x, scale_type), x_scale), to)");
}

/* A product of a and b, where a vector is a matrix of one row, or of one column: the result has no
 * such dimension. */
static void multiply(struct td_onnx *n, const char *a, const char *b, const char *formula)
{
    bool row = tensor_of(n, a)->rank == 1, column = tensor_of(n, b)->rank == 1;
    let(n, "first", *at(n, a));
    let(n, "second", *at(n, b));
    if (row)
        set(n, "first", "unsqueeze(first, 0)");
    if (column)
        set(n, "second", "unsqueeze(second, 1)");
    set(n, "product", formula);
    if (row)
        set(n, "product", "squeeze.dim(product, -2)");
    if (column)
        set(n, "product", "squeeze.dim(product, -1)");
    put(n, 0, *at(n, "product"));
}

/* A product by an INT8 weight with scales, which was a Gemm (scaled.c). */
void td_onnx_gemm_scaled(struct td_onnx *n)
{
    if (tensor_of(n, "A")->rank != 2)
        return refuse(n, "A: is of rank %d; a matrix, of rank 2, is right",
                      tensor_of(n, "A")->rank);
    set(n, "scale", "reshape(scale, [-1])");
    give(n,
         whole(n, "transB", 0) ? "linear_scaled(A, B, scale, C)" : "dense_scaled(A, B, scale, C)");
}

void td_onnx_matmul_integer(struct td_onnx *n)
{
    multiply(n, "A", "B", "matmul_integer(first, second, a_zero_point, b_zero_point)");
}

void td_onnx_qlinear_matmul(struct td_onnx *n)
{
    multiply(n, "a", "b",
             "qlinear_matmul(first, a_scale, a_zero_point, second, b_scale, b_zero_point, "
             "y_scale, y_zero_point)");
}
