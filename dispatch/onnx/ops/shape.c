/* ONNX's operators that change shapes, or move elements without looking at them. */
#include "dispatch/onnx/ops/onnx.h"
#include "dispatch/onnx/ops/window.h"
#include "dispatch/walk/walk.h"
#include "kernels/sizes.h"

#include <string.h>

#define MOST (1 << 20) /* of a block, and of a dimension that is padded by its own elements */

static int64_t product(const int64_t *v, int n)
{
    int64_t all = 1; /* of a tensor's sizes: they fit */
    for (int i = 0; i < n; i++)
        all *= v[i];
    return all;
}

void td_onnx_shape(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "data");
    int64_t rank = x->rank, start = whole(n, "start", 0), end = whole(n, "end", rank);
    struct td_item item = {0};
    start = start < -rank ? 0 : start < 0 ? start + rank : start > rank ? rank : start;
    end = end < -rank ? 0 : end < 0 ? end + rank : end > rank ? rank : end;
    if (!n->err)
        n->err = td_walk_tensor_i64(n->walk, x->shape + start, (int)(end > start ? end - start : 0),
                                    &item);
    put(n, 0, item);
}

void td_onnx_size(struct td_onnx *n)
{
    int64_t size = td_numel(tensor_of(n, "data"));
    struct td_item item = {0};
    if (!n->err)
        n->err = td_walk_tensor_i64(n->walk, &size, -1, &item);
    put(n, 0, item);
}

void td_onnx_reshape(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "data");
    int64_t sizes[TD_MAX_RANK];
    int rank = ints(n, "shape", sizes, TD_MAX_RANK);
    bool zero = whole(n, "allowzero", 0) != 0;
    for (int d = 0; d < rank; d++) {
        if (sizes[d] == 0 && !zero && d >= x->rank)
            refuse(n, "shape: 0 at %d, where data has no dimension", d);
        else if (sizes[d] == 0 && !zero)
            sizes[d] = x->shape[d];
    }
    if (rank < 0)
        refuse(n, "shape: is missing");
    let_ints(n, "sizes", sizes, rank < 0 ? 0 : rank);
    give(n, "reshape(data, sizes)");
}

void td_onnx_flatten(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "input");
    int axis = whole(n, "axis", 1) == x->rank ? x->rank : axis_of(n, "axis", x->rank);
    let_ints(n, "sizes",
             (int64_t[]){product(x->shape, axis), product(x->shape + axis, x->rank - axis)}, 2);
    give(n, "view(input, sizes)");
}

void td_onnx_squeeze(struct td_onnx *n)
{
    int64_t axes[TD_MAX_RANK];
    int count = ints(n, "axes", axes, TD_MAX_RANK);
    if (count >= 0)
        let_ints(n, "axes", axes, count);
    const struct td_tensor *x = tensor_of(n, "data");
    for (int i = 0; i < count; i++) {
        int64_t d = axes[i] < 0 ? axes[i] + x->rank : axes[i];
        if (d >= 0 && d < x->rank && x->shape[d] != 1)
            refuse(n, "axes: dimension %lld is of %lld elements, not of one", (long long)axes[i],
                   (long long)x->shape[d]);
    }
    give(n, count < 0 ? "squeeze(data)" : "squeeze.dims(data, axes)");
}

void td_onnx_unsqueeze(struct td_onnx *n)
{
    int64_t axes[TD_MAX_RANK];
    int count = ints(n, "axes", axes, TD_MAX_RANK), rank = tensor_of(n, "data")->rank + count;
    unsigned seen = 0;
    if (count < 0)
        return refuse(n, "axes: are missing");
    for (int i = 0; i < count; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 0 || axis >= rank || rank > TD_MAX_RANK || seen & 1u << axis)
            return refuse(n, "axes: %lld is none of %d dimensions, or is there twice",
                          (long long)axes[i], rank);
        seen |= 1u << axis;
    }
    for (int axis = 0; axis < rank; axis++) {
        let_int(n, "axis", axis);
        if (seen & 1u << axis)
            set(n, "data", "unsqueeze(data, axis)");
    }
    put(n, 0, *at(n, "data"));
}

void td_onnx_expand(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "input");
    int64_t sizes[TD_MAX_RANK], all[TD_MAX_RANK];
    int count = ints(n, "shape", sizes, TD_MAX_RANK), rank = count > x->rank ? count : x->rank;
    for (int d = 0; d < rank; d++) {
        int64_t own = d < rank - x->rank ? 1 : x->shape[d - (rank - x->rank)];
        int64_t wanted = d < rank - count ? 1 : sizes[d - (rank - count)];
        all[d] = wanted == 1 ? own : wanted;
    }
    let_ints(n, "sizes", all, rank);
    give(n, "expand(input, sizes)");
}

void td_onnx_tile(struct td_onnx *n)
{
    int64_t repeats[TD_MAX_RANK];
    int count = ints(n, "repeats", repeats, TD_MAX_RANK);
    let_ints(n, "repeats", repeats, count < 0 ? 0 : count);
    give(n, "repeat(input, repeats)");
}

void td_onnx_transpose(struct td_onnx *n)
{
    int64_t perm[TD_MAX_RANK];
    int rank = tensor_of(n, "data")->rank;
    for (int d = 0; d < rank; d++)
        perm[d] = rank - 1 - d;
    if (!has(n, "perm"))
        let_ints(n, "perm", perm, rank);
    give(n, "permute(data, perm)");
}

void td_onnx_trilu(struct td_onnx *n)
{
    let_int(n, "k", whole(n, "k", 0));
    give(n, whole(n, "upper", 1) ? "triu(input, k)" : "tril(input, k)");
}

void td_onnx_split(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "input");
    int64_t start = 0, part, sizes[TD_MAX_OUTS];
    int axis = axis_of(n, "axis", x->rank), outs = n->node->n_outs;
    if (outs > TD_MAX_OUTS || !x->rank)
        return refuse(n, "at most %d results, of a tensor with dimensions, are right", TD_MAX_OUTS);
    int count = ints(n, "split", sizes, TD_MAX_OUTS);
    if (count >= 0 && count != outs)
        return refuse(n, "split: %d parts are not %d results", count, outs);
    let_int(n, "axis", axis);
    for (int i = 0; i < outs; i++) {
        int64_t each = (x->shape[axis] + outs - 1) / outs, left = x->shape[axis] - start;
        part = count >= 0 ? sizes[i] : each < left ? each : left;
        if (part < 0 || part > left || (i == outs - 1 && part != left))
            return refuse(n, "split: its parts do not add up to %lld", (long long)x->shape[axis]);
        let_int(n, "start", start);
        let_int(n, "end", start + part);
        start += part;
        if (wants(n, i))
            put(n, i, eval(n, "slice.Tensor(input, axis, start, end)"));
    }
}

/* One dimension, as Python slices. */
static void slice_one(struct td_onnx *n, int64_t size, int64_t start, int64_t end, int64_t step)
{
    int64_t least = step < 0 ? -1 : 0, most = step < 0 ? size - 1 : size;
    start += start < 0 ? size : 0;
    end += end < 0 ? size : 0;
    start = start < least ? least : start > most ? most : start;
    end = end < least ? least : end > most ? most : end;
    if (step < 0) { /* ATen goes forwards only */
        set(n, "data", "flip(data, [axis])");
        start = size - 1 - start;
        end = size - 1 - end;
        step = step == INT64_MIN ? INT64_MAX : -step;
    }
    if (start == 0 && end == size && step == 1)
        return;
    let_int(n, "start", start);
    let_int(n, "end", end > start ? end : start);
    let_int(n, "step", step);
    set(n, "data", "slice.Tensor(data, axis, start, end, step)");
}

void td_onnx_slice(struct td_onnx *n)
{
    struct td_tensor x = *tensor_of(n, "data");
    int64_t starts[TD_MAX_RANK], ends[TD_MAX_RANK], axes[TD_MAX_RANK], steps[TD_MAX_RANK];
    int count = ints(n, "starts", starts, TD_MAX_RANK), n_ends = ints(n, "ends", ends, TD_MAX_RANK);
    int n_axes = ints(n, "axes", axes, TD_MAX_RANK), n_steps = ints(n, "steps", steps, TD_MAX_RANK);
    if (count < 0 || n_ends != count || (n_axes > 0 && n_axes != count) ||
        (n_steps > 0 && n_steps != count) || count > x.rank)
        return refuse(n, "starts, ends, axes and steps must be as many, and at most as data has "
                         "dimensions");
    for (int i = 0; i < count && !n->err; i++) {
        int64_t axis = n_axes > 0 ? axes[i] : i, step = n_steps > 0 ? steps[i] : 1;
        axis += axis < 0 ? x.rank : 0;
        if (axis < 0 || axis >= x.rank || !step)
            return refuse(n, "axes, steps: %lld is no dimension, or a step is 0",
                          (long long)axes[i]);
        let_int(n, "axis", axis);
        slice_one(n, tensor_of(n, "data")->shape[axis], starts[i], ends[i], step);
    }
    put(n, 0, *at(n, "data"));
}

/* ---- pads ---- */

/* Where element i of a padded dimension lies in the unpadded one. */
static int64_t source(int64_t i, int64_t size, char mode)
{
    if (mode == 'e') /* edge */
        return i < 0 ? 0 : i >= size ? size - 1 : i;
    if (mode == 'w') /* wrap */
        return (i % size + size) % size;
    int64_t period = size > 1 ? 2 * size - 2 : 1; /* reflect */
    i = (i % period + period) % period;
    return i < size ? i : period - i;
}

static void pad_by_index(struct td_onnx *n, int axis, int64_t begin, int64_t end, char mode)
{
    int64_t size = tensor_of(n, "data")->shape[axis], all;
    if ((!begin && !end) || n->err)
        return;
    bool far = begin > MOST || begin < -MOST || end > MOST || end < -MOST || size > MOST;
    all = far ? -1 : size + begin + end;
    if (!size || all < 0)
        return refuse(n, "pads: nothing of %lld elements is padded so", (long long)size);
    struct td_block *room = td_block_make(n->walk, sizeof(int64_t) * (size_t)all);
    if (!room)
        return no_room(n, "the padded places");
    int64_t *v = (void *)room->data;
    struct td_item item = {.v = {.kind = TD_KIND_tensor}, .block = room};
    for (int64_t i = 0; i < all; i++)
        v[i] = source(i - begin, size, mode);
    item.v.tensor = (struct td_tensor){.data = v, .dtype = TD_i64, .rank = 1, .shape = {all}};
    let(n, "places", item);
    let_int(n, "axis", axis);
    set(n, "data", "index_select(data, axis, places)");
}

void td_onnx_pad(struct td_onnx *n)
{
    int64_t pads[2 * TD_MAX_RANK], axes[TD_MAX_RANK], begin[TD_MAX_RANK] = {0};
    int64_t end[TD_MAX_RANK] = {0};
    int rank = tensor_of(n, "data")->rank, count = ints(n, "pads", pads, 2 * TD_MAX_RANK);
    int n_axes = ints(n, "axes", axes, TD_MAX_RANK), dims = n_axes > 0 ? n_axes : rank;
    char mode = *text(n, "mode");
    if (count != 2 * dims)
        return refuse(n, "pads: two numbers for each of %d dimensions are right", dims);
    for (int i = 0; i < dims; i++) {
        int64_t d = n_axes <= 0 ? i : axes[i] < 0 ? axes[i] + rank : axes[i];
        if (d < 0 || d >= rank)
            return refuse(n, "axes: %lld is none of %d dimensions", (long long)axes[i], rank);
        begin[d] = pads[i];
        end[d] = pads[i + dims];
    }
    if (mode != 'c') {
        for (int d = 0; d < rank; d++)
            pad_by_index(n, d, begin[d], end[d], mode);
        return put(n, 0, *at(n, "data"));
    }
    double value = real(n, has(n, "constant_value") ? "constant_value" : "value", 0);
    td_onnx_let_around(n, "pads", begin, end, rank);
    let(n, "value", td_item_float(value));
    if (!(tensor_of(n, "data")->dtype & TD_FLOATS))
        let_int(n, "value", whole(n, "constant_value", 0));
    give(n, "constant_pad_nd(data, pads, value)");
}

void td_onnx_center_crop_pad(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "input_data");
    int64_t axes[TD_MAX_RANK], sizes[TD_MAX_RANK], begin[TD_MAX_RANK] = {0};
    int64_t end[TD_MAX_RANK] = {0};
    int rank = x->rank, count = ints(n, "shape", sizes, TD_MAX_RANK);
    int n_axes = ints(n, "axes", axes, TD_MAX_RANK);
    if (count != (n_axes < 0 ? rank : n_axes))
        return refuse(n, "shape, axes: must be as many");
    for (int i = 0; i < count; i++) {
        int64_t d = n_axes < 0 ? i : axes[i] < 0 ? axes[i] + rank : axes[i], more;
        if (d < 0 || d >= rank || !td_size_minus(sizes[i], x->shape[d], &more))
            return refuse(n, "axes: there is none such of %d dimensions", rank);
        begin[d] = more / 2;
        end[d] = more - begin[d];
    }
    td_onnx_let_around(n, "pads", begin, end, rank);
    give(n, "constant_pad_nd(input_data, pads)");
}

/* ---- depth and space ---- */

void td_onnx_depth_to_space(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "input");
    const int64_t *s = x->shape;
    int64_t b = whole(n, "blocksize", 0);
    if (x->rank != 4 || b < 1 || b > MOST || s[2] > MOST || s[3] > MOST || s[1] % (b * b))
        return refuse(n, "blocksize, input: four dimensions are right, and channels that are a "
                         "multiple of the block");
    if (!strcmp(text(n, "mode"), "CRD"))
        return give(n, "pixel_shuffle(input, blocksize)");
    let_ints(n, "apart", (int64_t[]){s[0], b, b, s[1] / (b * b), s[2], s[3]}, 6);
    let_ints(n, "whole", (int64_t[]){s[0], s[1] / (b * b), s[2] * b, s[3] * b}, 4);
    give(n, "reshape(permute(view(input, apart), [0, 3, 4, 1, 5, 2]), whole)");
}

void td_onnx_space_to_depth(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "input");
    const int64_t *s = x->shape;
    int64_t b = whole(n, "blocksize", 0);
    if (x->rank != 4 || b < 1 || b > MOST || s[1] > MOST || s[2] % b || s[3] % b)
        return refuse(n, "blocksize, input: four dimensions are right, the last two multiples of "
                         "the block");
    if (!strcmp(text(n, "mode"), "CRD"))
        return give(n, "pixel_unshuffle(input, blocksize)");
    let_ints(n, "apart", (int64_t[]){s[0], s[1], s[2] / b, b, s[3] / b, b}, 6);
    let_ints(n, "whole", (int64_t[]){s[0], s[1] * b * b, s[2] / b, s[3] / b}, 4);
    give(n, "reshape(permute(view(input, apart), [0, 3, 5, 1, 2, 4]), whole)");
}
