/* mul, vector form: FP32 and INT64. */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

static td_vf mul(td_vf a, td_vf b, td_vf c)
{
    (void)c;
    return a * b;
}

static void row_f32(const struct td_call *call, int64_t n, void *out, const void *const *in,
                    const int *step)
{
    (void)call;
    td_row_binary(n, out, in[0], step[0], in[1], step[1], td_set(0), mul);
}

static void row_i64(const struct td_call *call, int64_t n, void *out, const void *const *in,
                    const int *step)
{
    uint64_t *y = out;
    const uint64_t *a = in[0], *b = in[1];
    (void)call;
    if (step[0] && step[1])
        for (int64_t i = 0; i < n; i++)
            y[i] = a[i] * b[i];
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = a[i * step[0]] * b[i * step[1]];
}

TD_KERNEL(mul)
{
    td_elementwise(call, 2, call->out[0].dtype == TD_f32 ? row_f32 : row_i64);
}

static void row_scalar(const struct td_call *call, int64_t n, void *out, const void *const *in,
                       const int *step)
{
    float b = (float)td_scalar(&call->arg[1]);
    (void)step;
    td_row_binary(n, out, in[0], 1, &b, 0, td_set(0), mul);
}

TD_KERNEL(mul_Scalar)
{
    td_elementwise(call, 1, row_scalar);
}
