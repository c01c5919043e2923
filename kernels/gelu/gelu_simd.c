/* gelu, vector form, FP32. */
#include "kernels/act_vec.h"
#include "kernels/elementwise.h"

static void row(const struct td_call *call, int64_t n, void *out, const void *const *in,
                const int *step)
{
    (void)step;
    if (call->arg[1].str[0] == 't')
        td_row_unary(n, out, in[0], td_gelu_tanh);
    else
        td_row_unary(n, out, in[0], td_gelu);
}

TD_KERNEL(gelu)
{
    td_elementwise(call, 1, row);
}
