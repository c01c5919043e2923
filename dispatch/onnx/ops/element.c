/* ONNX's operators that compute element by element, and products. */
#include "dispatch/onnx/ops/onnx.h"

#include <string.h>

void td_onnx_bit_shift(struct td_onnx *n)
{
    give(n, strcmp(text(n, "direction"), "LEFT") ? "bitwise_right_shift(X, Y)"
                                                 : "bitwise_left_shift(X, Y)");
}

void td_onnx_clip(struct td_onnx *n)
{
    give(n, has(n, "min") || has(n, "max") ? "clamp(input, min, max)" : "alias(input)");
}

void td_onnx_divide(struct td_onnx *n)
{
    bool floats = tensor_of(n, "A")->dtype & TD_FLOATS;
    give(n, floats ? "div.Tensor(A, B)" : "div.Tensor_mode(A, B, rounding_mode='trunc')");
}

void td_onnx_modulo(struct td_onnx *n)
{
    give(n, whole(n, "fmod", 0) ? "fmod.Tensor(A, B)" : "remainder.Tensor(A, B)");
}

/* A number that is known is given as one: squares and roots have shorter ways. */
void td_onnx_power(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "X"), *y = tensor_of(n, "Y");
    double exponent = 0;
    bool known = x->dtype & TD_FLOATS && y->rank <= x->rank && td_numel(y) == 1 &&
                 !at(n, "Y")->recorded && reals(n, "Y", &exponent, 1) == 1;
    if (known)
        let(n, "Y", td_item_float(exponent));
    give(n, known ? "pow.Tensor_Scalar(X, Y)" : "to.dtype(pow.Tensor_Tensor(X, Y), kind)");
}

void td_onnx_prelu(struct td_onnx *n)
{
    bool floats = tensor_of(n, "X")->dtype & TD_FLOATS;
    give(n, n->version < 7 ? "prelu(X, slope)"
            : floats       ? "_prelu_kernel(X, slope)"
                           : "where(lt(X, 0), X * slope, X)");
}

/* x op y op z ... */
void td_onnx_fold(struct td_onnx *n)
{
    const struct td_item *list;
    int count = list_of(n, "data_0", &list);
    for (int i = 0; i < count && !n->err; i++) {
        let(n, "y", list[i]);
        set(n, "x", i ? n->formula : "alias(y)");
    }
    put(n, 0, *at(n, "x"));
}

void td_onnx_mean(struct td_onnx *n)
{
    td_onnx_fold(n);
    let_int(n, "count", at(n, "data_0")->n);
    give(n, "div.Scalar(x, count)");
}

/* ---- copies ---- */

void td_onnx_identity(struct td_onnx *n)
{
    put(n, 0, *at(n, "input"));
}

void td_onnx_dropout(struct td_onnx *n)
{
    bool trains = n->version < 7 ? !whole(n, "is_test", 1) : whole(n, "training_mode", 0) != 0;
    if (trains && real(n, "ratio", 0.5) != 0)
        refuse(n, "its numbers are random: a model that has been trained is right");
    put(n, 0, *at(n, "data"));
    if (wants(n, 1))
        put(n, 1, eval(n, "ones_like(data, dtype=BOOL)"));
}

/* ---- products ---- */

void td_onnx_gemm(struct td_onnx *n)
{
    if (whole(n, "transA", 0))
        set(n, "A", "t(A)");
    if (whole(n, "transB", 0))
        set(n, "B", "t(B)");
    bool plain = real(n, "alpha", 1) == 1 && real(n, "beta", 1) == 1;
    if (has(n, "C"))
        give(n, plain ? "addmm(C, A, B)" : "addmm(C, A, B, beta=beta, alpha=alpha)");
    else
        give(n, plain ? "mm(A, B)" : "mul.Scalar(mm(A, B), alpha)");
}
