/* cast, vector form, between FP32 and BF16 or FP16: bit for bit what half.h says, at every level.
 * FP16 by the conversion instruction from AVX2 on, which follows the same rules; before, and for
 * BF16 below AVX512_BF16, in integers. That level's own instruction flushes denormals, so that a
 * vector which holds one is done in integers there too. */
#include "kernels/half.h"
#include "kernels/kernels.h"
#include "kernels/vec.h"

typedef uint16_t half;

#ifdef CPU_CAPABILITY_AVX512

static td_vh f32_to_bf16(td_vf x)
{
#ifdef CPU_CAPABILITY_AVX512_BF16
    enum { DENORMAL = 0x20 };
    if (__builtin_expect(!_mm512_fpclass_ps_mask((__m512)x, DENORMAL), 1))
        return (td_vh)_mm512_cvtneps_pbh((__m512)x);
#endif
    return td_narrow_bf16(x);
}

TD_INLINE void narrow(int64_t n, half *y, const float *x, td_vh (*f)(td_vf), half (*one)(float))
{
    int64_t i = 0;
    (void)one;
    for (; i + TD_LANES <= n; i += TD_LANES) {
        td_vh h = f(td_load(x + i));
        memcpy(y + i, &h, sizeof h);
    }
    if (i < n) { /* the rest under a mask: nothing is read or written beside it */
        __mmask16 rest = (__mmask16)((1u << (n - i)) - 1);
        td_vh h = f((td_vf)_mm512_maskz_loadu_ps(rest, x + i));
        _mm256_mask_storeu_epi16(y + i, rest, (__m256i)h);
    }
}

#else

#define f32_to_bf16 td_narrow_bf16

TD_INLINE void narrow(int64_t n, half *y, const float *x, td_vh (*f)(td_vf), half (*one)(float))
{
    int64_t i = 0;
    for (; i + TD_LANES <= n; i += TD_LANES) {
        td_vh h = f(td_load(x + i));
        memcpy(y + i, &h, sizeof h);
    }
    for (; i < n; i++)
        y[i] = one(x[i]);
}

#endif

TD_INLINE void widen(int64_t n, float *y, const half *x, td_vf (*f)(td_vh), float (*one)(half))
{
    int64_t i = 0;
    for (; i + TD_LANES <= n; i += TD_LANES) {
        td_vh h;
        memcpy(&h, x + i, sizeof h);
        td_store(y + i, f(h));
    }
    for (; i < n; i++)
        y[i] = one(x[i]);
}

static void run_range(void *arg, int64_t begin, int64_t end)
{
    const struct td_call *call = arg;
    const struct td_tensor *in = &call->arg[0].tensor;
    enum td_dtype from = in->dtype, to = call->out[0].dtype;
    const void *x = (const char *)in->data + (size_t)begin * td_dtype_size(from);
    void *y = (char *)call->out[0].data + (size_t)begin * td_dtype_size(to);
    int64_t n = end - begin;
    if (from == to)
        memcpy(y, x, (size_t)n * td_dtype_size(to));
    else if (to == TD_bf16)
        narrow(n, y, x, f32_to_bf16, td_f32_to_bf16);
    else if (to == TD_f16)
        narrow(n, y, x, td_narrow_f16, td_f32_to_f16);
    else if (from == TD_bf16)
        widen(n, y, x, td_widen_bf16, td_bf16_to_f32);
    else
        widen(n, y, x, td_widen_f16, td_f16_to_f32);
}

TD_KERNEL(cast)
{
    td_parallel(call->threads, td_numel(&call->out[0]), 65536, run_range, (void *)call);
}
