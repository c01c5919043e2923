/* ONNX's operators that go where indices say. */
#include "dispatch/onnx/ops/onnx.h"

#include <string.h>

/* index(data, [None, ..., indices]), with None for dimensions before axis. */
void td_onnx_gather(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "data"), *at_ = tensor_of(n, "indices");
    int axis = axis_of(n, "axis", x->rank);
    int64_t index;
    if (!x->rank)
        return refuse(n, "data: dimensions are right");
    bool constant = !at_->rank && !at(n, "indices")->recorded;
    if (constant && ints(n, "indices", &index, 1) == 1 && index >= -x->shape[axis] &&
        index < x->shape[axis]) {
        let_int(n, "axis", axis);
        let_int(n, "index", index);
        return give(n, "select(data, axis, index)");
    }
    struct td_item list[TD_MAX_RANK] = {{{0}}}, item = {0};
    list[axis] = *at(n, "indices");
    if (!n->err)
        n->err = td_walk_list(n->walk, list, axis + 1, &item);
    let(n, "places", item);
    give(n, "index(data, places)");
}

void td_onnx_gather_elements(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "data");
    let_int(n, "size", x->shape[axis_of(n, "axis", x->rank)]);
    give(n, "gather(data, axis, where(lt(indices, 0), indices + size, indices))");
}

void td_onnx_compress(struct td_onnx *n)
{
    if (!has(n, "axis"))
        set(n, "input", "view(input, [-1])");
    let_int(n, "axis", whole(n, "axis", 0));
    give(n, "index_select(input, axis, view(nonzero(condition), [-1]))");
}

/* Of GatherND and ScatterND: named places, a list of tensors of indices, one a dimension, those of
 * the batch before them. */
static int let_places(struct td_onnx *n, int64_t batch)
{
    const struct td_tensor *x = tensor_of(n, "data"), *at_ = tensor_of(n, "indices");
    struct td_item list[2 * TD_MAX_RANK] = {{{0}}}, item = {0};
    int64_t deep = at_->rank ? at_->shape[at_->rank - 1] : 0;
    int64_t sizes[TD_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    int free_ = at_->rank - 1;
    if (batch < 0 || batch > free_ || deep < 1 || deep + batch > x->rank) {
        refuse(n, "indices: there are not as many dimensions as they go into");
        return 0;
    }
    for (int d = 0; d < batch; d++) {
        int64_t own[TD_MAX_RANK];
        memcpy(own, sizes, sizeof own);
        own[d] = -1;
        let_int(n, "size", x->shape[d]);
        let_ints(n, "sizes", own, free_);
        list[d] = eval(n, "view(arange(size, dtype=INT64), sizes)");
    }
    for (int64_t i = 0; i < deep; i++) {
        let_int(n, "i", i);
        list[batch + i] = eval(n, "select(indices, -1, i)");
    }
    if (!n->err)
        n->err = td_walk_list(n->walk, list, (int)(batch + deep), &item);
    let(n, "places", item);
    return n->err ? 0 : (int)(batch + deep);
}

void td_onnx_gather_nd(struct td_onnx *n)
{
    let_places(n, whole(n, "batch_dims", 0));
    give(n, "index(data, places)");
}

/* ONNX's name of a reduction becomes ATen's. */
static void let_reduction(struct td_onnx *n)
{
    static const char *const names[][2] = {
        {"add", "sum"}, {"mul", "prod"}, {"max", "amax"}, {"min", "amin"}};
    const char *name = text(n, "reduction");
    for (int i = 0; i < 4; i++)
        if (!strcmp(names[i][0], name))
            return let(n, "reduce", td_item_str(names[i][1]));
    refuse(n, "reduction: add, mul, max, min or none is right, not %.20s", name);
}

void td_onnx_scatter_nd(struct td_onnx *n)
{
    const char *how = text(n, "reduction");
    struct td_tensor x = *tensor_of(n, "data");
    int deep = let_places(n, 0);
    let(n, "adds", td_item_bool(!strcmp(how, "add")));
    if (!strcmp(how, "none") || !strcmp(how, "add") || n->err)
        return give(n, "index_put(data, places, updates, adds)");
    let_reduction(n);
    int64_t rows = 1, columns = 1;
    for (int d = 0; d < x.rank; d++)
        *(d < deep ? &rows : &columns) *= x.shape[d];
    for (int d = 0; d < deep; d++) {
        let(n, "index", at(n, "places")->list[d]);
        let_int(n, "size", x.shape[d]);
        set(n, "index", "where(lt(index, 0), index + size, index)");
        set(n, "to", d ? "to * size + index" : "alias(index)");
    }
    let_ints(n, "flat", (int64_t[]){rows, columns}, 2);
    let_ints(n, "wide", (int64_t[]){-1, columns}, 2);
    let_ints(n, "shape", x.shape, x.rank);
    set(n, "updates", "view(updates, wide)");
    let_ints(n, "wide", tensor_of(n, "updates")->shape, 2);
    give(n, "view(scatter_reduce(view(data, flat), 0, expand(view(to, [-1, 1]), wide), updates, "
            "reduce), shape)");
}

void td_onnx_scatter_elements(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "data");
    const char *how = text(n, "reduction");
    let_int(n, "size", x->shape[axis_of(n, "axis", x->rank)]);
    set(n, "places", "where(lt(indices, 0), indices + size, indices)");
    if (!*how || !strcmp(how, "none"))
        return give(n, "scatter.src(data, axis, places, updates)");
    let_reduction(n);
    give(n, "scatter_reduce(data, axis, places, updates, reduce)");
}

void td_onnx_tensor_scatter(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "past_cache"), *u = tensor_of(n, "update");
    int64_t sizes[TD_MAX_RANK] = {-1, 1, 1, 1, 1, 1, 1, 1};
    int axis = axis_of(n, "axis", u->rank);
    if (!axis || x->rank != u->rank)
        return refuse(n, "axis: the batch's is not right");
    let_int(n, "axis", axis);
    let_int(n, "count", u->shape[axis]);
    let_int(n, "size", x->shape[axis]);
    let_ints(n, "shape", u->shape, u->rank);
    sizes[axis] = u->shape[axis];
    if (has(n, "write_indices"))
        set(n, "to", "unsqueeze(write_indices, 1) + arange(count, dtype=INT64)");
    else
        set(n, "to", "arange(count, dtype=INT64)");
    if (!strcmp(text(n, "mode"), "circular"))
        set(n, "to", "remainder(to, size)");
    sizes[0] = has(n, "write_indices") ? -1 : 1;
    let_ints(n, "sizes", sizes, x->rank);
    give(n, "scatter.src(past_cache, axis, expand(view(to, sizes), shape), update)");
}

void td_onnx_reverse_sequence(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "input");
    int64_t batch = whole(n, "batch_axis", 1), time = whole(n, "time_axis", 0);
    int64_t sizes[TD_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    if (x->rank < 2 || (batch | time) != 1 || batch == time)
        return refuse(n, "batch_axis, time_axis: 0 and 1 are right, or 1 and 0");
    sizes[0] = x->shape[0];
    sizes[1] = x->shape[1];
    let_int(n, "size", x->shape[time]);
    let_ints(n, "shape", x->shape, x->rank);
    let_ints(n, "sizes", sizes, x->rank);
    set(n, "i", "arange(size, dtype=INT64)");
    set(n, "back", "sub(view(sequence_lens, [-1, 1]) - 1, i)");
    set(n, "to", "where(ge(back, 0), back, i)");
    if (batch > time)
        set(n, "to", "t(to)");
    give(n, "gather(input, time_axis, expand(view(to, sizes), shape))");
}

void td_onnx_one_hot(struct td_onnx *n)
{
    const struct td_tensor *x = tensor_of(n, "indices");
    int64_t sizes[TD_MAX_RANK + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    double wanted = real(n, "depth", 0);
    if (!(wanted >= 0 && wanted <= INT32_MAX) || x->rank == TD_MAX_RANK)
        return refuse(n, "depth: there is no tensor for it");
    int64_t depth = (int64_t)wanted;
    int axis = axis_of(n, "axis", x->rank + 1);
    sizes[axis] = depth;
    let_int(n, "depth", depth);
    let_int(n, "axis", axis);
    let_ints(n, "sizes", sizes, x->rank + 1);
    set(n, "to", "unsqueeze(where(lt(indices, 0), indices + depth, indices), axis)");
    give(n, "where(eq(to, view(arange(depth, dtype=kind), sizes)), select(values, 0, 1), "
            "select(values, 0, 0))");
}

/* ---- boxes ---- */

static void let_corners(struct td_onnx *n)
{
    set(n, "low", "slice.Tensor(x, 1, 0, 2)");
    set(n, "high", "slice.Tensor(x, 1, 2, 4)");
    if (whole(n, "center_point_box", 0)) {
        set(n, "middle", "alias(low)");
        set(n, "low", "middle - high * 0.5");
        set(n, "high", "middle + high * 0.5");
    }
    set(n, "x", "cat([minimum(low, high), maximum(low, high)], 1)");
}

/* Of one class of one image. */
static struct td_item find_boxes(struct td_onnx *n, int64_t image, int64_t class)
{
    let_int(n, "image", image);
    let_int(n, "class", class);
    set(n, "own", "select(select(scores, 0, image), 0, class)");
    let_int(n, "size", tensor_of(n, "own")->shape[0]);
    set(n, "good",
        has(n, "score_threshold") ? "view(nonzero(gt(own, threshold)), [-1])"
                                  : "arange(size, dtype=INT64)");
    set(n, "kept", "nms(index_select(x, 0, good), index_select(own, 0, good), iou)");
    set(n, "kept", "slice.Tensor(index_select(good, 0, kept), 0, 0, most)");
    return eval(n, "stack([full_like(kept, image), full_like(kept, class), kept], 1)");
}

void td_onnx_nms(struct td_onnx *n)
{
    const struct td_tensor *boxes = tensor_of(n, "boxes"), *scores = tensor_of(n, "scores");
    int64_t images = boxes->shape[0], classes = scores->shape[1];
    if (boxes->rank != 3 || scores->rank != 3 || scores->shape[0] != images || boxes->shape[2] != 4)
        return refuse(n, "boxes, scores: must be [images, n, 4] and [images, classes, n]");
    let_int(n, "most", whole(n, "max_output_boxes_per_class", 0));
    let(n, "iou", td_item_float(real(n, "iou_threshold", 0)));
    let(n, "threshold", td_item_float(real(n, "score_threshold", 0)));
    set(n, "found", "zeros([0, 3], dtype=INT64)");
    for (int64_t image = 0; image < images && !n->err; image++) {
        let_int(n, "image", image);
        set(n, "x", "select(boxes, 0, image)");
        let_corners(n);
        for (int64_t class = 0; class < classes && !n->err; class ++) {
            let(n, "more", find_boxes(n, image, class));
            set(n, "found", "cat([found, more])");
        }
    }
    put(n, 0, *at(n, "found"));
}
