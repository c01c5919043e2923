/* Functions of PyTorch that put elements in other places, or make them of sizes: what they do
 * follows from the ranks and sizes of their arguments. */
#include "dispatch/pt2/pt2.h"
#include "kernels/sizes.h"

#include <math.h>
#include <string.h>

/* ---- diagonals ---- */

/* A matrix of zeros with the last dimension on its diagonal, of each row. */
static int embed(struct td_walk *walk, const struct td_item *x, int64_t offset, int64_t dim1,
                 int64_t dim2, struct td_item *out)
{
    const struct td_tensor *t = &x->v.tensor;
    int64_t size[TD_MAX_RANK], n = 0, to[2] = {dim1, dim2};
    if (t->rank < 1 || t->rank == TD_MAX_RANK)
        return td_walk_refuse(walk, "takes a tensor of 1 to %d dimensions", TD_MAX_RANK - 1);
    if (offset < -INT32_MAX || offset > INT32_MAX ||
        !td_size_plus(t->shape[t->rank - 1], offset < 0 ? -offset : offset, &n))
        return td_walk_refuse(walk, "offset: is too far");
    memcpy(size, t->shape, sizeof size);
    size[t->rank - 1] = size[t->rank] = n;
    const struct td_given args[] = {{"x", *x},
                                    {"size", td_item_ints(size, t->rank + 1)},
                                    {"o", td_item_int(offset)},
                                    {"to", td_item_ints(to, 2)},
                                    {"type", td_item_dtype(t->dtype)}};
    return td_pt2_compute(
        walk, "movedim(diagonal_scatter(zeros(size, dtype=type), x, o, -2, -1), [-2, -1], to)",
        args, 5, out);
}

int td_pt2_diag(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                struct td_item *out)
{
    const struct td_pt2_target *target = node->form;
    bool embeds = target->how == 'e';
    int64_t offset = td_node_int(node, embeds ? "offset" : "diagonal", 0);
    int err = td_pt2_tensor_at(walk, node, in, 0, NULL);
    if (err)
        return err;
    if (embeds || in[0].v.tensor.rank == 1)
        return embed(walk, &in[0], offset, td_node_int(node, "dim1", -2),
                     td_node_int(node, "dim2", -1), out);
    const struct td_given args[] = {{"x", in[0]}, {"o", td_item_int(offset)}};
    return td_pt2_compute(walk, "diagonal(x, o) + 0", args, 2, out);
}

/* ---- pieces ---- */

/* tensor_split, and hsplit, vsplit, dsplit, which are that along a dimension: how 'h', 'v', 'd'. */
int td_pt2_tensor_split(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                        struct td_item *out)
{
    const struct td_pt2_target *target = node->form;
    const struct td_item *indices = td_pt2_given(node, in, "indices");
    int err = td_pt2_tensor_at(walk, node, in, 0, NULL), n, made;
    if (err)
        return err;
    const struct td_tensor *t = &in[0].v.tensor;
    int64_t at[TD_MAX_LIST], size[TD_MAX_LIST + 1], before = 0;
    int64_t dim = target->how == 'h'   ? t->rank > 1
                  : target->how == 'v' ? 0
                  : target->how == 'd' ? 2
                                       : td_node_int(node, "dim", 0);
    dim += dim < 0 ? t->rank : 0;
    if (dim < 0 || dim >= t->rank)
        return td_walk_refuse(walk, "dim: there is no such dimension");
    int64_t all = t->shape[dim], sections = td_node_int(node, "sections", 0);
    if (indices && (n = td_pt2_list(walk, indices, at)) < 0)
        return n;
    if (!indices) {
        if (sections < 1 || sections > TD_MAX_LIST)
            return td_walk_refuse(walk, "sections: from 1 to %d are right", TD_MAX_LIST);
        n = (int)sections - 1;
        for (int i = 0; i < n; i++)
            at[i] = (i + 1) * (all / sections) + (i + 1 < all % sections ? i + 1 : all % sections);
    }
    for (int i = 0; i <= n; i++) {
        int64_t end = i == n ? all : at[i] < 0 ? at[i] + all : at[i];
        end = end < before ? before : end > all ? all : end;
        size[i] = end - before;
        before = end;
    }
    if (n + 1 > TD_MAX_LIST || n + 1 > TD_MAX_OUTS)
        return td_walk_refuse(walk, "gives too many pieces");
    struct td_item piece[TD_MAX_OUTS];
    const struct td_given args[] = {TD_GIVE(in[0]), TD_GIVE(td_item_ints(size, n + 1)),
                                    TD_GIVE(td_item_int(dim))};
    err = td_walk_call(walk, "split_with_sizes", args, 3, piece, &made);
    if (!err && made < node->n_outs)
        err = td_walk_refuse(walk, "gives %d pieces, but %d are wanted", made, node->n_outs);
    for (int i = 0; i < node->n_outs && !err; i++)
        out[i] = piece[i];
    return err;
}

/* At least how - '0' dimensions. */
int td_pt2_atleast(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                   struct td_item *out)
{
    static const char *const add[3][3] = {
        {"reshape(x, [1])", "x + 0", "x + 0"},
        {"reshape(x, [1, 1])", "unsqueeze(x, 0)", "x + 0"},
        {"reshape(x, [1, 1, 1])", "unsqueeze(unsqueeze(x, 0), -1)", "unsqueeze(x, -1)"}};
    const struct td_pt2_target *target = node->form;
    int err = td_pt2_tensor_at(walk, node, in, 0, NULL), rank = err ? 0 : in[0].v.tensor.rank;
    const struct td_given args[] = {{"x", in[0]}};
    if (err)
        return err;
    return td_pt2_compute(walk, rank < 3 ? add[target->how - '1'][rank] : "x + 0", args, 1, out);
}

int td_pt2_column_stack(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                        struct td_item *out)
{
    struct td_item column[TD_MAX_OUTS], list;
    int n = node->n_operands ? in[0].n : 0, err = 0;
    if (n < 1 || n > TD_MAX_OUTS)
        return td_walk_refuse(walk, "tensors: from 1 to %d are right", TD_MAX_OUTS);
    for (int i = 0; i < n && !err; i++) {
        const struct td_given args[] = {{"x", in[0].list[i]}};
        column[i] = in[0].list[i];
        if (column[i].v.kind == TD_KIND_tensor && column[i].v.tensor.rank < 2)
            err = td_pt2_compute(walk, "reshape(x, [-1, 1])", args, 1, &column[i]);
    }
    err = err ? err : td_walk_list(walk, column, n, &list);
    return err ? err : TD_CALL(walk, "cat", out, TD_GIVE(list), TD_GIVE(td_item_int(1)));
}

/* ---- places ---- */

/* Each element at its place in the planes, of as many of the last dimensions as how says. */
int td_pt2_unpool(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                  struct td_item *out)
{
    const struct td_pt2_target *target = node->form;
    int64_t to[TD_MAX_LIST], size[TD_MAX_RANK], plane[TD_MAX_RANK], all = 1;
    int planes = target->how - '0', err = td_pt2_tensor_at(walk, node, in, 0, NULL);
    const struct td_item *output = td_pt2_given(node, in, "output_size");
    int n = err ? 0 : output ? td_pt2_list(walk, output, to) : 0;
    if (err || n < 0)
        return err ? err : n;
    const struct td_tensor *t = &in[0].v.tensor;
    if (n != planes || t->rank < planes || node->n_operands < 2)
        return td_walk_refuse(walk, "output_size: %d sizes are right", planes);
    int before = t->rank - planes;
    memcpy(size, t->shape, sizeof size);
    memcpy(plane, t->shape, sizeof plane);
    for (int i = 0; i < planes; i++) {
        size[before + i] = to[i];
        if (to[i] < 0 || !td_size_times(all, to[i], &all))
            return td_walk_refuse(walk, "output_size: is too large");
    }
    plane[before] = all;
    const struct td_given args[] = {{"x", in[0]},
                                    {"i", in[1]},
                                    {"plane", td_item_ints(plane, before + 1)},
                                    {"size", td_item_ints(size, t->rank)},
                                    {"from", td_item_int(-planes)},
                                    {"type", td_item_dtype(t->dtype)}};
    return td_pt2_compute(
        walk,
        "reshape(scatter(zeros(plane, dtype=type), -1, flatten(i, from), flatten(x, "
        "from)), size)",
        args, 6, out);
}

/* So many rows, whatever the elements. */
int td_pt2_nonzero_static(struct td_walk *walk, const struct td_node *node,
                          const struct td_item *in, struct td_item *out)
{
    int err = td_pt2_tensor_at(walk, node, in, 0, NULL);
    int64_t n = td_node_int(node, "size", -1);
    if (err || n < 0)
        return err ? err : td_walk_refuse(walk, "size: 0 and up is right");
    int64_t rest[2] = {n, in[0].v.tensor.rank};
    const struct td_given args[] = {{"x", in[0]},
                                    {"n", td_item_int(n)},
                                    {"rest", td_item_ints(rest, 2)},
                                    {"fill", td_item_int(td_node_int(node, "fill_value", -1))}};
    return td_pt2_compute(walk,
                          "slice(cat([nonzero(x), full(rest, fill, dtype='INT64')], 0), 0, 0, n)",
                          args, 4, out);
}

/* Where elements are not 0: a tensor for each dimension. */
int td_pt2_places(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                  struct td_item *out)
{
    struct td_item rows, place[TD_MAX_OUTS];
    int made = 0, err = td_pt2_tensor_at(walk, node, in, 0, NULL);
    err = err ? err : TD_CALL(walk, "nonzero", &rows, TD_GIVE(in[0]));
    const struct td_given args[] = {TD_GIVE(rows), TD_GIVE(td_item_int(1))};
    err = err ? err : td_walk_call(walk, "unbind", args, 2, place, &made);
    if (!err && made < node->n_outs)
        err = td_walk_refuse(walk, "has %d dimensions, not %d", made, node->n_outs);
    for (int i = 0; i < node->n_outs && !err; i++)
        out[i] = place[i];
    return err;
}

/* How the source's rows meet those of self that index names. */
int td_pt2_index_reduce(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                        struct td_item *out)
{
    const struct td_item *index = td_pt2_given(node, in, "index"),
                         *source = td_pt2_given(node, in, "source");
    const struct td_item *reduce = td_pt2_given(node, in, "reduce");
    int err = td_pt2_tensor_at(walk, node, in, 0, NULL), keep = td_node_find(node, "include_self");
    if (err || !index || !source || !reduce || source->v.kind != TD_KIND_tensor)
        return err ? err : td_walk_refuse(walk, "index, source, reduce: are missing");
    int64_t dim = td_node_int(node, "dim", 0), shape[TD_MAX_RANK];
    int rank = source->v.tensor.rank;
    dim += dim < 0 ? rank : 0;
    if (dim < 0 || dim >= rank)
        return td_walk_refuse(walk, "dim: there is no such dimension");
    for (int d = 0; d < rank; d++)
        shape[d] = d == dim ? -1 : 1;
    bool product = reduce->v.kind == TD_KIND_str && !strcmp(reduce->v.str, "prod");
    const struct td_given args[] = {{"x", in[0]},
                                    {"i", *index},
                                    {"s", *source},
                                    {"shape", td_item_ints(shape, rank)},
                                    {"dim", td_item_int(dim)},
                                    {"how", product ? td_item_str("prod") : *reduce},
                                    {"keep", keep < 0 ? td_item_bool(true) : in[keep]}};
    return td_pt2_compute(walk,
                          "scatter_reduce(x, dim, expand_as(reshape(i, shape), s), s, how, "
                          "include_self=keep)",
                          args, 7, out);
}

/* ---- sums ---- */

/* Half of each two neighbours times their distance, added up; how 'c': up to each. */
int td_pt2_trapezoid(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                     struct td_item *out)
{
    const struct td_pt2_target *target = node->form;
    const struct td_item *x = td_pt2_given(node, in, "x");
    int err = td_pt2_tensor_at(walk, node, in, 0, NULL);
    if (err || !x || x->v.kind != TD_KIND_tensor)
        return err ? err : td_walk_refuse(walk, "x: is missing");
    const struct td_given args[] = {
        {"y", in[0]}, {"x", *x}, {"dim", td_item_int(td_node_int(node, "dim", -1))}};
    bool line = x->v.tensor.rank == 1, sums = target->how == 'c';
#define PIECES(x)                                                                                  \
    "_y = movedim(y, dim, -1); _x = " x "; _s = (slice(_y, -1, 1) + slice(_y, -1, 0, -1)) * 0.5 "  \
    "* (slice(_x, -1, 1) - slice(_x, -1, 0, -1)); "
    return td_pt2_compute(walk,
                          line ? sums ? PIECES("x + 0") "z = movedim(cumsum(_s, -1), -1, dim)"
                                      : PIECES("x + 0") "z = sum(_s, -1)"
                          : sums
                              ? PIECES("movedim(x, dim, -1)") "z = movedim(cumsum(_s, -1), -1, dim)"
                              : PIECES("movedim(x, dim, -1)") "z = sum(_s, -1)",
                          args, 3, out);
#undef PIECES
}

/* Log of the gamma function of so many dimensions. */
int td_pt2_mvlgamma(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                    struct td_item *out)
{
    int64_t p = td_node_int(node, "p", 1);
    int err = td_pt2_tensor_at(walk, node, in, 0, NULL);
    if (err || p < 1 || p > 4096)
        return err ? err : td_walk_refuse(walk, "p: from 1 to 4096 is right");
    const struct td_given args[] = {{"x", in[0]},
                                    {"p", td_item_int(p)},
                                    {"c", td_item_float((double)(p * (p - 1)) * 0.25 * log(M_PI))}};
    return td_pt2_compute(
        walk, "sum(lgamma(unsqueeze(x, -1) - type_as(arange(p), x) * 0.5), -1) + c", args, 3, out);
}

/* A cross product along the first dimension of three, where none is named. */
int td_pt2_cross(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                 struct td_item *out)
{
    int err = td_pt2_tensor_at(walk, node, in, 0, NULL);
    const struct td_item *said = td_pt2_given(node, in, "dim");
    int64_t dim = said ? said->v.i : 0;
    if (err || node->n_operands < 2)
        return err ? err : td_walk_refuse(walk, "other: is missing");
    const struct td_tensor *t = &in[0].v.tensor;
    while (!said && dim < t->rank && t->shape[dim] != 3)
        dim++;
    if (dim >= t->rank || dim < -t->rank)
        return td_walk_refuse(walk, "dim: no dimension has three elements");
    const struct td_given args[] = {{"a", in[0]}, {"b", in[1]}, {"dim", td_item_int(dim)}};
    return td_pt2_compute(
        walk, "roll(a, -1, dim) * roll(b, -2, dim) - roll(a, -2, dim) * roll(b, -1, dim)", args, 3,
        out);
}

/* A product of three, dimensions put into each first, and added up along others. */
int td_pt2_trilinear(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                     struct td_item *out)
{
    struct td_item part[3];
    int64_t dims[TD_MAX_LIST];
    int err = 0;
    for (int i = 0; i < 3 && !err; i++) {
        err = td_pt2_tensor_at(walk, node, in, i, NULL);
        int n = err || node->n_operands < 7 ? 0 : td_pt2_list(walk, &in[3 + i], dims);
        part[i] = err ? (struct td_item){.v = {0}} : in[i];
        for (int k = 0; k < n && !err; k++)
            err = TD_CALL(walk, "unsqueeze", &part[i], TD_GIVE(part[i]),
                          TD_GIVE(td_item_int(dims[k])));
        err = err ? err : n < 0 ? n : 0;
    }
    if (err || node->n_operands < 7)
        return err ? err : td_walk_refuse(walk, "takes seven arguments");
    const struct td_given args[] = {
        {"a", part[0]}, {"b", part[1]}, {"c", part[2]}, {"dims", in[6]}};
    return td_pt2_compute(walk, "sum(a * b * c, dims)", args, 4, out);
}

/* ---- made of sizes ---- */

/* Windows of so many elements: one period, or from end to end. */
int td_pt2_window(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                  struct td_item *out)
{
    const struct td_pt2_target *target = node->form;
    const struct td_item *type = td_pt2_given(node, in, "dtype"),
                         *alpha = td_pt2_given(node, in, "alpha"),
                         *beta = td_pt2_given(node, in, "beta"),
                         *periodic = td_pt2_given(node, in, "periodic");
    int64_t n = td_node_int(node, "window_length", -1);
    bool period = !periodic || periodic->v.i, kaiser = target->how == 'k';
    if (n < 0 || n > INT32_MAX)
        return td_walk_refuse(walk, "window_length: 0 and up is right");
    double a = alpha ? td_scalar(&alpha->v) : 0.54;
    double b = beta ? td_scalar(&beta->v) : kaiser ? 12 : 0.46;
    const struct td_given args[] = {
        {"n", td_item_int(n)},
        {"w", td_item_float(2 * M_PI / (double)(n - !period > 0 ? n - !period : 1))},
        {"half", td_item_float((double)(n - !period > 0 ? n - !period : 1) / 2)},
        {"alpha", td_item_float(a)},
        {"beta", td_item_float(b)},
        {"type", type ? *type : td_item_dtype(TD_f32)}};
    if (n == 1)
        return td_pt2_compute(walk, "ones([n], dtype=type)", args, 6, out);
    return td_pt2_compute(walk, target->formula, args, 6, out);
}

/* Places from -1 to 1 in each plane of the size, through each row of theta. */
int td_pt2_affine_grid(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                       struct td_item *out)
{
    static const char line[] = "type_as((arange(n, dtype='FP64') * 2 + (1 - corners)) / d - 1, x)";
    int64_t size[TD_MAX_LIST];
    const struct td_item *said = td_pt2_given(node, in, "size");
    int err = td_pt2_tensor_at(walk, node, in, 0, NULL),
        n = err || !said ? 0 : td_pt2_list(walk, said, size);
    bool corners = td_node_int(node, "align_corners", 0);
    if (err || n < 0)
        return err ? err : n;
    if (n != 4 && n != 5)
        return td_walk_refuse(walk, "size: of four or five is right");
    int dims = n - 2;
    struct td_item axis[4], list;
    int64_t grid[4], to[5] = {size[0]};
    for (int i = 0; i < dims; i++)
        grid[i] = to[i + 1] = size[2 + i];
    to[dims + 1] = dims;
    for (int i = 0; i < dims && !err; i++) { /* the last dimension first */
        int64_t length = grid[dims - 1 - i], shape[3] = {1, 1, 1};
        shape[dims - 1 - i] = -1;
        if (length < 1)
            return td_walk_refuse(walk, "size: 1 and up is right");
        const struct td_given args[] = {
            {"x", in[0]},
            {"n", td_item_int(length)},
            {"d", td_item_float((double)(corners && length > 1 ? length - 1 : length))},
            {"corners", td_item_int(corners && length > 1)}};
        err = td_pt2_compute(walk, corners && length == 1 ? "type_as(zeros([n]), x)" : line, args,
                             4, &axis[i]);
        const struct td_given lay[] = {{"a", axis[i]},
                                       {"shape", td_item_ints(shape, dims)},
                                       {"grid", td_item_ints(grid, dims)}};
        err = err ? err : td_pt2_compute(walk, "expand(reshape(a, shape), grid)", lay, 3, &axis[i]);
    }
    if (!err)
        err = TD_CALL(walk, "ones_like", &axis[dims], TD_GIVE(axis[0]));
    err = err ? err : td_walk_list(walk, axis, dims + 1, &list);
    const struct td_given args[] = {
        {"axes", list}, {"theta", in[0]}, {"to", td_item_ints(to, dims + 2)}};
    return err ? err
               : td_pt2_compute(
                     walk,
                     "reshape(matmul(flatten(stack(axes, -1), 0, -2), transpose(theta, 1, 2)), "
                     "to)",
                     args, 3, out);
}
