/* The reference of moves: every element's place by counting. Elements move as bytes, so that each
 * type and each NaN arrives as it was, unless several types come together. */
#include "kernels/elementwise.h"
#include "kernels/move/move.h"

#include <string.h>

td_kernel td_move_ref;

/* One element of size bytes. */
static void copy(char *to, const char *from, size_t size)
{
    switch (size) {
    case 1:
        *to = *from;
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    default:
        memcpy(to, from, 8);
    }
}

static void put(const struct td_tensor *out, int64_t to, const struct td_tensor *in, int64_t from,
                bool joins)
{
    size_t size = td_dtype_size(out->dtype);
    if (in->dtype == out->dtype || !joins)
        copy((char *)out->data + (size_t)to * size, (const char *)in->data + (size_t)from * size,
             size);
    else if (td_dtype_kind(in->dtype) == 'f' || td_dtype_kind(out->dtype) == 'f')
        td_put_real(out, to, td_get_real(in, from));
    else
        td_put_whole(out, to, td_get_whole(in, from));
}

void td_move_ref(const struct td_call *call)
{
    const struct td_move *move = call->op->family;
    struct td_piece p;
    for (int i = 0; move->piece_at(call, i, &p); i++) {
        int64_t n = 1, from = p.box.offset, to = p.offset, index[TD_BOX_RANK] = {0};
        for (int d = 0; d < p.box.rank; d++)
            n = p.box.shape[d] ? n * p.box.shape[d] : 0;
        for (int64_t k = 0; k < n && (k % TD_STRIDE || !td_stopped()); k++) {
            put(p.out, to, p.box.from, from, call->arg[0].kind == TD_KIND_tensors);
            for (int d = p.box.rank - 1; d >= 0; d--) {
                from += p.box.stride[d];
                to += p.stride[d];
                if (++index[d] < p.box.shape[d])
                    break;
                from -= p.box.shape[d] * p.box.stride[d];
                to -= p.box.shape[d] * p.stride[d];
                index[d] = 0;
            }
        }
    }
}
