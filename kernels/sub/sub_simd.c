/* sub, vector form, FP32. */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

static td_vf sub(td_vf a, td_vf b, td_vf alpha)
{
    return a - alpha * b;
}

static void row(const struct td_call *call, int64_t n, void *out, const void *const *in,
                const int *step)
{
    td_vf alpha = td_set((float)td_scalar(&call->arg[2]));
    td_row_binary(n, out, in[0], step[0], in[1], step[1], alpha, sub);
}

TD_KERNEL(sub)
{
    td_elementwise(call, 2, row);
}

static void row_scalar(const struct td_call *call, int64_t n, void *out, const void *const *in,
                       const int *step)
{
    float b = (float)(td_scalar(&call->arg[2]) * td_scalar(&call->arg[1]));
    (void)step;
    td_row_binary(n, out, in[0], 1, &b, 0, td_set(1), sub);
}

TD_KERNEL(sub_Scalar)
{
    td_elementwise(call, 1, row_scalar);
}
