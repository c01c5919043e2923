/* ONNX's convolutions. */
#include "dispatch/onnx/ops/window.h"

#include <string.h>

void td_onnx_conv(struct td_onnx *n)
{
    struct td_onnx_window w;
    if (!td_onnx_window(n, &w, "X", "W"))
        return;
    td_onnx_pad_image(n, &w, "X");
    give(n, "convolution(X, W, B, strides, pads, dilations, False, zeros, group)");
}

/* Where the operator has no such padding, its full result is cropped. A result that is longer than
 * that is padded with zeros before the bias is added. */
void td_onnx_conv_transpose(struct td_onnx *n)
{
    struct td_onnx_window w;
    int64_t more[2 * TD_MAX_RANK] = {0}, wanted[2 * TD_MAX_RANK], amount[TD_MAX_RANK];
    int64_t tail[TD_MAX_RANK], head[TD_MAX_RANK];
    bool same = !strncmp(text(n, "auto_pad"), "SAME", 4), direct, beyond = false;
    if (!td_onnx_window(n, &w, "X", "W"))
        return;
    int extra = ints(n, "output_padding", more, w.dims),
        sizes = ints(n, "output_shape", wanted, w.dims);
    if ((extra > 0 && extra != w.dims) || (sizes > 0 && sizes != w.dims))
        return refuse(n, "output_padding, output_shape: %d numbers are right", w.dims);
    for (int d = 0; d < w.dims; d++) {
        int64_t all = w.stride[d] * (w.image[d] - 1) + more[d] + w.span[d];
        int64_t size = sizes > 0 ? wanted[d] : same ? w.image[d] * w.stride[d] : all;
        if (more[d] < 0 || more[d] > INT32_MAX || size < 0 || size > INT32_MAX)
            return refuse(n, "output_padding, output_shape: no image has such sizes");
        amount[d] = all - size;
    }
    if (sizes > 0 || same)
        td_onnx_share(&w, amount, !strcmp(text(n, "auto_pad"), "SAME_UPPER"));
    for (int d = 0; sizes > 0 && !same && d < w.dims; d++)
        if (amount[d] < 0) { /* output_shape is larger: pad at the end */
            w.begin[d] = 0;
            w.end[d] = amount[d];
        }
    direct = td_onnx_is_even(&w);
    for (int d = 0; d < w.dims; d++) {
        direct = direct && (more[d] < w.stride[d] || more[d] < w.dilation[d]);
        head[d] = -w.begin[d];
        tail[d] = more[d] - w.end[d];
        beyond = beyond || head[d] > 0 || tail[d] > 0;
    }
    td_onnx_let_window(n, &w);
    let_ints(n, "more", more, w.dims);
    td_onnx_let_around(n, "crop", head, tail, w.dims);
    let_ints(n, "channels", (int64_t[TD_MAX_RANK]){1, -1, 1, 1, 1, 1, 1, 1}, w.dims + 2);
    give(n, direct ? "convolution(X, W, B, strides, pads, dilations, True, more, group)"
            : beyond && has(n, "B")
                ? "constant_pad_nd(convolution(X, W, None, strides, zeros, dilations, True, zeros, "
                  "group), crop) + view(B, channels)"
                : "constant_pad_nd(convolution(X, W, B, strides, zeros, dilations, True, zeros, "
                  "group), crop)");
}

/* Names sums what the whole numbers add up to. */
static void convolve_whole(struct td_onnx *n)
{
    struct td_onnx_window w;
    if (!td_onnx_window(n, &w, "x", "w"))
        return;
    set(n, "x", "to.dtype(x, INT32)");
    set(n, "w", "to.dtype(w, INT32)");
    if (has(n, "x_zero_point"))
        set(n, "x", "x - to.dtype(x_zero_point, INT32)");
    if (has(n, "w_zero_point")) {
        int64_t sizes[TD_MAX_RANK] = {-1, 1, 1, 1, 1, 1, 1, 1};
        let_ints(n, "sizes", sizes, td_numel(tensor_of(n, "w_zero_point")) > 1 ? w.dims + 2 : 1);
        set(n, "w", "w - to.dtype(view(w_zero_point, sizes), INT32)");
    }
    td_onnx_pad_image(n, &w, "x");
    set(n, "sums", "convolution(x, w, None, strides, pads, dilations, False, zeros, group)");
}

void td_onnx_conv_integer(struct td_onnx *n)
{
    convolve_whole(n);
    put(n, 0, *at(n, "sums"));
}

/* Whether qlinear_conv and conv_integer_to_float compute it fast: of images, without groups of
 * several channels and without negative padding. Then it names the arguments that they take. */
static bool is_image(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "x"), *kernel = tensor_of(n, "w");
    int64_t groups = whole(n, "group", 1);
    struct td_onnx_window w;
    if (x->rank != 4 || kernel->rank != 4 ||
        !(groups == 1 || (groups == x->shape[1] && groups == kernel->shape[0])) ||
        !td_onnx_window(n, &w, "x", "w"))
        return false;
    if (w.begin[0] < 0 || w.begin[1] < 0 || w.end[0] < 0 || w.end[1] < 0)
        return false;
    td_onnx_let_window(n, &w);
    let_ints(n, "pads", (int64_t[]){w.begin[0], w.begin[1], w.end[0], w.end[1]}, 4);
    let_ints(n, "last", (int64_t[]){0, 2, 3, 1}, 4);
    let_ints(n, "first", (int64_t[]){0, 3, 1, 2}, 4);
    return true;
}

void td_onnx_conv_to_float(struct td_onnx *n)
{
    int64_t sizes[TD_MAX_RANK] = {1, -1, 1, 1, 1, 1, 1, 1};
    if (is_image(n))
        return give(n, "permute(conv_integer_to_float(permute(x, last), x_scale, x_zero_point, w, "
                       "w_scale, w_zero_point, B, strides, pads, dilations, group), first)");
    convolve_whole(n);
    let_ints(n, "channels", sizes, n->err ? 0 : tensor_of(n, "sums")->rank);
    set(n, "scale", "x_scale * w_scale");
    if (td_numel(tensor_of(n, "scale")) > 1)
        set(n, "scale", "view(scale, channels)");
    set(n, "y", "to.dtype(sums, FP32) * scale");
    if (has(n, "B"))
        set(n, "y", "y + view(B, channels)");
    put(n, 0, *at(n, "y"));
}

void td_onnx_qlinear_conv(struct td_onnx *n)
{
    if (is_image(n))
        return give(n, "permute(qlinear_conv(permute(x, last), x_scale, x_zero_point, w, w_scale, "
                       "w_zero_point, y_scale, y_zero_point, B, strides, pads, dilations, group), "
                       "first)");
    enum td_dtype type = tensor_of(n, "y_zero_point")->dtype;
    convolve_whole(n);
    int64_t sizes[TD_MAX_RANK] = {1, -1, 1, 1, 1, 1, 1, 1};
    int rank = n->err ? 0 : tensor_of(n, "sums")->rank;
    let_ints(n, "channels", sizes, rank);
    if (has(n, "B"))
        set(n, "sums", "sums + view(B, channels)");
    set(n, "scale", "x_scale * w_scale / y_scale");
    if (td_numel(tensor_of(n, "scale")) > 1)
        set(n, "scale", "view(scale, channels)");
    let_int(n, "zero", whole(n, "y_zero_point", 0));
    let_int(n, "least", type == TD_u8 ? 0 : -128);
    let_int(n, "most", type == TD_u8 ? 255 : 127);
    let(n, "type", td_item_dtype(type));
    give(n, "to.dtype(clamp(add(round(sums * scale), zero), least, most), type)");
}

void td_onnx_causal_conv(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "input"), *w = tensor_of(n, "weight");
    int64_t before = w->shape[2] - 1;
    if (x->rank != 3 || w->rank != 3)
        return refuse(n, "input, weight: three dimensions are right");
    let_ints(n, "sizes", (int64_t[]){x->shape[0], x->shape[1], before}, 3);
    let_int(n, "channels", x->shape[1]);
    if (!has(n, "past_state"))
        set(n, "past_state", "zeros(sizes, dtype=kind)");
    set(n, "x", "cat([past_state, input], 2)");
    let_int(n, "start", n->err ? 0 : tensor_of(n, "x")->shape[2] - before);
    set(n, "y", "conv1d(x, weight, bias, groups=channels)");
    put(n, 0, strcmp(text(n, "activation"), "none") ? eval(n, "silu(y)") : *at(n, "y"));
    put(n, 1, eval(n, "slice.Tensor(x, 2, start)"));
}

void td_onnx_col2im(struct td_onnx *n)
{
    int64_t image[TD_MAX_RANK], block[TD_MAX_RANK], pads[2 * TD_MAX_RANK] = {0};
    int dims = ints(n, "image_shape", image, TD_MAX_RANK);
    int n_pads = ints(n, "pads", pads, 2 * TD_MAX_RANK);
    if (dims != 2 || ints(n, "block_shape", block, TD_MAX_RANK) != 2 || (n_pads > 0 && n_pads != 4))
        return refuse(n, "image_shape: there is no operator for other than two dimensions");
    for (int d = 0; d < 4; d++)
        if (pads[d] < 0 || pads[d] > INT32_MAX || image[d % 2] > INT32_MAX)
            return refuse(n, "pads: no such number is right: %lld", (long long)pads[d]);
    if (!has(n, "dilations"))
        let_ints(n, "dilations", (int64_t[]){1, 1}, 2);
    if (!has(n, "strides"))
        let_ints(n, "strides", (int64_t[]){1, 1}, 2);
    let_ints(n, "image_shape",
             (int64_t[]){image[0] + pads[0] + pads[2], image[1] + pads[1] + pads[3]}, 2);
    let_ints(n, "block_shape", block, 2);
    td_onnx_let_around(n, "crop", (int64_t[]){-pads[0], -pads[1]}, (int64_t[]){-pads[2], -pads[3]},
                       2);
    give(n, "constant_pad_nd(col2im(input, image_shape, block_shape, dilations, [0, 0], strides), "
            "crop)");
}
