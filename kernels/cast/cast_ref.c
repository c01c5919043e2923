/* cast, reference, for every pair of types: an integer travels as int64, the rest as double, which
 * holds each of the others exactly; td_put_ rounds once. Only from BF16 to FP32 the bits move,
 * as half.h has it: through double a signalling NaN would become quiet. */
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
    for (int64_t i = 0; i < n && (i % TD_STRIDE || !td_stopped()); i++)
        if (in->dtype == TD_bf16 && out->dtype == TD_f32)
            ((uint32_t *)out->data)[i] = (uint32_t)((const uint16_t *)in->data)[i] << 16;
        else if (td_dtype_kind(in->dtype) == 'f')
            td_put_real(out, i, td_get_real(in, i));
        else
            td_put_whole(out, i, td_get_whole(in, i));
}
