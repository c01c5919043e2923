/* ONNX's operators that read images at places between their elements. */
#include "dispatch/onnx/ops/window.h"
#include "dispatch/walk/walk.h"

#include <string.h>

void td_onnx_grid_sample(struct td_onnx *n)
{
    const char *mode = text(n, "mode"), *padding = text(n, "padding_mode");
    let_int(n, "how", !strcmp(mode, "nearest") ? 1 : strstr(mode, "cubic") ? 2 : 0);
    let_int(n, "around", !strcmp(padding, "border") ? 1 : !strcmp(padding, "reflection") ? 2 : 0);
    give(n, "grid_sampler(X, grid, how, around, align_corners)");
}

/* Places of a grid over -1 to 1, and 1, by theta's transpose. */
void td_onnx_affine_grid(struct td_onnx *n)
{
    static const char *const names[] = {"z", "y", "x"};
    const struct td_tensor *theta = tensor_of(n, "theta");
    int64_t size[TD_MAX_RANK], out[TD_MAX_RANK], at_[TD_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    int count = ints(n, "size", size, TD_MAX_RANK), dims = count - 2;
    bool corners = whole(n, "align_corners", 0) != 0;
    if ((dims != 2 && dims != 3) || theta->rank != 3)
        return refuse(n, "size: four or five numbers are right, and three dimensions of theta");
    for (int d = 0; d < dims; d++) {
        int64_t own[TD_MAX_RANK];
        double end = corners ? 1 : 1 - 1 / (double)size[2 + d];
        memcpy(own, at_, sizeof own);
        own[d] = size[2 + d];
        out[1 + d] = size[2 + d];
        let(n, "first", td_item_float(-end));
        let(n, "last", td_item_float(end));
        let_int(n, "count", size[2 + d]);
        let_ints(n, "line", own, dims);
        let_ints(n, "image", size + 2, dims);
        set(n, names[3 - dims + d],
            "expand(view(linspace(first, last, count, dtype=kind), line), image)");
    }
    out[0] = size[0];
    out[1 + dims] = dims;
    let_ints(n, "out", out, dims + 2);
    let_ints(n, "rows", (int64_t[]){1, -1, dims + 1}, 3);
    set(n, "base",
        dims == 3 ? "stack([x, y, z, ones_like(x)], -1)" : "stack([x, y, ones_like(x)], -1)");
    give(n, "view(matmul(view(base, rows), transpose(theta, 1, 2)), out)");
}

/* Names values x at the places y and x, given in its elements: there and back in FP64. */
static void sample(struct td_onnx *n, const char *image, int64_t around)
{
    const struct td_tensor *t = tensor_of(n, image);
    let(n, "of", *at(n, image));
    let_int(n, "high", t->shape[2]);
    let_int(n, "wide", t->shape[3]);
    let_int(n, "around", around);
    set(n, "gy", "(to.dtype(y, FP64) * 2 + 1) / high - 1");
    set(n, "gx", "(to.dtype(x, FP64) * 2 + 1) / wide - 1");
    set(n, "values",
        "to.dtype(grid_sampler(to.dtype(of, FP64), stack([gx, gy], -1), 0, around, "
        "False), kind)");
}

/* Names name the places of the samples along a dimension, and within whether they lie there. */
static void let_line(struct td_onnx *n, const char *name, const char *within, int side,
                     int64_t size, bool half)
{
    int64_t results = whole(n, side ? "output_height" : "output_width", 1);
    int64_t samples = whole(n, "sampling_ratio", 0);
    if (results < 1 || results > INT32_MAX || samples > INT32_MAX)
        return refuse(n, "output_height, output_width: no image has such sizes");
    let_int(n, "low_side", side);
    let_int(n, "high_side", side + 2);
    let_int(n, "count", results * samples);
    let_int(n, "size", size);
    set(n, "low", "view(select(box, 1, low_side), [-1, 1])");
    set(n, "long", "sub(view(select(box, 1, high_side), [-1, 1]), low)");
    if (!half)
        set(n, "long", "clamp_min(long, 1)");
    set(n, name, "addcmul(low, long, view((arange(count, dtype=kind) + 0.5) / count, [1, -1]))");
    let(n, "line", *at(n, name));
    set(n, within, "logical_and(ge(line, -1), le(line, size))");
}

void td_onnx_roi_align(struct td_onnx *n)
{
    struct td_tensor x = *tensor_of(n, "X");
    int64_t samples = whole(n, "sampling_ratio", 0);
    bool half =
        n->version >= 16 && !strcmp(text(n, "coordinate_transformation_mode"), "half_pixel");
    if (strcmp(text(n, "mode"), "avg") != 0 || samples < 1 || x.rank != 4)
        return refuse(n, "there is no operator for largest shares, or for as many samples as a box "
                         "has elements");
    let(n, "half", td_item_float(half ? 0.5 : 0));
    let_ints(n, "samples", (int64_t[]){samples, samples}, 2);
    set(n, "box", "rois * spatial_scale - half");
    let_line(n, "y", "in_y", 1, x.shape[2], half);
    let_line(n, "x", "in_x", 0, x.shape[3], half);
    const struct td_tensor *y = tensor_of(n, "y");
    let_ints(n, "sizes", (int64_t[]){y->shape[0], y->shape[1], tensor_of(n, "x")->shape[1]}, 3);
    set(n, "y", "expand(unsqueeze(y, 2), sizes)");
    set(n, "x", "expand(unsqueeze(x, 1), sizes)");
    set(n, "in", "logical_and(unsqueeze(in_y, 2), unsqueeze(in_x, 1))");
    set(n, "images", "index_select(X, 0, batch_indices)");
    sample(n, "images", 1);
    give(n, "avg_pool2d(masked_fill(values, logical_not(unsqueeze(in, 1)), 0), samples)");
}

/* ---- deformed convolutions ---- */

/* Names where the taps lie along a dimension, without offsets. */
static void let_taps(struct td_onnx *n, const char *name, const struct td_onnx_window *w, int d)
{
    int64_t taps = w->kernel[0] * w->kernel[1], all = taps * w->result[0] * w->result[1];
    struct td_block *block =
        all < INT32_MAX ? td_block_make(n->walk, sizeof(double) * (size_t)all) : NULL;
    if (!block)
        return no_room(n, "its places");
    double *v = (void *)block->data;
    for (int64_t i = 0; i < all; i++) {
        int64_t place = i % (w->result[0] * w->result[1]), tap = i / (w->result[0] * w->result[1]);
        int64_t k = d ? tap % w->kernel[1] : tap / w->kernel[1];
        int64_t r = d ? place % w->result[1] : place / w->result[1];
        v[i] = (double)(k * w->dilation[d] + r * w->stride[d] - w->begin[d]);
    }
    struct td_tensor t = {
        .data = v, .dtype = TD_f64, .rank = 3, .shape = {taps, w->result[0], w->result[1]}};
    let(n, "taps", (struct td_item){.v = {.kind = TD_KIND_tensor, .tensor = t}, .block = block});
    set(n, name, "to.dtype(taps, kind)");
}

/* The columns of one group of offsets. */
static struct td_item deform(struct td_onnx *n, int64_t part, int64_t channels)
{
    let_int(n, "part", part);
    let_int(n, "from", part * channels);
    let_int(n, "until", (part + 1) * channels);
    set(n, "own", "select(apart, 1, part)");
    set(n, "y", "view(select(own, 2, 0) + rows, plane)");
    set(n, "x", "view(select(own, 2, 1) + columns, plane)");
    set(n, "image", "slice.Tensor(X, 1, from, until)");
    sample(n, "image", 0);
    set(n, "values", "view(values, column)");
    if (has(n, "mask"))
        set(n, "values", "values * select(view(mask, masks), 1, part)");
    return *at(n, "values");
}

void td_onnx_deform_conv(struct td_onnx *n)
{
    struct td_onnx_window w;
    struct td_tensor x = *tensor_of(n, "X"), kernel = *tensor_of(n, "W");
    int64_t parts = whole(n, "offset_group", 1), group = whole(n, "group", 1);
    if (!td_onnx_window(n, &w, "X", "W"))
        return;
    bool large = w.kernel[0] > 1 << 15 || w.kernel[1] > 1 << 15 || w.result[0] > 1 << 15 ||
                 w.result[1] > 1 << 15;
    if (w.dims != 2 || large || parts < 1 || group < 1 || x.shape[1] % parts ||
        x.shape[1] % group || kernel.shape[0] % group)
        return refuse(n, "X, W: there is no operator for other than two dimensions, and groups "
                         "must divide channels");
    int64_t taps = w.kernel[0] * w.kernel[1], high = w.result[0], wide = w.result[1];
    int64_t batch = x.shape[0], each = x.shape[1] / parts;
    let_taps(n, "rows", &w, 0);
    let_taps(n, "columns", &w, 1);
    let_ints(n, "all", (int64_t[]){batch, parts, taps, 2, high, wide}, 6);
    let_ints(n, "masks", (int64_t[]){batch, parts, 1, taps, high, wide}, 6);
    let_ints(n, "plane", (int64_t[]){batch, taps * high, wide}, 3);
    let_ints(n, "column", (int64_t[]){batch, each, taps, high, wide}, 5);
    set(n, "apart", "view(offset, all)");
    for (int64_t part = 0; part < parts && !n->err; part++) {
        let(n, "more", deform(n, part, each));
        set(n, "all_columns", part ? "cat([all_columns, more], 1)" : "alias(more)");
    }
    let_ints(n, "grouped", (int64_t[]){batch, group, x.shape[1] / group * taps, high * wide}, 4);
    let_ints(n, "weights", (int64_t[]){1, group, kernel.shape[0] / group, -1}, 4);
    let_ints(n, "out", (int64_t[]){batch, kernel.shape[0], high, wide}, 4);
    set(n, "y", "view(matmul(view(W, weights), view(all_columns, grouped)), out)");
    give(n, has(n, "B") ? "y + view(B, [1, -1, 1, 1])" : "alias(y)");
}
