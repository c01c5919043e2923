/* Dimension arguments: see dims.h. The sentences name the range that would be right, since that is
 * what most such mistakes are about. */
#include "kernels/dims.h"

#include <errno.h>
#include <string.h>

int td_dim(const struct td_call *call, const char *name, int rank, int64_t said, int *dim)
{
    int n = rank ? rank : 1;
    *dim = (int)(said < 0 ? said + n : said);
    if (said >= -n && said < n)
        return 0;
    return td_refuse(call,
                     "%s: dimension %lld is out of range for a tensor of rank %d; from %d to %d "
                     "is right",
                     name, (long long)said, rank, -n, n - 1);
}

int td_dims(const struct td_call *call, const char *name, int rank, const struct td_value *list,
            int *dims)
{
    unsigned seen = 0;
    for (int k = 0; k < list->ints.n; k++) {
        int err = td_dim(call, name, rank, list->ints.v[k], &dims[k]);
        if (err)
            return err;
        if (seen >> dims[k] & 1)
            return td_refuse(call, "%s: dimension %d appears twice; each at most once is right",
                             name, dims[k]);
        seen |= 1u << dims[k];
    }
    return 0;
}

int td_rule_dim(struct td_call *call, int i, const char *name, int rank)
{
    int dim, err = td_dim(call, name, rank, call->arg[i].i, &dim);
    if (!err)
        call->arg[i].i = dim;
    return err;
}

int td_rule_dims(struct td_call *call, int i, const char *name, int rank)
{
    int dims[TD_MAX_LIST], err = td_dims(call, name, rank, &call->arg[i], dims);
    for (int k = 0; k < call->arg[i].ints.n && !err; k++)
        call->arg[i].ints.v[k] = dims[k];
    return err;
}

void td_rank_up(struct td_tensor *t, int rank)
{
    int more = rank - t->rank;
    if (more <= 0)
        return;
    memmove(t->shape + more, t->shape, sizeof *t->shape * (size_t)t->rank);
    for (int d = 0; d < more; d++)
        t->shape[d] = 1;
    t->rank = rank;
}

int td_broadcast(struct td_tensor *to, const struct td_tensor *t, int64_t *other)
{
    td_rank_up(to, t->rank);
    for (int d = 0; d < t->rank; d++) {
        int64_t *size = &to->shape[d + to->rank - t->rank];
        *other = *size;
        if (*size == 1)
            *size = t->shape[d];
        else if (t->shape[d] != 1 && t->shape[d] != *size)
            return d;
    }
    return -1;
}

struct td_span td_span(const struct td_tensor *t, int dim)
{
    struct td_span s = {1, 1, 1};
    for (int d = 0; d < t->rank; d++)
        *(d < dim ? &s.outer : d > dim ? &s.inner : &s.size) *= t->shape[d];
    return s;
}

void td_reduced_shape(struct td_tensor *out, const struct td_tensor *in, unsigned dims,
                      bool keepdim)
{
    out->rank = 0;
    for (int d = 0; d < in->rank; d++)
        if (!(dims & 1u << d))
            out->shape[out->rank++] = in->shape[d];
        else if (keepdim)
            out->shape[out->rank++] = 1;
}

bool td_has_rows(const struct td_tensor *t)
{
    int d = t->stride ? t->rank - 1 : -1;
    while (d >= 0 && t->shape[d] == 1)
        d--;
    return d < 0 || t->stride[d] == 1;
}

struct td_reduction td_reduction(const struct td_tensor *in, unsigned dims)
{
    struct td_reduction r = {.along = true, .kept = 1, .reduced = 1, .inner = 1};
    int64_t dense = 1, next = 0; /* the step by which the dimension inside of this one goes on */
    int last = -1; /* whether the dimension inside of this one is reduced; -1: there is none */
    for (int d = in->rank - 1; d >= 0; dense *= in->shape[d--]) {
        int which = dims >> d & 1;
        int64_t step = in->stride ? in->stride[d] : dense;
        if (in->shape[d] == 1)
            continue;
        if (last < 0)
            r.along = which;
        bool one = last == which && step == next;
        if (last < 0 || (one && !r.n[0] && !r.n[1])) {
            r.inner *= in->shape[d];
        } else if (one) {
            r.size[which][r.n[which] - 1] *= in->shape[d];
        } else {
            r.size[which][r.n[which]] = in->shape[d];
            r.step[which][r.n[which]++] = step;
        }
        last = which;
        next = step * in->shape[d];
    }
    for (int which = 0; which < 2; which++) /* they came innermost first */
        for (int a = 0, b = r.n[which] - 1; a < b; a++, b--) {
            int64_t size = r.size[which][a], far = r.step[which][a];
            r.size[which][a] = r.size[which][b];
            r.step[which][a] = r.step[which][b];
            r.size[which][b] = size;
            r.step[which][b] = far;
        }
    for (int d = 0; d < r.n[0]; d++)
        r.kept *= r.size[0][d];
    for (int d = 0; d < r.n[1]; d++)
        r.reduced *= r.size[1][d];
    return r;
}
