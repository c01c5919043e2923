/* Views whose results are a list: parts of a tensor, and tensors of one shape. See move.h. */
#include "kernels/move/move.h"
#include "kernels/sizes.h"

#include <errno.h>

static int count(const struct td_call *call, const char *name, int64_t n)
{
    if (n <= TD_MAX_OUTS)
        return (int)n;
    return td_refuse(call, "%s: there would be %lld results; at most %d are given at once", name,
                     (long long)n, TD_MAX_OUTS);
}

/* Parts of `size` elements each, the last one of what is left. */
static int64_t parts_of(int64_t n, int64_t size)
{
    return n && size ? (n - 1) / size + 1 : 1;
}

static int part(struct td_layout *l, int dim, int64_t i, int64_t size)
{
    int64_t left = l->shape[dim] - i * size;
    td_lay_cut(l, dim, i * size, left < size ? left : size);
    return 0;
}

int td_count_split(const struct td_call *call)
{
    int dim = 0, err = td_lay_dim_of(call, 2, call->arg[0].tensor.rank, &dim);
    int64_t size = call->arg[1].i, n = err ? 0 : call->arg[0].tensor.shape[dim];
    if (!err && (size < 0 || (!size && n)))
        err = td_refuse(call, "split_size: is %lld; a positive number is right", (long long)size);
    return err ? err : count(call, "split_size", parts_of(n, size));
}

int td_lay_split(const struct td_call *call, int i, struct td_layout *l)
{
    int dim = 0, err = td_lay_dim_of(call, 2, call->arg[0].tensor.rank, &dim);
    return err ? err : part(l, dim, i, call->arg[1].i);
}

int td_count_split_with_sizes(const struct td_call *call)
{
    int dim = 0, err = td_lay_dim_of(call, 2, call->arg[0].tensor.rank, &dim);
    const struct td_value *sizes = &call->arg[1];
    int64_t sum = 0, n = err ? 0 : call->arg[0].tensor.shape[dim];
    if (err)
        return err;
    for (int k = 0; k < sizes->ints.n; k++)
        if (sizes->ints.v[k] < 0 || !td_size_plus(sum, sizes->ints.v[k], &sum))
            return td_refuse(call, "split_sizes: %lld is no size", (long long)sizes->ints.v[k]);
    if (sum != n)
        return td_refuse(call,
                         "split_sizes: their sum is %lld; the dimension's size, %lld, is right",
                         (long long)sum, (long long)n);
    return sizes->ints.n;
}

int td_lay_split_with_sizes(const struct td_call *call, int i, struct td_layout *l)
{
    int64_t begin = 0;
    int dim = 0, err = td_lay_dim_of(call, 2, call->arg[0].tensor.rank, &dim);
    for (int k = 0; k < i; k++)
        begin += call->arg[1].ints.v[k];
    if (!err)
        td_lay_cut(l, dim, begin, call->arg[1].ints.v[i]);
    return err;
}

static int64_t chunk_size(const struct td_call *call, int dim)
{
    int64_t n = call->arg[0].tensor.shape[dim];
    return n ? (n - 1) / call->arg[1].i + 1 : 0;
}

int td_count_chunk(const struct td_call *call)
{
    int dim = 0, err = td_lay_dim_of(call, 2, call->arg[0].tensor.rank, &dim);
    if (!err && call->arg[1].i < 1)
        err = td_refuse(call, "chunks: is %lld; a positive number is right",
                        (long long)call->arg[1].i);
    if (err)
        return err;
    int64_t n = call->arg[0].tensor.shape[dim];
    return count(call, "chunks", n ? parts_of(n, chunk_size(call, dim)) : call->arg[1].i);
}

int td_lay_chunk(const struct td_call *call, int i, struct td_layout *l)
{
    int dim = 0, err = td_lay_dim_of(call, 2, call->arg[0].tensor.rank, &dim);
    return err ? err : part(l, dim, i, chunk_size(call, dim));
}

int td_count_unbind(const struct td_call *call)
{
    int dim = 0, err = td_lay_dim_of(call, 1, call->arg[0].tensor.rank, &dim);
    return err ? err : count(call, "dim", call->arg[0].tensor.shape[dim]);
}

int td_lay_unbind(const struct td_call *call, int i, struct td_layout *l)
{
    int dim = 0, err = td_lay_dim_of(call, 1, call->arg[0].tensor.rank, &dim);
    if (err)
        return err;
    td_lay_cut(l, dim, i, 1);
    td_lay_drop(l, dim);
    return 0;
}

/* ---- one result for each tensor of a list ---- */

int td_count_tensors(const struct td_call *call)
{
    int n = call->arg[0].tensors.n;
    return n ? count(call, "tensors", n) : td_refuse(call, "tensors: is empty");
}

int td_lay_broadcast(const struct td_call *call, int i, struct td_layout *l)
{
    const struct td_value *all = &call->arg[0];
    int64_t size[TD_MAX_RANK];
    int rank = 0;
    for (int k = 0; k < all->tensors.n; k++)
        rank = all->tensors.v[k].rank > rank ? all->tensors.v[k].rank : rank;
    for (int d = 0; d < rank; d++) {
        size[d] = 1;
        for (int k = 0; k < all->tensors.n; k++) {
            const struct td_tensor *t = &all->tensors.v[k];
            int own = d - (rank - t->rank);
            if (own >= 0 && t->shape[own] != 1)
                size[d] = t->shape[own];
        }
    }
    td_layout_of(l, &all->tensors.v[i]);
    return td_lay_broadcast_to(call, l, size, rank, "tensors");
}

int td_lay_meshgrid(const struct td_call *call, int i, struct td_layout *l)
{
    const struct td_value *all = &call->arg[0];
    const char *indexing = call->n_args > 1 ? call->arg[1].str : "ij";
    bool xy = indexing[0] == 'x';
    int n = all->tensors.n;
    if (indexing[0] != 'i' && !xy)
        return td_refuse(call, "indexing: '%.20s' is neither 'ij' nor 'xy'", indexing);
    if (n > TD_MAX_RANK)
        return td_refuse(call, "tensors: are %d; at most %d is right", n, TD_MAX_RANK);
    for (int k = 0; k < n; k++)
        if (all->tensors.v[k].rank > 1 || all->tensors.v[k].dtype != all->tensors.v[0].dtype)
            return td_refuse(call,
                             "tensors.%d: must be of rank 0 or 1, and of the type of the first", k);
    td_layout_of(l, &all->tensors.v[i]);
    l->rank = n;
    for (int d = 0; d < n; d++) { /* dimension d is that of tensor k */
        int k = xy && n > 1 && d < 2 ? 1 - d : d;
        l->shape[d] = all->tensors.v[k].rank ? all->tensors.v[k].shape[0] : 1;
        l->stride[d] = k == i;
    }
    return 0;
}
