/* Functions of PyTorch that its exporter leaves as they are and that sizes, counts or lists decide:
 * each becomes calls of operators. */
#include "dispatch/pt2/pt2.h"
#include "kernels/sizes.h"

#include <errno.h>
#include <math.h>
#include <string.h>

int td_pt2_rot90(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                 struct td_item *out)
{
    static const char *const turns[] = {"self + 0", "transpose(flip(self, [b]), a, b)",
                                        "flip(self, both)", "transpose(flip(self, [a]), a, b)"};
    int64_t dims[TD_MAX_LIST] = {0, 1}, k = td_node_int(node, "k", 1);
    int at = td_node_find(node, "dims"), n = at < 0 ? 2 : td_pt2_list(walk, &in[at], dims);
    if (n < 0)
        return n;
    if (n != 2)
        return td_walk_refuse(walk, "dims: two are right");
    struct td_given args[] = {{"self", in[0]},
                              {"a", td_item_int(dims[0])},
                              {"b", td_item_int(dims[1])},
                              {"both", td_item_ints(dims, 2)}};
    return td_pt2_compute(walk, turns[(k % 4 + 4) % 4], args, 4, out);
}

/* Each element of self times all of other: dimensions of the two take turns, and then are joined.
 */
int td_pt2_kron(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                struct td_item *out)
{
    struct td_tensor a, b;
    int err = td_pt2_tensor_at(walk, node, in, 0, &a);
    err = err ? err : td_pt2_tensor_at(walk, node, in, 1, &b);
    if (err)
        return err;
    int rank = a.rank > b.rank ? a.rank : b.rank;
    if (2 * rank > TD_MAX_RANK)
        return td_walk_refuse(walk, "self, other: at most %d dimensions are right",
                              TD_MAX_RANK / 2);
    int64_t x[TD_MAX_RANK], y[TD_MAX_RANK], z[TD_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        int i = d - (rank - a.rank), j = d - (rank - b.rank);
        x[2 * d] = i < 0 ? 1 : a.shape[i];
        y[2 * d + 1] = j < 0 ? 1 : b.shape[j];
        x[2 * d + 1] = y[2 * d] = 1;
        z[d] = x[2 * d] * y[2 * d + 1];
    }
    struct td_given args[] = {{"self", in[0]},
                              {"other", in[1]},
                              {"x", td_item_ints(x, 2 * rank)},
                              {"y", td_item_ints(y, 2 * rank)},
                              {"z", td_item_ints(z, rank)}};
    return td_pt2_compute(walk, "reshape(reshape(self, x) * reshape(other, y), z)", args, 5, out);
}

int td_pt2_multi_dot(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                     struct td_item *out)
{
    if (!node->n_operands || in[0].n < 1)
        return td_walk_refuse(walk, "tensors: a list of them is right");
    *out = in[0].list[0];
    int err = 0;
    for (int i = 1; i < in[0].n && !err; i++)
        err = TD_CALL(walk, "matmul", out, TD_GIVE(*out), TD_GIVE(in[0].list[i]));
    return err;
}

/* Over the last dimension of both. */
int td_pt2_inner_product(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                         struct td_item *out)
{
    struct td_tensor a, b;
    int64_t sizes[2 * TD_MAX_RANK], flat[2] = {1, 0};
    int n = 0, err = td_pt2_tensor_at(walk, node, in, 0, &a);
    err = err ? err : td_pt2_tensor_at(walk, node, in, 1, &b);
    if (!err && a.rank + b.rank > TD_MAX_RANK + 2)
        err = td_walk_refuse(walk, "self, other: have too many dimensions");
    if (err)
        return err;
    for (int d = 0; d < a.rank - 1; d++)
        sizes[n++] = a.shape[d];
    for (int d = 0; d < b.rank - 1; d++) {
        flat[0] *= b.shape[d];
        sizes[n++] = b.shape[d];
    }
    flat[1] = b.rank ? b.shape[b.rank - 1] : 1;
    struct td_given args[] = {{"self", in[0]},
                              {"other", in[1]},
                              {"flat", td_item_ints(flat, 2)},
                              {"sizes", td_item_ints(sizes, n)}};
    return td_pt2_compute(walk,
                          a.rank && b.rank ? "reshape(matmul(self, t(reshape(other, flat))), sizes)"
                                           : "self * other",
                          args, 4, out);
}

/* Each row times its group's matrix; offs says where groups end, and rows behind them are 0. Few
 * rows take their matrices along; of more, every matrix meets all rows, and each keeps its own. */
int td_pt2_grouped_product(struct td_walk *walk, const struct td_node *node,
                           const struct td_item *in, struct td_item *out)
{
    const struct td_item *ends = td_pt2_given(node, in, "offs"),
                         *bias = td_pt2_given(node, in, "bias"),
                         *type = td_pt2_given(node, in, "out_dtype");
    struct td_tensor x, w;
    int err = td_pt2_tensor_at(walk, node, in, 0, &x);
    err = err ? err : td_pt2_tensor_at(walk, node, in, 1, &w);
    if (err)
        return err;
    if (x.rank != 2 || w.rank != 3 || !ends || (bias && bias->v.kind) || (type && type->v.kind))
        return td_walk_refuse(walk,
                              "rows, a matrix for each group, and where groups end are right");
    struct td_given args[] = {{"x", in[0]},
                              {"w", in[1]},
                              {"ends", *ends},
                              {"rows", td_item_int(x.shape[0])},
                              {"last", td_item_int(w.shape[0] - 1)},
                              {"group", {.v = {0}}},
                              {"i", td_item_int(0)},
                              {"y", {.v = {0}}}};
    err = td_pt2_compute(walk,
                         "unsqueeze(searchsorted(to.dtype(ends, INT64), arange(rows), right=True), "
                         "1)",
                         args, 4, &args[5].item);
    if (!err && 2 * x.shape[0] <= w.shape[0])
        return td_pt2_compute(walk,
                              "squeeze(bmm(unsqueeze(where(le(group, last), x, zeros_like(x)), 1), "
                              "index_select(w, 0, "
                              "clamp(squeeze(group, 1), 0, last))), 1)",
                              args, 6, out);
    err = err ? err : td_pt2_compute(walk, "zeros_like(matmul(x, select(w, 0, 0)))", args, 2, out);
    for (int64_t i = 0; i < w.shape[0] && !err; i++) {
        args[6].item = td_item_int(i);
        args[7].item = *out;
        err = td_pt2_compute(walk, "where(eq(group, i), matmul(x, select(w, 0, i)), y)", args, 8,
                             out);
    }
    return err;
}

/* All ways to take one of each. */
int td_pt2_cartesian(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                     struct td_item *out)
{
    struct td_item grid[TD_MAX_OUTS], list;
    struct td_given args[] = {TD_GIVE(in[0]), TD_NAMED("indexing", td_item_str("ij"))};
    int n = 0;
    if (!node->n_operands || in[0].n < 2)
        return td_walk_refuse(walk, "tensors: two or more are right");
    int err = td_walk_call(walk, "meshgrid.indexing", args, 2, grid, &n);
    err = err ? err : td_walk_list(walk, grid, n, &list);
    err = err ? err : TD_CALL(walk, "stack", out, TD_GIVE(list), TD_GIVE(td_item_int(-1)));
    struct td_given made[] = {{"y", *out}};
    return err ? err : td_pt2_compute(walk, "flatten(y, 0, -2)", made, 1, out);
}

/* Linear interpolation between the two that are next to the place. */
int td_pt2_quantile(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                    struct td_item *out)
{
    const struct td_item *along = td_pt2_given(node, in, "dim"), *q = td_pt2_given(node, in, "q"),
                         *how = td_pt2_given(node, in, "interpolation");
    struct td_tensor x;
    int err = td_pt2_tensor_at(walk, node, in, 0, &x);
    if (err || !q || !td_is_number(&q->v) || (how && strcmp(how->v.str, "linear")))
        return err ? err : td_walk_refuse(walk, "q, interpolation: a number and linear are right");
    int64_t dim = along ? along->v.i : 0;
    dim += dim < 0 ? x.rank : 0;
    int64_t size = !along ? td_numel(&x) : dim >= 0 && dim < x.rank ? x.shape[dim] : 0;
    double place = td_scalar(&q->v) * (double)(size - 1);
    if (size < 1 || !(place >= 0) || place > (double)(size - 1))
        return td_walk_refuse(walk, "q, self: from 0 to 1, of one element or more, is right");
    int64_t low = td_size_of_real(floor(place)), high = td_size_of_real(ceil(place));
    struct td_given args[] = {{"self", in[0]},
                              {"dim", td_item_int(dim)},
                              {"low", td_item_int(low)},
                              {"high", td_item_int(high)},
                              {"w", td_item_float(place - (double)low)},
                              {"last", td_item_int(size - 1)},
                              {"s", {.v = {0}}}};
    err = td_pt2_compute(walk, along ? "sort(self, dim)[0]" : "sort(reshape(self, [-1]))[0]", args,
                         2, &args[6].item);
    err = err ? err
              : td_pt2_compute(
                    walk,
                    "lerp(select(s, dim, low), select(s, dim, high), w) + select(s, dim, last) "
                    "* 0", /* NaN, which is last */
                    args, 7, out);
    struct td_given made[] = {{"y", *out}, {"dim", td_item_int(dim)}};
    if (!err && along && td_node_int(node, "keepdim", 0))
        err = td_pt2_compute(walk, "unsqueeze(y, dim)", made, 2, out);
    return err;
}

int td_pt2_tensordot(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                     struct td_item *out)
{
    struct td_tensor t[2];
    int64_t dims[2][TD_MAX_LIST], order[2][TD_MAX_RANK], shape[TD_MAX_RANK], inner = 1;
    int n[2], rank = 0, err = td_pt2_tensor_at(walk, node, in, 0, &t[0]);
    err = err ? err : td_pt2_tensor_at(walk, node, in, 1, &t[1]);
    for (int i = 0; i < 2 && !err; i++) {
        int at = td_node_find(node, i ? "dims_other" : "dims_self");
        n[i] = at < 0 ? 0 : td_pt2_list(walk, &in[at], dims[i]);
        err = n[i] < 0 ? n[i] : 0;
    }
    if (err || n[0] != n[1])
        return err ? err : td_walk_refuse(walk, "dims_self, dims_other: as many are right");
    for (int i = 0; i < 2; i++) {
        bool used[TD_MAX_RANK] = {false};
        int at = i ? n[1] : 0;
        for (int k = 0; k < n[i]; k++) {
            int64_t d = dims[i][k] + (dims[i][k] < 0 ? t[i].rank : 0);
            if (d < 0 || d >= t[i].rank || used[d] ||
                (i && t[1].shape[d] != t[0].shape[order[0][t[0].rank - n[0] + k]]))
                return td_walk_refuse(walk, "dims_self, dims_other: do not fit");
            used[d] = true;
            order[i][i ? k : t[0].rank - n[0] + k] = d;
            inner *= i ? 1 : t[0].shape[d];
        }
        for (int d = 0; d < t[i].rank; d++)
            if (!used[d]) {
                if (rank == TD_MAX_RANK)
                    return td_walk_refuse(walk, "the result has too many dimensions");
                order[i][at++] = d;
                shape[rank++] = t[i].shape[d];
            }
    }
    struct td_given args[] = {{"self", in[0]},
                              {"other", in[1]},
                              {"p", td_item_ints(order[0], t[0].rank)},
                              {"q", td_item_ints(order[1], t[1].rank)},
                              {"left", td_item_ints((int64_t[]){-1, inner}, 2)},
                              {"right", td_item_ints((int64_t[]){inner, -1}, 2)},
                              {"shape", td_item_ints(shape, rank)}};
    return td_pt2_compute(
        walk,
        "reshape(mm(reshape(permute(self, p), left), reshape(permute(other, q), right)), "
        "shape)",
        args, 7, out);
}

/* An order is one of vectors: along one dimension, or of a tensor that has one. */
int td_pt2_norm(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                struct td_item *out)
{
    int64_t dims[TD_MAX_LIST];
    struct td_tensor x;
    const struct td_item *along = td_pt2_given(node, in, "dim"),
                         *ord = td_pt2_given(node, in, "ord");
    int err = td_pt2_tensor_at(walk, node, in, 0, &x);
    int n = err || !along ? 0 : td_pt2_list(walk, along, dims);
    if (err || n < 0)
        return err ? err : n;
    if (ord && n != 1 && (n || x.rank != 1))
        return td_walk_refuse(walk, "ord: norms of matrices are not right here");
    struct td_given args[] = {{"self", in[0]},
                              {"ord", ord ? *ord : td_item_int(2)},
                              {"dim", n ? td_item_ints(dims, n) : (struct td_item){.v = {0}}},
                              {"keepdim", td_item_bool(td_node_int(node, "keepdim", 0))}};
    return td_pt2_compute(walk, "linalg_vector_norm(self, ord, dim, keepdim)", args, 4, out);
}

/* Gives the new running statistics as results, too. */
int td_pt2_batch_norm(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                      struct td_item *out)
{
    static const char *const names[] = {"x", "weight", "bias", "mean", "var", "trains", "m", "eps"};
    struct td_given args[12];
    struct td_tensor x;
    int made = 0, err = td_pt2_tensor_at(walk, node, in, 0, &x);
    if (err || node->n_operands != 8 || node->n_outs != 5 || x.rank < 2 || !x.shape[1])
        return err ? err : td_walk_refuse(walk, "eight arguments and five results are right");
    for (int i = 0; i < 8; i++)
        args[i] = (struct td_given){names[i], in[i]};
    int64_t dims[TD_MAX_RANK] = {0}, count = td_numel(&x) / x.shape[1];
    for (int d = 2; d < x.rank; d++)
        dims[d - 1] = d;
    double share = td_scalar(&in[6].v);
    args[8] = (struct td_given){"dims", td_item_ints(dims, x.rank - 1)};
    args[9] = (struct td_given){"rest", td_item_float(1 - share)};
    args[10] = (struct td_given){
        "unbiased", td_item_float(share * (double)count / (double)(count > 1 ? count - 1 : 1))};
    args[11] = (struct td_given){"keep", td_item_float(share)};
    return td_walk_formula(
        walk,
        in[5].v.i ? "y = native_batch_norm(x, weight, bias, None, None, True, 0.0, eps)[0]; "
                    "a = native_batch_norm(x, weight, bias, None, None, True, 0.0, eps)[1]; "
                    "b = native_batch_norm(x, weight, bias, None, None, True, 0.0, eps)[2]; "
                    "c = mean * rest + mean.dim(x, dims) * keep; "
                    "d = var * rest + var_mean(x, dims, correction=0)[0] * unbiased"
                  : "y = native_batch_norm(x, weight, bias, mean, var, False, 0.0, eps)[0]; "
                    "a = native_batch_norm(x, weight, bias, mean, var, False, 0.0, eps)[1]; "
                    "b = native_batch_norm(x, weight, bias, mean, var, False, 0.0, eps)[2]; "
                    "c = mean + 0; d = var + 0",
        args, 12, out, &made);
}

/* Each tensor's rows, with zeros where the others have columns. */
int td_pt2_block_diag(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                      struct td_item *out)
{
    struct td_item part[TD_MAX_OUTS], list;
    int64_t all = 0, before = 0;
    int n = node->n_operands ? in[0].n : 0, err = 0;
    if (n < 1 || n > TD_MAX_OUTS)
        return td_walk_refuse(walk, "tensors: from 1 to %d are right", TD_MAX_OUTS);
    for (int i = 0; i < n && !err; i++) {
        const struct td_tensor *t = &in[0].list[i].v.tensor;
        int64_t columns = t->rank ? t->shape[t->rank - 1] : 1;
        if (in[0].list[i].v.kind != TD_KIND_tensor || t->rank > 2)
            return td_walk_refuse(walk, "tensors: of two dimensions or less are right");
        struct td_given args[] = {{"x", in[0].list[i]},
                                  {"shape", td_item_ints((int64_t[]){1, columns}, 2)}};
        part[i] = in[0].list[i];
        err = t->rank < 2 ? td_pt2_compute(walk, "reshape(x, shape)", args, 2, &part[i]) : 0;
        err = td_size_plus(all, columns, &all) ? err : -EINVAL;
    }
    for (int i = 0; i < n && !err; i++) {
        int64_t columns = part[i].v.tensor.shape[1];
        struct td_given args[] = {
            {"x", part[i]}, {"pad", td_item_ints((int64_t[]){before, all - before - columns}, 2)}};
        err = td_pt2_compute(walk, "constant_pad_nd(x, pad)", args, 2, &part[i]);
        before += columns;
    }
    err = err ? err : td_walk_list(walk, part, n, &list);
    return err ? err : TD_CALL(walk, "cat", out, TD_GIVE(list), TD_GIVE(td_item_int(0)));
}

/* torch.gradient: half the difference of the two neighbours, over the spacing; at an end, the
 * difference to the only neighbour. */
int td_pt2_gradient(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                    struct td_item *out)
{
    struct td_tensor x;
    const struct td_item *by = td_pt2_given(node, in, "spacing");
    int err = td_pt2_tensor_at(walk, node, in, 0, &x);
    int64_t dim = td_node_int(node, "dim", -1);
    dim += dim < 0 ? x.rank : 0;
    if (err || x.rank != (td_node_find(node, "dim") < 0 ? 1 : x.rank) || dim < 0 || dim >= x.rank ||
        x.shape[dim] < 2 || td_node_int(node, "edge_order", 1) != 1)
        return err ? err
                   : td_walk_refuse(walk, "self, dim, edge_order: one dimension of two elements or "
                                          "more, and edges of order 1, are right");
    struct td_given args[] = {
        {"x", in[0]}, {"dim", td_item_int(dim)}, {"by", by ? *by : td_item_float(1)}};
    return td_pt2_compute(
        walk,
        "cat([slice(x, dim, 1, 2) - slice(x, dim, 0, 1), (slice(x, dim, 2) - slice(x, "
        "dim, 0, -2)) * 0.5, slice(x, dim, -1) - slice(x, dim, -2, -1)], dim) / by",
        args, 3, out);
}

/* How often each number comes: as many of them as the largest says, which is read first. */
int td_pt2_bincount(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                    struct td_item *out)
{
    const struct td_item *weights = td_pt2_given(node, in, "weights");
    int64_t size = td_node_int(node, "minlength", 0), end[2] = {0, -1};
    struct td_tensor x;
    struct td_item ends;
    int n = 0, err = td_pt2_tensor_at(walk, node, in, 0, &x);
    struct td_given args[] = {{"x", in[0]},
                              {"size", td_item_ints(&size, 1)},
                              {"w", weights ? *weights : (struct td_item){.v = {0}}}};
    if (!err && x.rank == 1 && x.shape[0])
        err = td_pt2_compute(walk, "stack([amin(x, [0]), amax(x, [0])], 0)", args, 1, &ends);
    if (!err && x.rank == 1 && x.shape[0])
        n = td_walk_ints(walk, &ends, end, 2);
    if (err || n < 0)
        return err ? err : n;
    if (x.rank != 1 || end[0] < 0 || size < 0 || end[1] >= INT32_MAX)
        return td_walk_refuse(walk, "self, minlength: one dimension of numbers from 0 on is right");
    size = end[1] + 1 > size ? end[1] + 1 : size;
    args[1].item = td_item_ints(&size, 1);
    return td_pt2_compute(
        walk,
        weights ? "_x = to.dtype(x, INT64); y = scatter_add(zeros(size, dtype='FP64'), 0, _x, "
                  "to.dtype(w, FP64))"
                : "_x = to.dtype(x, INT64); y = scatter_add(zeros(size, dtype='INT64'), 0, _x, "
                  "ones_like(_x))",
        args, 3, out);
}
