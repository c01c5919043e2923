/* add, vector form: out = self + alpha * other, FP32 and INT64. */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

static td_vf add1(td_vf a, td_vf b, td_vf alpha)
{
    (void)alpha;
    return a + b;
}

static td_vf add(td_vf a, td_vf b, td_vf alpha)
{
    return a + alpha * b;
}

static void row_f32(const struct td_call *call, int64_t n, void *out, const void *const *in,
                    const int *step)
{
    float alpha = (float)td_scalar(&call->arg[2]);
    if (alpha == 1)
        td_row_binary(n, out, in[0], step[0], in[1], step[1], td_set(1), add1);
    else
        td_row_binary(n, out, in[0], step[0], in[1], step[1], td_set(alpha), add);
}

/* Written as a plain loop: the compiler's vector form of a 64-bit add needs no help, and unsigned
 * arithmetic makes it wrap. */
static void row_i64(const struct td_call *call, int64_t n, void *out, const void *const *in,
                    const int *step)
{
    uint64_t alpha = (uint64_t)td_scalar_int(&call->arg[2]), *y = out;
    const uint64_t *a = in[0], *b = in[1];
    if (step[0] && step[1])
        for (int64_t i = 0; i < n; i++)
            y[i] = a[i] + alpha * b[i];
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = a[i * step[0]] + alpha * b[i * step[1]];
}

TD_KERNEL(add)
{
    td_elementwise(call, 2, call->out[0].dtype == TD_f32 ? row_f32 : row_i64);
}

static void row_scalar(const struct td_call *call, int64_t n, void *out, const void *const *in,
                       const int *step)
{
    float b = (float)(td_scalar(&call->arg[2]) * td_scalar(&call->arg[1]));
    (void)step;
    td_row_binary(n, out, in[0], 1, &b, 0, td_set(1), add1);
}

TD_KERNEL(add_Scalar)
{
    td_elementwise(call, 1, row_scalar);
}
