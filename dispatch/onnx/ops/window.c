/* What ONNX's attributes say of a window that is moved over an image. */
#include "dispatch/onnx/ops/window.h"

#include <string.h>

#define LARGEST (INT64_C(1) << 31) /* of sizes, strides and pads: their products can be counted */

/* One number a dimension, or otherwise each. */
static bool read_each(struct td_onnx *n, const char *name, int count, int64_t otherwise,
                      int64_t least, int64_t *v)
{
    int given = ints(n, name, v, 2 * TD_MAX_RANK);
    for (int d = 0; given <= 0 && d < count; d++)
        v[d] = otherwise;
    if (given > 0 && given != count)
        refuse(n, "%s: %d numbers are right, not %d", name, count, given);
    for (int d = 0; d < count; d++)
        if (v[d] < least || v[d] > LARGEST)
            refuse(n, "%s: no such number is right: %lld", name, (long long)v[d]);
    return !n->err;
}

void td_onnx_share(struct td_onnx_window *w, const int64_t *amount, bool upper)
{
    for (int d = 0; d < w->dims; d++) {
        int64_t half = (amount[d] - (amount[d] < 0)) / 2; /* downwards */
        w->begin[d] = upper ? half : amount[d] - half;
        w->end[d] = amount[d] - w->begin[d];
    }
}

/* As many results as the image has strides. */
static void pad_to_same(struct td_onnx_window *w, bool upper)
{
    int64_t missing[TD_MAX_RANK];
    for (int d = 0; d < w->dims; d++) {
        int64_t results = (w->image[d] + w->stride[d] - 1) / w->stride[d];
        missing[d] = (results - 1) * w->stride[d] + w->span[d] - w->image[d];
        missing[d] = missing[d] < 0 ? 0 : missing[d];
    }
    td_onnx_share(w, missing, upper);
}

/* A last window that starts behind the image is none. */
static void count_results(struct td_onnx *n, struct td_onnx_window *w)
{
    bool ceil = at(n, "ceil_mode")->v.kind == TD_KIND_bool && at(n, "ceil_mode")->v.i;
    for (int d = 0; d < w->dims; d++) {
        int64_t s = w->stride[d], more = w->image[d] + w->begin[d] + w->end[d] - w->span[d];
        int64_t count = more < 0 ? 0 : (more + (ceil ? s - 1 : 0)) / s + 1;
        if (ceil && count && (count - 1) * s >= w->image[d] + w->begin[d])
            count--;
        w->result[d] = count;
    }
}

bool td_onnx_window(struct td_onnx *n, struct td_onnx_window *w, const char *image,
                    const char *weight)
{
    const struct td_tensor *x = tensor_of(n, image);
    int64_t pads[2 * TD_MAX_RANK];
    *w = (struct td_onnx_window){.dims = x->rank - 2};
    if (x->rank < 3 || (weight && tensor_of(n, weight)->rank != x->rank)) {
        refuse(n, "%s: an image with dimensions behind the first two is right", image);
        return false;
    }
    memcpy(w->image, x->shape + 2, sizeof(int64_t) * (size_t)w->dims);
    if (weight)
        memcpy(w->kernel, tensor_of(n, weight)->shape + 2, sizeof(int64_t) * (size_t)w->dims);
    else if (!has(n, "kernel_shape"))
        refuse(n, "kernel_shape: is missing");
    else
        read_each(n, "kernel_shape", w->dims, 1, 1, w->kernel);
    if (n->err || !read_each(n, "strides", w->dims, 1, 1, w->stride) ||
        !read_each(n, "dilations", w->dims, 1, 1, w->dilation) ||
        !read_each(n, "pads", 2 * w->dims, 0, -LARGEST, pads))
        return false;
    for (int d = 0; d < w->dims; d++) {
        if (w->kernel[d] > LARGEST || w->image[d] > LARGEST) {
            refuse(n, "%s: is too large for a window", image);
            return false;
        }
        w->span[d] = (w->kernel[d] - 1) * w->dilation[d] + 1;
        w->begin[d] = pads[d];
        w->end[d] = pads[w->dims + d];
    }
    const char *automatic = text(n, "auto_pad");
    if (!strncmp(automatic, "SAME", 4))
        pad_to_same(w, !strcmp(automatic, "SAME_UPPER"));
    else if (!strcmp(automatic, "VALID"))
        td_onnx_share(w, (int64_t[TD_MAX_RANK]){0}, true);
    count_results(n, w);
    return !n->err;
}

bool td_onnx_is_even(const struct td_onnx_window *w)
{
    bool even = true;
    for (int d = 0; d < w->dims; d++)
        even = even && w->begin[d] == w->end[d] && w->begin[d] >= 0;
    return even;
}

void td_onnx_let_window(struct td_onnx *n, const struct td_onnx_window *w)
{
    let_ints(n, "strides", w->stride, w->dims);
    let_ints(n, "dilations", w->dilation, w->dims);
    let_ints(n, "kernel", w->kernel, w->dims);
    let_ints(n, "pads", w->begin, w->dims);
    let_ints(n, "zeros", (int64_t[TD_MAX_RANK]){0}, w->dims);
}

void td_onnx_let_around(struct td_onnx *n, const char *name, const int64_t *begin,
                        const int64_t *end, int dims)
{
    int64_t pads[2 * TD_MAX_RANK];
    for (int d = 0; d < dims; d++) {
        pads[2 * (dims - 1 - d)] = begin[d];
        pads[2 * (dims - 1 - d) + 1] = end[d];
    }
    let_ints(n, name, pads, 2 * dims);
}

void td_onnx_pad_image(struct td_onnx *n, const struct td_onnx_window *w, const char *image)
{
    td_onnx_let_window(n, w);
    if (td_onnx_is_even(w))
        return;
    let(n, "image", *at(n, image));
    td_onnx_let_around(n, "around", w->begin, w->end, w->dims);
    set(n, image, "constant_pad_nd(image, around)");
    let_ints(n, "pads", (int64_t[TD_MAX_RANK]){0}, w->dims);
}
