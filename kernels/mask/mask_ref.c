/* nonzero, masked_select and masked_scatter, reference: each element's place found anew. */
#include "kernels/elementwise.h"
#include "kernels/mask/mask.h"

#include <string.h>

td_kernel td_nonzero_ref, td_masked_select_ref, td_masked_scatter_ref;

/* Where element i of all lies in t, which is broadcast to it. */
static int64_t place(const struct td_tensor *t, const struct td_tensor *all, int64_t i)
{
    int64_t step[TD_MAX_RANK], at = 0;
    td_mask_steps(t, all, step);
    for (int d = all->rank - 1; d >= 0; d--) {
        at += i % all->shape[d] * step[d];
        i /= all->shape[d];
    }
    return at;
}

static void copy(const struct td_tensor *to, int64_t i, const struct td_tensor *from, int64_t k)
{
    size_t size = td_dtype_size(to->dtype);
    memcpy((char *)to->data + (size_t)i * size, (const char *)from->data + (size_t)k * size, size);
}

void td_nonzero_ref(const struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor;
    for (int64_t i = 0, n = td_numel(self); i < n && (i % TD_STRIDE || !td_stopped()); i++) {
        int64_t rest = i;
        if (td_dtype_kind(self->dtype) == 'f' ? td_get_real(self, i) == 0
                                              : td_get_whole(self, i) == 0)
            continue;
        int64_t *row = (int64_t *)call->out[0].data + (*call->rows)++ * self->rank;
        for (int d = self->rank - 1; d >= 0; d--) {
            row[d] = rest % self->shape[d];
            rest /= self->shape[d];
        }
    }
}

void td_masked_select_ref(const struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor, *mask = &call->arg[1].tensor;
    struct td_tensor all = td_mask_common(call);
    for (int64_t i = 0, n = td_numel(&all); i < n && (i % TD_STRIDE || !td_stopped()); i++)
        if (td_get_whole(mask, place(mask, &all, i)))
            copy(&call->out[0], (*call->rows)++, self, place(self, &all, i));
}

void td_masked_scatter_ref(const struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor, *mask = &call->arg[1].tensor,
                           *out = &call->out[0];
    for (int64_t i = 0, next = 0, n = td_numel(out); i < n && (i % TD_STRIDE || !td_stopped()); i++)
        if (td_get_whole(mask, place(mask, out, i)))
            copy(out, i, &call->arg[2].tensor, next++);
        else
            copy(out, i, self, place(self, out, i));
}
