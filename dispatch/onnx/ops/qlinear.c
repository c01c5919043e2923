/* Operators of com.microsoft on 8 bits: what they are made of is FP32, what they are given and give
 * has scales and zero points. */
#include "dispatch/onnx/ops/onnx.h"

/* Names x what floats the operand is: its scale and zero point stand beside it. */
static void real_of(struct td_onnx *n, const char *x, const char *scale, const char *zero,
                    const char *name)
{
    let(n, "v", *at(n, x));
    let(n, "by", *at(n, scale));
    let(n, "nought", *at(n, zero));
    set(n, name,
        has(n, zero) ? "(to.dtype(v, FP32) - to.dtype(nought, FP32)) * by"
                     : "to.dtype(v, FP32) * by");
}

/* Result 0: the floats called y, in 8 bits. */
static void give_bits(struct td_onnx *n, const char *scale, const char *zero)
{
    enum td_dtype type = has(n, zero) ? tensor_of(n, zero)->dtype : TD_u8;
    if (!(type & (TD_u8 | TD_i8 | TD_u16 | TD_i16)))
        return refuse(n, "%s: of 8 or 16 bits is right", zero);
    int bits = 8 * (int)td_dtype_size(type);
    bool sign = td_dtype_kind(type) == 'i';
    let_int(n, "least", sign ? -(1 << (bits - 1)) : 0);
    let_int(n, "most", sign ? (1 << (bits - 1)) - 1 : (1 << bits) - 1);
    let(n, "type", td_item_dtype(type));
    let(n, "by", *at(n, scale));
    let(n, "nought", *at(n, zero));
    set(n, "y", "round(y / by)");
    if (has(n, zero))
        set(n, "y", "y + to.dtype(nought, FP32)");
    put(n, 0, eval(n, "to.dtype(clamp(y, least, most), type)"));
}

/* ---- of one ---- */

void td_onnx_ms_q_one(struct td_onnx *n)
{
    real_of(n, "X", "X_scale", "X_zero_point", "x");
    set(n, "y", n->formula);
    give_bits(n, "Y_scale", "Y_zero_point");
}

void td_onnx_ms_q_softmax(struct td_onnx *n)
{
    if (whole(n, "opset", 13) < 13)
        return unfit(n, "opset: 13 and up is right");
    td_onnx_ms_q_one(n);
}

void td_onnx_ms_q_global_pool(struct td_onnx *n)
{
    if (whole(n, "channels_last", 0))
        return unfit(n, "channels_last: 0 is right");
    td_onnx_ms_q_one(n);
}

void td_onnx_ms_q_average_pool(struct td_onnx *n)
{
    if (whole(n, "channels_last", 0))
        return unfit(n, "channels_last: 0 is right");
    real_of(n, "X", "X_scale", "X_zero_point", "X");
    td_onnx_average_pool(n);
    let(n, "y", n->out[0]);
    give_bits(n, "Y_scale", "Y_zero_point");
}

/* ---- of several ---- */

void td_onnx_ms_q_two(struct td_onnx *n)
{
    real_of(n, "A", "A_scale", "A_zero_point", "a");
    real_of(n, "B", "B_scale", "B_zero_point", "b");
    set(n, "y", n->formula);
    give_bits(n, "C_scale", "C_zero_point");
}

void td_onnx_ms_q_where(struct td_onnx *n)
{
    real_of(n, "X", "X_scale", "X_zero_point", "a");
    real_of(n, "Z", "Z_scale", "Z_zero_point", "b");
    set(n, "y", "where.self(condition, a, b)");
    give_bits(n, "Y_scale", "Y_zero_point");
}

/* Of each input a tensor, its scale and its zero point. */
void td_onnx_ms_q_concat(struct td_onnx *n)
{
    const struct td_item *list;
    int count = list_of(n, "inputs", &list);
    if (count % 3)
        return refuse(n, "inputs: three for each tensor are right");
    for (int i = 0; i < count && !n->err; i += 3) {
        let(n, "a", list[i]);
        let(n, "a_scale", list[i + 1]);
        let(n, "a_zero", list[i + 2]);
        real_of(n, "a", "a_scale", "a_zero", "x");
        set(n, "y", i ? "cat([y, x], axis)" : "alias(x)");
    }
    give_bits(n, "Y_scale", "Y_zero_point");
}

/* ---- products ---- */

/* Whether an operand is FP32, one number or a vector as long as the last dimension of another. */
static bool is_by_column(struct td_onnx *n, const char *name, const char *of)
{
    const struct td_tensor *t = tensor_of(n, name), *b = tensor_of(n, of);
    return t->dtype == TD_f32 &&
           (td_numel(t) == 1 || (t->rank == 1 && b->rank && t->shape[0] == b->shape[b->rank - 1]));
}

/* Sets y to the integer product, multiplied by the scales. A vector A is a matrix of one row. */
static void let_product(struct td_onnx *n)
{
    bool bias = has(n, "bias"), row = tensor_of(n, "A")->rank == 1;
    const struct td_tensor *t = bias ? tensor_of(n, "bias") : NULL;
    if (row)
        set(n, "A", "unsqueeze(A, 0)");
    if (is_by_column(n, "a_scale", "a_scale") && td_numel(tensor_of(n, "a_scale")) == 1 &&
        is_by_column(n, "b_scale", "B") &&
        (!bias || (t->rank == 1 && td_numel(t) > 1 && is_by_column(n, "bias", "B")))) {
        set(n, "y",
            "matmul_integer_to_float(A, B, a_scale, b_scale, a_zero_point, b_zero_point, bias)");
    } else {
        set(n, "y", "to.dtype(matmul_integer(A, B, a_zero_point, b_zero_point), FP32)");
        set(n, "y", "y * (a_scale * b_scale)");
        if (bias)
            set(n, "y", "y + bias");
    }
    if (row)
        set(n, "y", "squeeze.dim(y, -2)");
}

void td_onnx_ms_matmul_to_float(struct td_onnx *n)
{
    let_product(n);
    put(n, 0, *at(n, "y"));
}

void td_onnx_ms_dynamic_matmul(struct td_onnx *n)
{
    let(n, "x", *at(n, "A"));
    set(n, "A", "dynamic_quantize_linear(x)[0]");
    set(n, "a_scale", "dynamic_quantize_linear(x)[1]");
    set(n, "a_zero_point", "dynamic_quantize_linear(x)[2]");
    let_product(n);
    put(n, 0, *at(n, "y"));
}

/* Whether qlinear_matmul computes this QGemm: all scales and zero points are there, alpha is 1, the
 * result has 8 bits, and C has an INT32 number for each column. */
static bool is_rounded_product(struct td_onnx *n)
{
    static const char *const all[] = {"a_zero_point", "b_zero_point", "y_scale", "y_zero_point"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!has(n, all[i]))
            return false;
    const struct td_tensor *b = tensor_of(n, "B"), *c = has(n, "C") ? tensor_of(n, "C") : NULL;
    return real(n, "alpha", 1) == 1 && tensor_of(n, "y_zero_point")->dtype & (TD_i8 | TD_u8) &&
           td_numel(tensor_of(n, "a_scale")) == 1 && td_numel(tensor_of(n, "a_zero_point")) == 1 &&
           is_by_column(n, "b_scale", "B") && b->rank == 2 &&
           (!c || (c->dtype == TD_i32 && c->rank == 1 && c->shape[0] == b->shape[1]));
}

void td_onnx_ms_q_gemm(struct td_onnx *n)
{
    if (whole(n, "transA", 0))
        set(n, "A", "t(A)");
    if (whole(n, "transB", 0))
        set(n, "B", "t(B)");
    if (is_rounded_product(n))
        return give(n, "qlinear_matmul(A, a_scale, a_zero_point, B, b_scale, b_zero_point, "
                       "y_scale, y_zero_point, C)");
    set(n, "y", "matmul_integer(A, B, a_zero_point, b_zero_point)");
    if (has(n, "C"))
        set(n, "y", "y + C");
    set(n, "y", "to.dtype(y, FP32) * (a_scale * b_scale * alpha)");
    if (has(n, "y_scale"))
        give_bits(n, "y_scale", "y_zero_point");
    else
        put(n, 0, *at(n, "y"));
}
