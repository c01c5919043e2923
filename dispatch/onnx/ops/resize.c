/* ONNX's Resize, whatever its modes are: along each dimension a choice of elements, or a product
 * with a matrix. */
#include "dispatch/onnx/ops/onnx.h"
#include "dispatch/walk/walk.h"
#include "kernels/sizes.h"

#include <math.h>
#include <string.h>

#define MOST (1 << 24) /* results of a dimension, and elements of a matrix */

struct line { /* one dimension */
    int64_t size, count;
    double scale, start, end; /* of the region, as shares */
    const char *places, *nearest;
    double cubic; /* its coefficient; 0: linear */
    bool spread;  /* antialias */
    bool inside;  /* exclude_outside */
    bool whole;   /* the elements are integers, which are computed in FP64 */
};

/* Where result i lies, in the argument's elements. */
static double place(const struct line *l, int64_t i)
{
    double x = (double)i, size = (double)l->size, count = (double)l->count, wide = l->scale * size;
    if (!strcmp(l->places, "align_corners"))
        return wide != 1 ? x * (size - 1) / (wide - 1) : 0;
    if (!strcmp(l->places, "asymmetric"))
        return x / l->scale;
    if (!strcmp(l->places, "tf_crop_and_resize")) {
        double start = l->start * (size - 1), end = l->end * (size - 1);
        return count > 1 ? start + x * (end - start) / (count - 1) : (start + end) / 2;
    }
    if (!strcmp(l->places, "pytorch_half_pixel") && l->count == 1)
        return 0;
    double shift = strcmp(l->places, "half_pixel_symmetric") ? 0 : size / 2 * (1 - count / wide);
    return shift + (x + 0.5) / l->scale - 0.5;
}

static double nearest(const struct line *l, double x)
{
    if (!strcmp(l->nearest, "round_prefer_ceil"))
        return floor(x + 0.5);
    if (!strcmp(l->nearest, "floor"))
        return floor(x);
    return !strcmp(l->nearest, "ceil") ? ceil(x) : ceil(x - 0.5);
}

static double share(const struct line *l, double d)
{
    double a = l->cubic;
    if (!a)
        return d < 1 ? 1 - d : 0;
    if (d <= 1)
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static int64_t within(double x, int64_t size)
{
    return !(x >= 0) ? 0 : x >= (double)size ? size - 1 : (int64_t)x;
}

/* One column of the matrix: how much of each element the result at x is. */
static void fill_column(const struct line *l, double x, double *matrix, int64_t column)
{
    double by = l->spread && l->scale < 1 ? l->scale : 1, reach = (l->cubic ? 2 : 1) / by;
    double total = 0, kept = 0;
    for (double e = floor(x - reach) + 1; e < ceil(x + reach); e++) {
        double s = share(l, fabs(e - x) * by);
        total += s;
        kept += e >= 0 && e < (double)l->size ? s : 0;
    }
    double of = l->inside ? kept : total;
    for (double e = floor(x - reach) + 1; e < ceil(x + reach); e++) {
        bool out = e < 0 || e >= (double)l->size;
        if (!out || !l->inside)
            matrix[within(e, l->size) * l->count + column] += share(l, fabs(e - x) * by) / of;
    }
}

/* A tensor to be filled. */
static void *room_for(struct td_onnx *n, const char *name, enum td_dtype type, int64_t rows,
                      int64_t columns)
{
    struct td_tensor t = {.dtype = type, .rank = columns ? 2 : 1, .shape = {rows, columns}};
    struct td_block *block = td_block_make(n->walk, td_nbytes(&t));
    if (!block) {
        no_room(n, "its matrix");
        return NULL;
    }
    t.data = memset(block->data, 0, td_nbytes(&t));
    let(n, name, (struct td_item){.v = {.kind = TD_KIND_tensor, .tensor = t}, .block = block});
    return t.data;
}

static void choose(struct td_onnx *n, const struct line *l)
{
    int64_t *v = room_for(n, "places", TD_i64, l->count, 0);
    for (int64_t i = 0; v && i < l->count; i++)
        v[i] = within(nearest(l, place(l, i)), l->size);
    set(n, "X", "index_select(X, axis, places)");
}

static void interpolate(struct td_onnx *n, const struct line *l)
{
    double *matrix = l->size <= MOST && l->size * l->count <= MOST
                         ? room_for(n, "matrix", TD_f64, l->size, l->count)
                         : NULL;
    if (!matrix)
        return refuse(n, "is too large: %lld to %lld elements", (long long)l->size,
                      (long long)l->count);
    for (int64_t i = 0; i < l->count; i++) {
        double x = place(l, i);
        if (!(fabs(x) < MOST) || (l->spread && l->scale * (double)l->size * 4 < (double)l->count))
            return refuse(n, "scales, roi: no place is so far away");
        fill_column(l, x, matrix, i);
    }
    set(n, "X", "movedim(matmul(movedim(X, axis, -1), to.dtype(matrix, sums)), -1, axis)");
}

/* Whole numbers as ONNX Runtime makes them: toward zero, and where it spreads to the nearest, along
 * each dimension. A sum of shares that is whole but for a last bit is whole. */
static void make_whole(struct td_onnx *n, const struct line *l, enum td_dtype type)
{
    int bits = 8 * (int)td_dtype_size(type);
    bool negative = !(type & (TD_UINTS | TD_u8));
    if (type != TD_bool && bits < 64) {
        let(n, "least", td_item_float(negative ? -ldexp(1, bits - 1) : 0));
        let(n, "most", td_item_float(ldexp(1, negative ? bits - 1 : bits) - 1));
        set(n, "X", "clamp(X, least, most)");
    }
    set(n, "X", l->spread ? "floor(X + 0.5)" : "trunc(X * 1.000000000001)");
}

/* What lies beyond the argument, where the region may reach there. */
static void extrapolate(struct td_onnx *n, const struct line *l, int behind)
{
    int64_t sizes[TD_MAX_RANK] = {-1, 1, 1, 1, 1, 1, 1, 1};
    uint8_t *v = room_for(n, "beyond", TD_bool, l->count, 0);
    for (int64_t i = 0; v && i < l->count; i++)
        v[i] = place(l, i) < 0 || place(l, i) > (double)(l->size - 1);
    let_ints(n, "sizes", sizes, 1 + behind);
    set(n, "X", "masked_fill(X, view(beyond, sizes), extrapolation_value)");
}

struct wanted {
    int n;
    int64_t axis[TD_MAX_RANK], size[TD_MAX_RANK];
    double scale[TD_MAX_RANK], roi[2 * TD_MAX_RANK];
};

/* What is too large, or no number, is refused later. */
static int64_t to_size(double size)
{
    return td_size_of_real(floor(fmin(fmax(size, -1), 2.0 * MOST)));
}

static void keep_ratio(struct td_onnx *n, const struct td_tensor *x, struct wanted *w)
{
    const char *policy = text(n, "keep_aspect_ratio_policy");
    bool less = !strcmp(policy, "not_larger");
    if (!less && strcmp(policy, "not_smaller") != 0)
        return;
    double all = w->scale[0];
    for (int i = 1; i < w->n; i++)
        all = less ? fmin(all, w->scale[i]) : fmax(all, w->scale[i]);
    for (int i = 0; i < w->n; i++) {
        w->scale[i] = all;
        w->size[i] = to_size((double)x->shape[w->axis[i]] * all + 0.5);
    }
}

/* What the node says of each of its dimensions. */
static bool read_wanted(struct td_onnx *n, struct wanted *w)
{
    const struct td_tensor *x = tensor_of(n, "X");
    const char *scales = n->version < 11 && has(n, "roi") ? "roi" : "scales"; /* of the tenth set */
    int count = ints(n, "axes", w->axis, TD_MAX_RANK);
    w->n = count > 0 ? count : x->rank;
    for (int i = 0; i < w->n; i++) {
        w->axis[i] = count > 0 ? w->axis[i] + (w->axis[i] < 0 ? x->rank : 0) : i;
        if (w->axis[i] < 0 || w->axis[i] >= x->rank)
            refuse(n, "axes: there is none such of %d dimensions", x->rank);
    }
    int n_scales = n->err ? -1 : reals(n, scales, w->scale, TD_MAX_RANK);
    int n_sizes = n_scales > 0 ? w->n : ints(n, "sizes", w->size, TD_MAX_RANK);
    if (n->err || n_sizes != w->n || (n_scales > 0 && n_scales != w->n)) {
        refuse(n, "scales, sizes: one of them, with %d numbers, is right", w->n);
        return false;
    }
    for (int i = 0; i < w->n; i++) {
        double size = (double)x->shape[w->axis[i]];
        if (n_scales > 0)
            w->size[i] = to_size(size * w->scale[i]);
        else
            w->scale[i] = size ? (double)w->size[i] / size : 1;
    }
    if (n_scales <= 0)
        keep_ratio(n, x, w);
    int n_roi = n->version < 11 ? 0 : reals(n, "roi", w->roi, 2 * TD_MAX_RANK);
    for (int i = 0; i < 2 * w->n && n_roi != 2 * w->n; i++)
        w->roi[i] = i < w->n ? 0 : 1;
    return !n->err;
}

static void resize_one(struct td_onnx *n, const struct wanted *w, int i, struct line *l)
{
    int axis = (int)w->axis[i], rank = tensor_of(n, "X")->rank;
    l->size = tensor_of(n, "X")->shape[axis];
    l->count = w->size[i];
    l->scale = w->scale[i];
    l->start = w->roi[i];
    l->end = w->roi[i + w->n];
    if (l->scale == 1 && l->count == l->size && l->start == 0 && l->end == 1)
        return;
    if (!(l->scale > 0) || l->count < 0 || l->count > MOST || (!l->size && l->count))
        return refuse(n, "scales, sizes: %lld elements do not become %lld", (long long)l->size,
                      (long long)l->count);
    let_int(n, "axis", axis);
    if (!strcmp(text(n, "mode"), "nearest"))
        choose(n, l);
    else
        interpolate(n, l);
    if (!strcmp(l->places, "tf_crop_and_resize"))
        extrapolate(n, l, rank - axis - 1);
}

static void resize(struct td_onnx *n, const char *places, const char *nearest_mode)
{
    struct wanted w;
    const char *mode = text(n, "mode");
    struct line l = {.places = places, .nearest = nearest_mode};
    l.cubic = strcmp(mode, "cubic") ? 0 : real(n, "cubic_coeff_a", -0.75);
    l.spread = whole(n, "antialias", 0) != 0;
    l.inside = whole(n, "exclude_outside", 0) != 0;
    if (!read_wanted(n, &w))
        return;
    enum td_dtype type = tensor_of(n, "X")->dtype;
    l.whole = !(type & TD_FLOATS) && strcmp(mode, "nearest") != 0;
    let(n, "sums", l.whole ? td_item_dtype(TD_f64) : *at(n, "kind"));
    if (l.whole)
        set(n, "X", "to.dtype(X, sums)");
    for (int i = w.n; i-- > 0 && !n->err;) { /* as a picture's lines are before its columns */
        resize_one(n, &w, i, &l);
        if (l.whole && (l.spread || !i))
            make_whole(n, &l, type);
    }
    put(n, 0, l.whole ? eval(n, "to.dtype(X, kind)") : *at(n, "X"));
}

void td_onnx_resize(struct td_onnx *n)
{
    if (n->version < 11)
        resize(n, "asymmetric", "floor");
    else
        resize(n, text(n, "coordinate_transformation_mode"), text(n, "nearest_mode"));
}

void td_onnx_upsample(struct td_onnx *n)
{
    resize(n, "asymmetric", "floor");
}
