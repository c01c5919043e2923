/* einsum, reference: for each element of the result one sum over all other labels, of the products
 * of all operands. */
#include "kernels/einsum/einsum.h"
#include "kernels/elementwise.h"

struct sum {
    const struct td_einsum *e;
    const struct td_tensor *tensors;
    int n, label[TD_EINSUM_LABELS]; /* that are summed over */
};

/* at: where each operand stands. */
static void add(const struct sum *s, int depth, const int64_t *at, double *real, int64_t *whole)
{
    const struct td_einsum *e = s->e;
    if (depth < s->n) {
        int64_t next[TD_EINSUM_MOST];
        int l = s->label[depth];
        for (int64_t k = 0; k < e->size[l]; k++) {
            for (int i = 0; i < e->n; i++)
                next[i] = at[i] + (e->term[i].labels >> l & 1 ? k * e->term[i].step[l] : 0);
            add(s, depth + 1, next, real, whole);
        }
        return;
    }
    double x = 1;
    uint64_t w = 1;
    for (int i = 0; i < e->n; i++)
        if (td_dtype_kind(s->tensors[0].dtype) == 'f')
            x *= td_get_real(&s->tensors[i], at[i]);
        else
            w *= (uint64_t)td_get_whole(&s->tensors[i], at[i]);
    *real += x;
    *whole = (int64_t)((uint64_t)*whole + w);
}

td_kernel td_einsum_ref;
void td_einsum_ref(const struct td_call *call)
{
    const struct td_tensor *out = &call->out[0];
    struct td_einsum e;
    td_einsum_read(call, &e);
    struct sum s = {&e, call->arg[1].tensors.v, 0, {0}};
    uint64_t rest = 0;
    bool none = false;
    for (int i = 0; i < e.n; i++)
        rest |= e.term[i].labels;
    for (int d = 0; d < e.rank; d++)
        rest &= ~((uint64_t)1 << e.out[d]);
    for (int l = 0; l < TD_EINSUM_LABELS; l++)
        if (rest >> l & 1) {
            s.label[s.n++] = l;
            none = none || !e.size[l];
        }
    for (int64_t o = 0, all = td_numel(out); o < all && !td_stopped(); o++) {
        int64_t at[TD_EINSUM_MOST] = {0}, left = o, whole = 0;
        double real = 0;
        for (int d = e.rank - 1; d >= 0; left /= out->shape[d--])
            for (int i = 0; i < e.n; i++)
                if (e.term[i].labels >> e.out[d] & 1)
                    at[i] += left % out->shape[d] * e.term[i].step[e.out[d]];
        if (!none)
            add(&s, 0, at, &real, &whole);
        if (td_dtype_kind(out->dtype) == 'f')
            td_put_real(out, o, real);
        else
            td_put_whole(out, o, whole);
    }
}
