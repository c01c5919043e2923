/* threshold_backward, vector form, FP32. */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

static td_vf gate(td_vf grad, td_vf x, td_vf threshold)
{
    return td_select((td_vi)(x <= threshold), td_set(0), grad);
}

static void row(const struct td_call *call, int64_t n, void *out, const void *const *in,
                const int *step)
{
    td_vf threshold = td_set((float)td_scalar(&call->arg[2]));
    td_row_binary(n, out, in[0], step[0], in[1], step[1], threshold, gate);
}

TD_KERNEL(threshold_backward)
{
    td_elementwise(call, 2, row);
}
