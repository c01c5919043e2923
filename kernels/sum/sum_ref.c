/* sum, reference: for each output element, over all the elements that belong to it. */
#include "kernels/elementwise.h"
#include "kernels/sum/sum.h"

td_kernel td_sum_ref;

/* Moves the index of the dimensions in dims on by one; false after the last. */
static bool advance(int64_t *index, const struct td_tensor *t, unsigned dims)
{
    for (int d = t->rank - 1; d >= 0; d--)
        if (dims & 1u << d) {
            if (++index[d] < t->shape[d])
                return true;
            index[d] = 0;
        }
    return false;
}

void td_sum_ref(const struct td_call *call)
{
    const struct td_tensor *x = &call->arg[0].tensor, *out = &call->out[0];
    unsigned dims = td_sum_dims(call);
    bool whole = td_dtype_kind(out->dtype) != 'f', any = td_numel(x) > 0;
    bool stopped = false;
    int64_t seen = 0, n = td_numel(out), index[TD_MAX_RANK] = {0};
    for (int64_t i = 0; i < n && !stopped; i++) {
        double sum = 0;
        uint64_t count = 0;
        bool more = any;
        while (more) {
            int64_t at = 0;
            for (int d = 0; d < x->rank; d++)
                at = at * x->shape[d] + index[d];
            if (whole)
                count += (uint64_t)td_get_whole(x, at);
            else
                sum += td_get_real(x, at);
            stopped = !(++seen % TD_STRIDE) && td_stopped();
            more = !stopped && advance(index, x, dims);
        }
        if (whole)
            td_put_whole(out, i, (int64_t)count);
        else
            td_put_real(out, i, sum);
        advance(index, x, ~dims);
    }
}
