/* Views of the same elements in another shape, and of fewer elements in a larger one: see move.h.
 */
#include "kernels/move/move.h"
#include "kernels/sizes.h"

#include <errno.h>
#include <string.h>

int td_lay_unsqueeze(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    int dim, err = td_dim(call, "dim", l->rank + 1, call->arg[1].i, &dim);
    if (err)
        return err;
    if (l->rank == TD_MAX_RANK)
        return td_refuse(call, "dim: the result would be of rank %d; at most %d is right",
                         TD_MAX_RANK + 1, TD_MAX_RANK);
    memmove(&l->shape[dim + 1], &l->shape[dim], (size_t)(l->rank - dim) * sizeof *l->shape);
    memmove(&l->stride[dim + 1], &l->stride[dim], (size_t)(l->rank - dim) * sizeof *l->stride);
    l->stride[dim] =
        dim < l->rank ? (int64_t)((uint64_t)l->shape[dim + 1] * (uint64_t)l->stride[dim + 1]) : 1;
    l->shape[dim] = 1;
    l->rank++;
    return 0;
}

/* Of all dimensions, of one, or of a list of them. */
int td_lay_squeeze(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    const struct td_value *v = call->n_args > 1 ? &call->arg[1] : NULL;
    struct td_value one = {.kind = TD_KIND_ints};
    unsigned which = v ? 0 : ~0u;
    int dims[TD_MAX_LIST];
    if (v && v->kind == TD_KIND_int) {
        one.ints.v[one.ints.n++] = v->i;
        v = &one;
    }
    int err = v ? td_dims(call, "dim", l->rank, v, dims) : 0;
    if (err)
        return err;
    for (int k = 0; v && k < v->ints.n; k++)
        which |= 1u << dims[k];
    for (int d = l->rank - 1; d >= 0; d--)
        if (which >> d & 1 && l->shape[d] == 1)
            td_lay_drop(l, d);
    return 0;
}

/* ---- other shapes ---- */

/* The size that -1 stands for, put in its place; or whether the sizes have as many elements. */
static int settle_sizes(const struct td_call *call, int64_t all, int64_t *size, int n,
                        const char *name)
{
    int64_t known = 1;
    int open = -1;
    bool fits = true, zero = false;
    for (int d = 0; d < n; d++) {
        if (size[d] == -1 && open >= 0)
            return td_refuse(call, "%s: only one size can be -1", name);
        if (size[d] < -1)
            return td_refuse(call, "%s: %lld is no size", name, (long long)size[d]);
        zero = zero || !size[d];
        if (size[d] == -1)
            open = d;
        else
            fits = fits && (!size[d] || td_size_times(known, size[d], &known));
    }
    known = zero ? 0 : known;
    fits = fits || zero;
    if (open >= 0 && fits && known && all % known == 0) {
        size[open] = all / known;
        return 0;
    }
    if (open >= 0 && zero && !all)
        return td_refuse(call, "%s: what -1 stands for is open, as another size is 0", name);
    if (open < 0 && fits && known == all)
        return 0;
    return td_refuse(call, "%s: these sizes do not make the %lld elements of self", name,
                     (long long)all);
}

/* The layout in another shape of as many elements, where strides can say that: runs of old
 * dimensions that lie as one are cut anew. -EINVAL where they cannot. */
static int reshape(const struct td_call *call, struct td_layout *l, const int64_t *size, int n)
{
    struct td_layout old = *l;
    bool nothing = false;
    l->rank = n;
    for (int d = 0; d < n; d++) {
        l->shape[d] = size[d];
        nothing = nothing || !size[d];
    }
    int to = n - 1;
    int64_t room = 1, used = 1, step = 1; /* elements of the old run; of it in new dimensions */
    for (int d = old.rank - 1; d >= 0 && !nothing; d--) {
        if (old.shape[d] == 1)
            continue;
        if (room == 1) {
            step = old.stride[d];
        } else if (old.stride[d] != step * room) { /* not as one with what lies inside */
            for (; to >= 0 && used < room; used *= size[to--])
                l->stride[to] = step * used;
            if (used != room)
                return td_refuse(call,
                                 "size: self does not lie so that it could be seen like this");
            room = used = 1;
            step = old.stride[d];
        }
        room *= old.shape[d];
    }
    for (; to >= 0; to--) {
        l->stride[to] = nothing ? 1 : step * used;
        used *= nothing ? 1 : size[to];
    }
    return 0;
}

static int to_sizes(const struct td_call *call, struct td_layout *l, const int64_t *size, int n,
                    const char *name)
{
    int64_t settled[TD_MAX_LIST];
    if (n > TD_MAX_RANK)
        return td_refuse(call, "%s: has %d sizes; at most %d is right", name, n, TD_MAX_RANK);
    memcpy(settled, size, (size_t)n * sizeof *size);
    int err = settle_sizes(call, td_numel(l->from), settled, n, name);
    return err ? err : reshape(call, l, settled, n);
}

int td_lay_view(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    const struct td_value *size = &call->arg[1];
    return to_sizes(call, l, size->ints.v, size->ints.n, "size");
}

int td_lay_view_as(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    const struct td_tensor *other = &call->arg[1].tensor;
    return to_sizes(call, l, other->shape, other->rank, "other");
}

int td_lay_flatten(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    int start, end, n = 0, err = td_dim(call, "start_dim", l->rank, call->arg[1].i, &start);
    int64_t size[TD_MAX_RANK] = {1}, together = 1;
    err = err ? err : td_dim(call, "end_dim", l->rank, call->arg[2].i, &end);
    if (!err && end < start)
        err = td_refuse(call, "end_dim: stands before start_dim");
    if (err)
        return err;
    for (int d = 0; d < l->rank; d++) {
        if (d <= start || d > end)
            together = 1;
        if (!td_size_times(together, l->shape[d], &together))
            return td_refuse(call, "self: its sizes are too large to be multiplied");
        if (d < start || d >= end)
            size[n++] = together;
    }
    return reshape(call, l, size, l->rank ? n : 1);
}

int td_lay_unflatten(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    const struct td_value *sizes = &call->arg[2];
    int dim = 0, n = 0, err = td_lay_dim_of(call, 1, l->rank, &dim);
    int64_t size[TD_MAX_LIST + TD_MAX_RANK], inner[TD_MAX_LIST];
    if (err)
        return err;
    if (!sizes->ints.n || sizes->ints.n + l->rank - 1 > TD_MAX_RANK)
        return td_refuse(call,
                         "sizes: has %d sizes; at least one, and at most %d dimensions in "
                         "all, is right",
                         sizes->ints.n, TD_MAX_RANK);
    memcpy(inner, sizes->ints.v, sizeof inner);
    err = settle_sizes(call, l->shape[dim], inner, sizes->ints.n, "sizes");
    for (int d = 0; !err && d < l->rank; d++) {
        if (d != dim)
            size[n++] = l->shape[d];
        for (int k = 0; d == dim && k < sizes->ints.n; k++)
            size[n++] = inner[k];
    }
    return err ? err : reshape(call, l, size, n);
}

/* ---- larger than what they show ---- */

int td_lay_broadcast_to(const struct td_call *call, struct td_layout *l, const int64_t *size,
                        int rank, const char *name)
{
    struct td_layout old = *l;
    int more = rank - old.rank;
    if (more < 0 || rank > TD_MAX_RANK)
        return td_refuse(call, "%s: has %d sizes for a tensor of rank %d; from %d to %d is right",
                         name, rank, old.rank, old.rank, TD_MAX_RANK);
    l->rank = rank;
    for (int d = 0; d < rank; d++) {
        int64_t own = d < more ? 1 : old.shape[d - more];
        bool keep = size[d] == -1 && d >= more;
        if (!keep && (size[d] < 0 || (own != 1 && own != size[d])))
            return td_refuse(call, "%s: %lld does not go with size %lld in dimension %d", name,
                             (long long)size[d], (long long)own, d);
        l->shape[d] = keep ? own : size[d];
        l->stride[d] = d < more || own != l->shape[d] ? 0 : old.stride[d - more];
    }
    return 0;
}

int td_lay_expand(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    const struct td_value *size = &call->arg[1];
    return td_lay_broadcast_to(call, l, size->ints.v, size->ints.n, "size");
}

int td_lay_expand_as(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    const struct td_tensor *other = &call->arg[1].tensor;
    return td_lay_broadcast_to(call, l, other->shape, other->rank, "other");
}

/* Of a BOOL's bytes each is 0 or 1, which those of others need not be. */
int td_rule_view_dtype(struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor;
    enum td_dtype dtype = call->arg[1].dtype;
    if (td_dtype_size(dtype) != td_dtype_size(self->dtype))
        return td_refuse(call, "dtype: elements of %s have another size than self's, of %s",
                         td_dtype_name(dtype), td_dtype_name(self->dtype));
    if (dtype == TD_bool && self->dtype != TD_bool)
        return td_refuse(call, "dtype: the bytes of %s need not be 0 or 1, as BOOL's are; cast it",
                         td_dtype_name(self->dtype));
    call->out[0] = *self;
    call->out[0].dtype = dtype;
    call->n_out = 1;
    return 0;
}
