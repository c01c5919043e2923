/* What a packed weight is like: its key, by which it is found among the weight's forms, and its
 * name in oneDNN's notation: dimensions from the slowest to the fastest, in capitals when blocked,
 * then the blocks ("AB8b8a"). */
#include "kernels/onednn/prim.h"

#include <stdio.h>
#include <string.h>

dnnl_status_t td_onednn_form_describe(struct td_onednn_prim *p, const struct td_onednn_desc *d)
{
    const_dnnl_memory_desc_t md = p->own[WEIGHT];
    const dnnl_dims_t *to, *padded, *block, *block_dim;
    dnnl_format_kind_t kind;
    struct td_onednn_form *form = &p->form;
    dnnl_status_t status;
    TRY(dnnl_memory_desc_query(md, dnnl_query_format_kind, &kind));
    if (kind != dnnl_blocked)
        return dnnl_unimplemented;
    TRY(dnnl_memory_desc_query(md, dnnl_query_strides, &to));
    TRY(dnnl_memory_desc_query(md, dnnl_query_padded_dims, &padded));
    TRY(dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &form->blocks));
    TRY(dnnl_memory_desc_query(md, dnnl_query_inner_blks, &block));
    TRY(dnnl_memory_desc_query(md, dnnl_query_inner_idxs, &block_dim));
    form->rank = d->weight_rank;
    form->dtype = d->dtype;
    memcpy(form->owner, "dnnl", 4);
    memcpy(form->dims, d->weight, sizeof form->dims);
    memcpy(form->from, d->step, sizeof form->from);
    memcpy(form->to, *to, (size_t)form->rank * sizeof **to);
    memcpy(form->padded, *padded, (size_t)form->rank * sizeof **padded);
    unsigned blocked = 0, seen = 0;
    for (int i = 0; i < form->blocks; i++) {
        form->block[i] = (*block)[i];
        form->block_dim[i] = (*block_dim)[i];
        blocked |= 1u << form->block_dim[i];
    }
    size_t at = (size_t)snprintf(p->form_name, sizeof p->form_name, "onednn ");
    for (int i = 0; i < form->rank; i++) {
        int next = -1;
        for (int j = 0; j < form->rank; j++)
            if (!(seen >> j & 1) && (next < 0 || form->to[j] > form->to[next]))
                next = j;
        seen |= 1u << next;
        p->form_name[at++] = (char)((blocked >> next & 1 ? 'A' : 'a') + next);
    }
    for (int i = 0; i < form->blocks && at < sizeof p->form_name; i++)
        at += (size_t)snprintf(p->form_name + at, sizeof p->form_name - at, "%d%c",
                               (int)form->block[i], (char)('a' + form->block_dim[i]));
out:
    return status;
}
