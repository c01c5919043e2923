/* How views lie in the tensor that they show: see move.h. All of it works on strides, so that a
 * view of a view is one too; sizes may be as large as they like where there are no elements, so
 * strides are computed to wrap. */
#include "kernels/move/move.h"
#include "kernels/sizes.h"

#include <errno.h>
#include <string.h>

static int64_t times(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

void td_layout_of(struct td_layout *l, const struct td_tensor *t)
{
    l->from = t;
    l->offset = 0;
    l->rank = t->rank;
    int64_t step = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        l->shape[d] = t->shape[d];
        l->stride[d] = step;
        step = times(step, t->shape[d]);
    }
}

/* ---- what they share ---- */

int td_lay_dim_of(const struct td_call *call, int i, int rank, int *dim)
{
    if (!rank)
        return td_refuse(call, "self: has no dimensions; at least one is right");
    return td_dim(call, "dim", rank, call->arg[i].i, dim);
}

void td_lay_cut(struct td_layout *l, int dim, int64_t start, int64_t length)
{
    l->offset = (int64_t)((uint64_t)l->offset + (uint64_t)times(start, l->stride[dim]));
    l->shape[dim] = length;
}

static void insert(struct td_layout *l, int dim, int64_t size, int64_t stride)
{
    memmove(&l->shape[dim + 1], &l->shape[dim], (size_t)(l->rank - dim) * sizeof *l->shape);
    memmove(&l->stride[dim + 1], &l->stride[dim], (size_t)(l->rank - dim) * sizeof *l->stride);
    l->shape[dim] = size;
    l->stride[dim] = stride;
    l->rank++;
}

void td_lay_drop(struct td_layout *l, int dim)
{
    l->rank--;
    memmove(&l->shape[dim], &l->shape[dim + 1], (size_t)(l->rank - dim) * sizeof *l->shape);
    memmove(&l->stride[dim], &l->stride[dim + 1], (size_t)(l->rank - dim) * sizeof *l->stride);
}

static int too_many(const struct td_call *call, const char *name)
{
    return td_refuse(call, "%s: the result would be of rank %d; at most %d is right", name,
                     TD_MAX_RANK + 1, TD_MAX_RANK);
}

/* ---- the order of dimensions ---- */

int td_lay_all(const struct td_call *call, int i, struct td_layout *l)
{
    (void)call;
    (void)i;
    (void)l;
    return 0;
}

static void swap(struct td_layout *l, int a, int b)
{
    int64_t shape = l->shape[a], stride = l->stride[a];
    l->shape[a] = l->shape[b];
    l->stride[a] = l->stride[b];
    l->shape[b] = shape;
    l->stride[b] = stride;
}

int td_lay_transpose(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    int a, b, err = td_dim(call, "dim0", l->rank, call->arg[1].i, &a);
    err = err ? err : td_dim(call, "dim1", l->rank, call->arg[2].i, &b);
    if (!err && l->rank)
        swap(l, a, b);
    return err;
}

int td_lay_t(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    if (l->rank > 2)
        return td_refuse(call, "self: is of rank %d; at most 2 is right", l->rank);
    if (l->rank == 2)
        swap(l, 0, 1);
    return 0;
}

static void reorder(struct td_layout *l, const int *dims)
{
    struct td_layout old = *l;
    for (int d = 0; d < l->rank; d++) {
        l->shape[d] = old.shape[dims[d]];
        l->stride[d] = old.stride[dims[d]];
    }
}

int td_lay_permute(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    int dims[TD_MAX_LIST];
    if (call->arg[1].ints.n != l->rank)
        return td_refuse(call, "dims: has %d entries; one for each dimension of self, %d, is right",
                         call->arg[1].ints.n, l->rank);
    int err = td_dims(call, "dims", l->rank, &call->arg[1], dims);
    if (!err)
        reorder(l, dims);
    return err;
}

/* Source dimensions go to destinations, one or a list of each; the rest keeps its order. */
int td_lay_movedim(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    struct td_value list[2];
    int from[TD_MAX_LIST], to[TD_MAX_LIST], dims[TD_MAX_RANK];
    for (int k = 0; k < 2; k++) {
        list[k] = call->arg[1 + k];
        if (list[k].kind == TD_KIND_int)
            list[k] = (struct td_value){.kind = TD_KIND_ints, .ints = {{list[k].i}, 1}};
    }
    int n = list[0].ints.n;
    if (n != list[1].ints.n)
        return td_refuse(call, "destination: has %d dimensions; as many as source, %d, is right",
                         list[1].ints.n, n);
    int err = td_dims(call, "source", l->rank, &list[0], from);
    err = err ? err : td_dims(call, "destination", l->rank, &list[1], to);
    if (err || !l->rank)
        return err;
    unsigned moved = 0, taken = 0;
    for (int k = 0; k < n; k++) {
        dims[to[k]] = from[k];
        moved |= 1u << from[k];
        taken |= 1u << to[k];
    }
    for (int d = 0, at = 0; d < l->rank; d++) {
        if (moved >> d & 1)
            continue;
        while (taken >> at & 1)
            at++;
        dims[at++] = d;
    }
    reorder(l, dims);
    return 0;
}

/* ---- parts of dimensions ---- */

int td_lay_select(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    int dim = 0, err = td_lay_dim_of(call, 1, l->rank, &dim);
    if (err)
        return err;
    int64_t n = l->shape[dim], at = call->arg[2].i;
    if (at < -n || at >= n)
        return td_refuse(call, "index: %lld is out of range for dimension %d of size %lld",
                         (long long)at, dim, (long long)n);
    td_lay_cut(l, dim, at < 0 ? at + n : at, 1);
    td_lay_drop(l, dim);
    return 0;
}

/* A bound of a slice: counted from the end where negative, then held within the dimension. */
static int64_t bound(const struct td_value *v, int64_t otherwise, int64_t n)
{
    if (v->kind == TD_KIND_none)
        return otherwise;
    int64_t at = v->i < 0 ? v->i + n : v->i;
    return at < 0 ? 0 : at > n ? n : at;
}

int td_lay_slice(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    int dim = 0, err = td_lay_dim_of(call, 1, l->rank, &dim);
    if (err)
        return err;
    int64_t n = l->shape[dim], step = call->arg[4].i;
    if (step < 1)
        return td_refuse(call, "step: %lld is not positive", (long long)step);
    int64_t start = bound(&call->arg[2], 0, n), end = bound(&call->arg[3], n, n);
    td_lay_cut(l, dim, start, end > start ? (end - start - 1) / step + 1 : 0);
    l->stride[dim] = times(l->stride[dim], step);
    return 0;
}

int td_lay_narrow(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    int dim = 0, err = td_lay_dim_of(call, 1, l->rank, &dim);
    if (err)
        return err;
    int64_t n = l->shape[dim], start = call->arg[2].i, length = call->arg[3].i;
    if (start < -n || start > n)
        return td_refuse(call, "start: %lld is out of range for dimension %d of size %lld",
                         (long long)start, dim, (long long)n);
    start += start < 0 ? n : 0;
    if (length < 0 || length > n - start)
        return td_refuse(call, "length: from %lld on, dimension %d has %lld elements, not %lld",
                         (long long)start, dim, (long long)(n - start), (long long)length);
    td_lay_cut(l, dim, start, length);
    return 0;
}

int td_lay_diagonal(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    int a, b, err = td_dim(call, "dim1", l->rank, call->arg[2].i, &a);
    err = err ? err : td_dim(call, "dim2", l->rank, call->arg[3].i, &b);
    if (!err && a == b)
        err = td_refuse(call, "dim2: is the same dimension as dim1, %d", a);
    if (err)
        return err;
    int64_t offset = call->arg[1].i, rows = l->shape[a], cols = l->shape[b];
    int64_t down = offset < 0 ? (offset < -rows ? rows : -offset) : 0;
    int64_t right = offset > 0 ? (offset > cols ? cols : offset) : 0;
    int64_t n = rows - down < cols - right ? rows - down : cols - right;
    int64_t stride = (int64_t)((uint64_t)l->stride[a] + (uint64_t)l->stride[b]);
    if (n) {
        td_lay_cut(l, a, down, rows);
        td_lay_cut(l, b, right, cols);
    }
    td_lay_drop(l, a > b ? a : b);
    td_lay_drop(l, a > b ? b : a);
    insert(l, l->rank, n, stride);
    return 0;
}

int td_lay_unfold(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    int dim, err = td_dim(call, "dimension", l->rank, call->arg[1].i, &dim);
    int64_t size = call->arg[2].i, step = call->arg[3].i, n = l->rank && !err ? l->shape[dim] : 1;
    if (err)
        return err;
    if (size < 0 || size > n)
        return td_refuse(call, "size: is %lld; from 0 to the dimension's size, %lld, is right",
                         (long long)size, (long long)n);
    if (step < 1)
        return td_refuse(call, "step: %lld is not positive", (long long)step);
    if (l->rank == TD_MAX_RANK)
        return too_many(call, "dimension");
    int64_t stride = l->rank ? l->stride[dim] : 1;
    if (l->rank) {
        l->shape[dim] = (n - size) / step + 1;
        l->stride[dim] = times(stride, step);
    }
    insert(l, l->rank, size, stride);
    return 0;
}

int td_lay_as_strided(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    const struct td_value *size = &call->arg[1], *stride = &call->arg[2], *at = &call->arg[3];
    if (size->ints.n != stride->ints.n || size->ints.n > TD_MAX_RANK)
        return td_refuse(call,
                         "stride: has %d entries for %d sizes; as many of both, at most %d, "
                         "is right",
                         stride->ints.n, size->ints.n, TD_MAX_RANK);
    int64_t last = at->kind == TD_KIND_none ? 0 : at->i, all = td_numel(l->from);
    bool fits = last >= 0, empty = false;
    l->offset = last;
    l->rank = size->ints.n;
    for (int d = 0; d < l->rank; d++) {
        int64_t span;
        l->shape[d] = size->ints.v[d];
        l->stride[d] = stride->ints.v[d];
        if (l->shape[d] < 0 || l->stride[d] < 0)
            return td_refuse(call, "%s: is negative in dimension %d",
                             l->shape[d] < 0 ? "size" : "stride", d);
        empty = empty || !l->shape[d];
        fits = fits && !(l->shape[d] && !td_size_times(l->shape[d] - 1, l->stride[d], &span)) &&
               !(l->shape[d] && !td_size_plus(last, span, &last));
    }
    if (empty ? l->offset >= 0 : fits && last < all)
        return 0;
    return td_refuse(call,
                     "size: with these strides the last element would lie behind the %lld "
                     "of self",
                     (long long)all);
}
