/* The picking operators' judge: one element after the other. */
#include "kernels/pick/pick.h"

#include <string.h>

td_kernel td_pick_ref;
void td_pick_ref(const struct td_call *call)
{
    const struct td_tensor *in = &call->arg[0].tensor, *out = &call->out[0];
    struct td_pick_axis axis[TD_MAX_RANK];
    size_t size = td_dtype_size(out->dtype);
    uint64_t filling = td_pick_filling(call);
    int64_t n = td_numel(out);
    td_pick_axes(call, axis);
    for (int64_t i = 0; i < n && !(i % TD_STRIDE == 0 && td_stopped()); i++) {
        int64_t at = 0, step = 1, rest = i;
        for (int d = out->rank - 1; d >= 0; d--) {
            int64_t from = td_pick_from(&axis[d], rest % out->shape[d]);
            at = from < 0 || at < 0 ? -1 : at + from * step;
            step *= in->shape[d];
            rest /= out->shape[d];
        }
        memcpy((char *)out->data + (size_t)i * size,
               at < 0 ? (char *)&filling : (char *)in->data + (size_t)at * size, size);
    }
}
