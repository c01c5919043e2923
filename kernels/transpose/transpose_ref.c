/* transpose and permute, reference: every element's place by counting. Elements move as bytes, so
 * that each type and each NaN arrives as it was. */
#include "kernels/kernels.h"

#include <string.h>

td_kernel td_transpose_ref, td_permute_ref;

static void permute(const struct td_call *call, const int *dims)
{
    const struct td_tensor *in = &call->arg[0].tensor, *out = &call->out[0];
    size_t size = td_dtype_size(in->dtype);
    int64_t n = td_numel(out), index[TD_MAX_RANK] = {0};
    for (int64_t i = 0; i < n && (i % TD_STRIDE || !td_stopped()); i++) {
        int64_t at = 0, from[TD_MAX_RANK] = {0};
        for (int d = 0; d < out->rank; d++)
            from[dims[d]] = index[d];
        for (int d = 0; d < in->rank; d++)
            at = at * in->shape[d] + from[d];
        memcpy((char *)out->data + (size_t)i * size, (const char *)in->data + (size_t)at * size,
               size);
        for (int d = out->rank - 1; d >= 0 && ++index[d] == out->shape[d]; d--)
            index[d] = 0;
    }
}

void td_transpose_ref(const struct td_call *call)
{
    int dims[TD_MAX_RANK], dim0 = (int)call->arg[1].i, dim1 = (int)call->arg[2].i;
    for (int d = 0; d < TD_MAX_RANK; d++)
        dims[d] = d == dim0 ? dim1 : d == dim1 ? dim0 : d;
    permute(call, dims);
}

void td_permute_ref(const struct td_call *call)
{
    int dims[TD_MAX_RANK];
    for (int d = 0; d < call->arg[1].ints.n; d++)
        dims[d] = (int)call->arg[1].ints.v[d];
    permute(call, dims);
}
