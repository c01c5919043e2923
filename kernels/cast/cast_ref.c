/* cast, reference, for every pair of types: an integer travels as int64, the rest as double, which
 * holds each of the others exactly; so there is one rounding. */
#include "kernels/elementwise.h"

#include <string.h>

td_kernel td_cast_ref;

void td_cast_ref(const struct td_call *call)
{
    const struct td_tensor *in = &call->arg[0].tensor, *out = &call->out[0];
    int64_t n = td_numel(out);
    if (in->dtype == out->dtype) {
        if (n)
            memcpy(out->data, in->data, td_nbytes(in));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        if (td_dtype_kind(in->dtype) == 'f')
            td_put_real(out, i, td_get_real(in, i));
        else
            td_put_whole(out, i, td_get_whole(in, i));
}
