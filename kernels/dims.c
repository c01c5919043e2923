/* Dimension arguments: see dims.h. The sentences name the range that would be right, since that is
 * what most such mistakes are about. */
#include "kernels/dims.h"

#include <errno.h>

static int judge(struct td_call *call, const char *name, int rank, int64_t *dim)
{
    int n = rank ? rank : 1;
    if (*dim < -n || *dim >= n)
        return td_refuse(call,
                         "%s: dimension %lld is out of range for a tensor of rank %d; from "
                         "%d to %d is right",
                         name, (long long)*dim, rank, -n, n - 1);
    if (*dim < 0)
        *dim += n;
    return 0;
}

int td_rule_dim(struct td_call *call, int i, const char *name, int rank)
{
    return judge(call, name, rank, &call->arg[i].i);
}

int td_rule_dims(struct td_call *call, int i, const char *name, int rank)
{
    unsigned seen = 0;
    for (int k = 0; k < call->arg[i].ints.n; k++) {
        int64_t *dim = &call->arg[i].ints.v[k];
        int err = judge(call, name, rank, dim);
        if (err)
            return err;
        if (seen & 1u << *dim)
            return td_refuse(call, "%s: dimension %lld appears twice; each at most once is right",
                             name, (long long)*dim);
        seen |= 1u << *dim;
    }
    return 0;
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

struct td_reduction td_reduction(const struct td_tensor *in, unsigned dims)
{
    struct td_reduction r = {.along = true, .kept = 1, .reduced = 1, .inner = 1};
    int64_t step = 1;
    int last = -1; /* whether the dimension inside of this one is reduced; -1: there is none */
    for (int d = in->rank - 1; d >= 0; step *= in->shape[d--]) {
        int which = dims >> d & 1;
        if (in->shape[d] == 1)
            continue;
        if (last < 0)
            r.along = which;
        if (last < 0 || (last == which && !r.n[0] && !r.n[1])) {
            r.inner *= in->shape[d];
        } else if (last == which) {
            r.size[which][r.n[which] - 1] *= in->shape[d];
        } else {
            r.size[which][r.n[which]] = in->shape[d];
            r.step[which][r.n[which]++] = step;
        }
        last = which;
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
