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
