/* ONNX's pools. */
#include "dispatch/onnx/ops/window.h"
#include "kernels/sizes.h"

#include <stdio.h>
#include <string.h>

static bool at_most_half(const struct td_onnx_window *w)
{
    bool right = td_onnx_is_even(w);
    for (int d = 0; d < w->dims; d++)
        right = right && 2 * w->begin[d] <= w->kernel[d];
    return right;
}

/* A pool's window: pads that a file gives are less than the kernel, as ONNX Runtime and PyTorch
 * want them. */
static bool pool_window(struct td_onnx *n, struct td_onnx_window *w)
{
    if (!td_onnx_window(n, w, "X", NULL))
        return false;
    bool automatic = !strncmp(text(n, "auto_pad"), "SAME", 4);
    for (int d = 0; d < w->dims && !automatic; d++) {
        int64_t most = w->begin[d] > w->end[d] ? w->begin[d] : w->end[d];
        if (most >= w->kernel[d])
            unfit(n, "pads: %lld, but the kernel is %lld wide there; less is right",
                  (long long)most, (long long)w->kernel[d]);
    }
    return !n->err;
}

/* What the last windows need behind the image. */
static void reach(const struct td_onnx_window *w, int64_t *end)
{
    for (int d = 0; d < w->dims; d++)
        end[d] = (w->result[d] - 1) * w->stride[d] + w->span[d] - w->image[d] - w->begin[d];
}

static void let_lowest(struct td_onnx *n, enum td_dtype type)
{
    if (type & TD_FLOATS)
        let(n, "lowest", td_item_float(-__builtin_inf()));
    else
        let_int(n, "lowest", type == TD_i8 ? -128 : 0);
}

/* Of a plane each, one behind the other; storage_order: the first dimension's neighbours lie side
 * by side. */
static void give_places(struct td_onnx *n, const struct td_onnx_window *w)
{
    const struct td_tensor *x = tensor_of(n, "X");
    int64_t place = 1, planes[TD_MAX_RANK] = {x->shape[0], x->shape[1], 1, 1, 1, 1, 1, 1};
    int64_t plane = 1, count = x->shape[0] * x->shape[1];
    for (int d = 0; d < w->dims; d++)
        plane *= w->image[d];
    for (int d = 0; d < w->dims - 1; d++)
        place *= w->image[d];
    set(n, "rest", "alias(places)");
    bool columns = whole(n, "storage_order", 0) != 0;
    for (int d = w->dims - 1; columns && d >= 0; d--) {
        let_int(n, "size", w->image[d]);
        let_int(n, "place", place);
        set(n, "part", "remainder.Scalar(rest, size) * place");
        set(n, "rest", "floor_divide(rest, size)");
        set(n, "places", d == w->dims - 1 ? "alias(part)" : "places + part");
        place /= d ? w->image[d - 1] : 1;
    }
    let_int(n, "count", count);
    let_int(n, "plane", plane);
    let_ints(n, "planes", planes, w->dims + 2);
    put(n, 1, eval(n, "places + view(arange(count, dtype=INT64) * plane, planes)"));
}

/* How many windows max_pool finds along dimension d with the pads before on both sides. */
static int64_t with_even_pads(const struct td_onnx_window *w, int d, bool ceil)
{
    int64_t s = w->stride[d], more = w->image[d] + 2 * w->begin[d] - w->span[d];
    int64_t count = more < 0 ? 0 : (more + (ceil ? s - 1 : 0)) / s + 1;
    return count - (ceil && count && (count - 1) * s >= w->image[d] + w->begin[d]);
}

/* Whether the same windows are found with other pads behind, in ceil mode if that says so: of what
 * is outside none is the largest, however much of it a window has. */
static bool fits_evenly(const struct td_onnx_window *w, bool ceil)
{
    bool right = true;
    for (int d = 0; d < w->dims; d++)
        right = right && w->begin[d] >= 0 && 2 * w->begin[d] <= w->kernel[d] &&
                with_even_pads(w, d, ceil) == w->result[d];
    return right;
}

void td_onnx_max_pool(struct td_onnx *n)
{
    struct td_onnx_window w;
    int64_t end[TD_MAX_RANK];
    char formula[120];
    if (!pool_window(n, &w))
        return;
    bool direct = at_most_half(&w), places = wants(n, 1);
    td_onnx_let_window(n, &w);
    if (!direct && (fits_evenly(&w, false) || fits_evenly(&w, true))) {
        let(n, "ceil_mode", td_item_bool(!fits_evenly(&w, false)));
        direct = true;
    }
    if (!direct && places)
        return refuse(n, "there is no operator for indices into an image with other pads before "
                         "than behind");
    if (!direct) {
        reach(&w, end);
        td_onnx_let_around(n, "around", w.begin, end, w.dims);
        let_lowest(n, tensor_of(n, "X")->dtype);
        set(n, "X", "constant_pad_nd(X, around, lowest)");
        let_ints(n, "pads", (int64_t[TD_MAX_RANK]){0}, w.dims);
        let(n, "ceil_mode", td_item_bool(false));
    }
    /* max_pool1d is of floats alone. */
    bool both = places || (w.dims == 1 && !(tensor_of(n, "X")->dtype & TD_FLOATS));
    snprintf(formula, sizeof formula,
             "max_pool%dd%s(X, kernel, strides, pads, dilations, ceil_mode)", w.dims,
             both ? "_with_indices" : "");
    if (!both)
        return give(n, formula);
    char one[140];
    snprintf(one, sizeof one, "%s[0]", formula);
    put(n, 0, eval(n, one));
    if (!places)
        return;
    snprintf(one, sizeof one, "%s[1]", formula);
    set(n, "places", one);
    give_places(n, &w);
}

/* Names result the sums of the windows of x, where the last ones may reach beyond the pads, which
 * are full of value. */
static void add_windows(struct td_onnx *n, const struct td_onnx_window *w, const char *x,
                        const char *result, double value)
{
    int64_t beyond[TD_MAX_RANK], sizes[TD_MAX_RANK], none[TD_MAX_RANK] = {0};
    reach(w, beyond);
    sizes[0] = tensor_of(n, x)->shape[1];
    sizes[1] = 1;
    for (int d = 0; d < w->dims; d++) {
        sizes[2 + d] = w->kernel[d];
        beyond[d] = beyond[d] > w->end[d] ? beyond[d] - w->end[d] : 0;
    }
    td_onnx_let_window(n, w);
    td_onnx_let_around(n, "around", w->begin, w->end, w->dims);
    td_onnx_let_around(n, "beyond", none, beyond, w->dims);
    let(n, "image", *at(n, x));
    let(n, "value", td_item_float(value));
    let_ints(n, "sizes", sizes, w->dims + 2);
    let_int(n, "channels", sizes[0]);
    set(n, result,
        "convolution(constant_pad_nd(constant_pad_nd(image, around, value), beyond), ones(sizes, "
        "dtype=kind), None, strides, zeros, dilations, False, zeros, channels)");
}

void td_onnx_average_pool(struct td_onnx *n)
{
    struct td_onnx_window w;
    char formula[120];
    if (!pool_window(n, &w))
        return;
    bool direct = at_most_half(&w);
    for (int d = 0; d < w.dims; d++)
        direct = direct && w.dilation[d] == 1;
    td_onnx_let_window(n, &w);
    snprintf(formula, sizeof formula,
             "avg_pool%dd(X, kernel, strides, pads, ceil_mode, count_include_pad)", w.dims);
    if (direct)
        return give(n, formula);
    set(n, "ones", "ones_like(X)");
    add_windows(n, &w, "X", "total", 0);
    add_windows(n, &w, "ones", "share", (double)at(n, "count_include_pad")->v.i);
    give(n, "total / share");
}

void td_onnx_lp_pool(struct td_onnx *n)
{
    struct td_onnx_window w;
    if (!pool_window(n, &w))
        return;
    let(n, "root", td_item_float(1 / real(n, "p", 2)));
    set(n, "X", "pow(abs(X), p)");
    add_windows(n, &w, "X", "total", 0);
    give(n, "pow(total, root)");
}

void td_onnx_max_unpool(struct td_onnx *n)
{
    struct td_onnx_window w;
    int64_t sizes[TD_MAX_RANK], wanted[TD_MAX_RANK], none[TD_MAX_RANK] = {0};
    if (!td_onnx_window(n, &w, "X", NULL))
        return;
    int rank = w.dims + 2, given = ints(n, "output_shape", wanted, TD_MAX_RANK);
    int64_t all = 1;
    for (int d = 0; d < rank; d++) {
        int i = d - 2;
        sizes[d] = d < 2 ? tensor_of(n, "X")->shape[d]
                         : (w.image[i] - 1) * w.stride[i] + w.kernel[i] - w.begin[i] - w.end[i];
        if (sizes[d] < 0 || !td_size_times(all, sizes[d], &all))
            return refuse(n, "pads: no image has such sizes");
    }
    if (given > 0 && given != rank)
        return refuse(n, "output_shape: %d numbers are right", rank);
    let_ints(n, "sizes", sizes, rank);
    let_int(n, "all", all);
    set(n, "y",
        "view(scatter.src(zeros([all], dtype=kind), 0, view(I, [-1]), view(X, [-1])), "
        "sizes)");
    for (int d = 0; d < rank && given > 0; d++)
        if (!td_size_minus(wanted[d], sizes[d], &wanted[d]))
            return refuse(n, "output_shape: no image has such sizes");
    td_onnx_let_around(n, "around", none, given > 0 ? wanted : none, rank);
    give(n, given > 0 ? "constant_pad_nd(y, around)" : "alias(y)");
}
