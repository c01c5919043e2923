/* ONNX's operators that make tensors of numbers. */
#include "dispatch/onnx/ops/onnx.h"

void td_onnx_constant_of_shape(struct td_onnx *n)
{
    int64_t sizes[TD_MAX_RANK];
    int rank = ints(n, "input", sizes, TD_MAX_RANK);
    enum td_dtype type = has(n, "value") ? tensor_of(n, "value")->dtype : TD_f32;
    let_ints(n, "sizes", sizes, rank < 0 ? 0 : rank);
    let(n, "type", td_item_dtype(type));
    let(n, "number", td_item_float(type & TD_FLOATS ? real(n, "value", 0) : 0));
    if (!(type & TD_FLOATS))
        let_int(n, "number", whole(n, "value", 0));
    give(n, "full(sizes, number, dtype=type)");
}

void td_onnx_eye_like(struct td_onnx *n)
{
    if (!has(n, "dtype"))
        let(n, "dtype", *at(n, "kind"));
    set(n, "x", "zeros_like(input, dtype=dtype)");
    give(n, "diagonal_scatter(x, ones_like(diagonal(x, k)), k)");
}

/* Where delta leads away from limit there is nothing. */
void td_onnx_range(struct td_onnx *n)
{
    static const char *const names[] = {"start", "limit", "delta"};
    bool floats = tensor_of(n, "start")->dtype & TD_FLOATS;
    double start = real(n, "start", 0), limit = real(n, "limit", 0), delta = real(n, "delta", 1);
    for (int i = 0; i < 3; i++)
        let(n, names[i],
            floats ? td_item_float(real(n, names[i], 1)) : td_item_int(whole(n, names[i], 1)));
    bool away = (delta > 0 && limit < start) || (delta < 0 && limit > start);
    give(n, away ? "arange(start, start, delta, dtype=kind)"
                 : "arange(start, limit, delta, dtype=kind)");
}
