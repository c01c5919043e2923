/* The operators that copy, reference, for every pair of types: an integer travels as int64, the
 * rest as double, which holds each of the others exactly; td_put_ rounds once. Only within a type
 * and from BF16 to FP32 the bits move, as half.h has it: through double a signalling NaN would
 * become quiet. */
#include "kernels/elementwise.h"
#include "kernels/half.h"
#include "kernels/pointwise/pointwise.h"

#include <string.h>

static void copy_one(const struct td_tensor *out, int64_t i, const struct td_tensor *in, int64_t at)
{
    size_t size = td_dtype_size(in->dtype);
    if (in->dtype == out->dtype)
        memcpy((char *)out->data + (size_t)i * size, (char *)in->data + (size_t)at * size, size);
    else if (in->dtype == TD_bf16 && out->dtype == TD_f32)
        ((uint32_t *)out->data)[i] = (uint32_t)((const uint16_t *)in->data)[at] << 16;
    else if (in->dtype == TD_u64 && td_dtype_kind(out->dtype) == 'f' && out->dtype != TD_f64)
        td_put_real(out, i, td_u64_to_odd(((const uint64_t *)in->data)[at]));
    else if (td_dtype_kind(in->dtype) == 'f' || out->dtype == TD_f64)
        td_put_real(out, i, td_get_real(in, at));
    else
        td_put_whole(out, i, td_get_whole(in, at));
}

td_kernel td_cast_ref;
void td_cast_ref(const struct td_call *call)
{
    const struct td_pointwise *walk = call->op->family;
    const struct td_tensor *in = &call->arg[*walk->operands - '0'].tensor, *out = &call->out[0];
    int64_t n = td_numel(out), index[TD_MAX_RANK] = {0};
    for (int64_t i = 0; i < n && (i % TD_STRIDE || !td_stopped()); i++) {
        int64_t at = 0;
        for (int d = 0; d < in->rank; d++) {
            int64_t k = in->shape[d] == 1 ? 0 : index[d + out->rank - in->rank];
            at = in->stride ? at + k * in->stride[d] : at * in->shape[d] + k;
        }
        copy_one(out, i, in, at);
        for (int d = out->rank - 1; d >= 0 && ++index[d] == out->shape[d]; d--)
            index[d] = 0;
    }
    for (int64_t i = 0; call->n_out > 1 && i < n; i++)
        td_put_whole(&call->out[1], i, 1);
}
