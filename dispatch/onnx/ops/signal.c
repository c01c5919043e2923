/* ONNX's operators on signals: windows, and Fourier transforms by products with matrices. */
#include "dispatch/onnx/ops/onnx.h"
#include "dispatch/walk/walk.h"

#include <math.h>

#define MOST (1 << 26) /* elements of a matrix */

struct transform {
    int64_t size, count; /* elements that there are, and those that are transformed */
    int parts;           /* of the argument: 1 real, 2 complex */
    bool inverse, onesided;
};

/* One factor: of the argument's element i and the result's k, of its part and the other's. */
static double factor(const struct transform *f, int64_t i, int64_t k, int part, int of)
{
    double share = f->inverse ? 1 / (double)f->count : 1;
    double angle = 2 * 3.14159265358979323846 * (double)(i * k % f->count) / (double)f->count;
    if (f->inverse && f->onesided && i && 2 * i != f->count) /* the other half is its conjugate */
        share *= 2;
    if (!f->inverse)
        angle = -angle;
    double cosine = cos(angle) * share, sine = sin(angle) * share;
    return part == of ? cosine : part ? -sine : sine;
}

/* [size, parts, results, result's parts] */
static void let_matrix(struct td_onnx *n, const struct transform *f, int64_t rows, int64_t results,
                       int of)
{
    int64_t elements = rows * f->parts * results * of;
    struct td_tensor t = {.dtype = TD_f64, .rank = 2, .shape = {rows * f->parts, results * of}};
    if (elements > MOST)
        return refuse(n, "is too long: %lld elements", (long long)f->count);
    struct td_block *block = td_block_make(n->walk, td_nbytes(&t));
    if (!block)
        return no_room(n, "its factors");
    double *v = t.data = block->data;
    for (int64_t i = 0; i < rows; i++)
        for (int part = 0; part < f->parts; part++)
            for (int64_t k = 0; k < results * of; k++)
                *v++ = factor(f, i, k / of, part, (int)(k % of));
    let(n, "matrix", (struct td_item){.v = {.kind = TD_KIND_tensor, .tensor = t}, .block = block});
}

/* x: [..., size, parts]; gives [..., results, parts] under the same name. */
static void transform(struct td_onnx *n, struct transform *f)
{
    struct td_tensor x = *tensor_of(n, "x");
    bool half = f->inverse && f->onesided;
    if (x.rank < 2 || f->count < 1 || f->count > MOST)
        return refuse(n, "dft_length: no transform is so long");
    f->size = x.shape[x.rank - 2];
    f->parts = (int)x.shape[x.rank - 1];
    if (f->parts < 1 || f->parts > 2)
        return refuse(n, "input: its last dimension is the real and the imaginary part");
    int64_t rows = half ? f->count / 2 + 1 : f->count;
    int64_t results = f->onesided && !f->inverse ? f->count / 2 + 1 : f->count;
    int of = half ? 1 : 2;
    let_ints(n, "pads", (int64_t[]){0, 0, 0, rows - f->size}, 4);
    set(n, "x", "constant_pad_nd(x, pads)");
    let_matrix(n, f, rows, results, of);
    x.shape[x.rank - 2] = rows * f->parts;
    let_ints(n, "flat", x.shape, x.rank - 1);
    x.shape[x.rank - 2] = results;
    x.shape[x.rank - 1] = of;
    let_ints(n, "sizes", x.shape, x.rank);
    set(n, "x", "to.dtype(reshape(matmul(to.dtype(reshape(x, flat), FP64), matrix), sizes), kind)");
}

void td_onnx_dft(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "input");
    struct transform f = {.inverse = whole(n, "inverse", 0) != 0};
    f.onesided = whole(n, "onesided", 0) != 0;
    if (!has(n, "axis"))
        let_int(n, "axis", n->version < 20 ? 1 : -2);
    int axis = axis_of(n, "axis", x->rank);
    if (x->rank < 2 || axis == x->rank - 1)
        return refuse(n, "axis: the last dimension is that of parts");
    int64_t size = x->shape[axis];
    f.count = whole(n, "dft_length", f.inverse && f.onesided ? 2 * (size - 1) : size);
    let_int(n, "axis", axis);
    set(n, "x", "movedim(input, axis, -2)");
    transform(n, &f);
    give(n, "movedim(x, -2, axis)");
}

void td_onnx_stft(struct td_onnx *n)
{
    struct transform f = {.onesided = whole(n, "onesided", 1) != 0};
    int64_t otherwise = has(n, "window") ? tensor_of(n, "window")->shape[0] : 0;
    f.count = whole(n, "frame_length", otherwise);
    let_int(n, "count", f.count);
    let_int(n, "step", whole(n, "frame_step", 1));
    set(n, "x", "unfold(signal, 1, count, step)"); /* batch, frames, parts, size */
    if (has(n, "window"))
        set(n, "x", "x * window");
    set(n, "x", "transpose(x, 2, 3)");
    transform(n, &f);
    put(n, 0, *at(n, "x"));
}

/* ---- windows ---- */

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
