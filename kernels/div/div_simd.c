/* div, vector form, FP32. By a scalar too it divides: a multiplication by 1 / other would round
 * twice. */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

static td_vf quotient(td_vf a, td_vf b)
{
    return a / b;
}

TD_KERNEL_BINARY(div, quotient)

static void row_scalar(const struct td_call *call, int64_t n, void *out, const void *const *in,
                       const int *step)
{
    float b = (float)td_scalar(&call->arg[1]);
    (void)step;
    td_row_binary(n, out, in[0], 1, &b, 0, td_set(0), div_one);
}

TD_KERNEL(div_Scalar)
{
    td_elementwise(call, 1, row_scalar);
}
