/* ONNX's operators that make tensors of numbers, and windows of signals. */
#include "dispatch/model/onnx.h"

#include <math.h>

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

void td_onnx_range(struct td_onnx *n)
{
    static const char *const names[] = {"start", "limit", "delta"};
    bool floats = tensor_of(n, "start")->dtype & TD_FLOATS;
    for (int i = 0; i < 3; i++)
        let(n, names[i],
            floats ? td_item_float(real(n, names[i], 1)) : td_item_int(whole(n, names[i], 1)));
    give(n, "arange(start, limit, delta, dtype=kind)");
}

/* ---- windows of signals ---- */

/* a + b cos(2 pi i / size) + c cos(4 pi i / size) */
static void window(struct td_onnx *n, double a, double b, double c)
{
    int64_t size = whole(n, "size", 0), period;
    if (size < 0)
        return refuse(n, "size: cannot be less than 0");
    period = size - !whole(n, "periodic", 1);
    let_int(n, "size", size);
    let(n, "turn", td_item_float(2 * 3.14159265358979323846 / (double)period));
    let(n, "a", td_item_float(a));
    let(n, "b", td_item_float(b));
    let(n, "c", td_item_float(c));
    set(n, "x", "arange(size, dtype=FP64) * turn");
    give(n, "to.dtype(cos(x) * b + cos(x * 2) * c + a, output_datatype)");
}

void td_onnx_hann_window(struct td_onnx *n)
{
    window(n, 0.5, -0.5, 0);
}

void td_onnx_hamming_window(struct td_onnx *n)
{
    window(n, 25.0 / 46, -21.0 / 46, 0);
}

void td_onnx_blackman_window(struct td_onnx *n)
{
    window(n, 0.42, -0.5, 0.08);
}
