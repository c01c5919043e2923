/* cast, vector form, between FP32 and BF16 or FP16: bit for bit what half.h says, at every level.
 * FP16 by the conversion instruction from AVX2 on, which follows the same rules; before, and for
 * BF16 below AVX512_BF16, in integers. That level's own instruction flushes denormals, so that a
 * vector which holds one is done in integers there too. */
#include "kernels/elementwise.h"
#include "kernels/half.h"
#include "kernels/vec.h"

typedef uint16_t half;

TD_INLINE td_vu mix(td_vi mask, td_vu a, td_vu b)
{
    return ((td_vu)mask & a) | (~(td_vu)mask & b);
}

static td_vh f32_to_f16(td_vf x)
{
#ifdef __AVX512F__
    return (td_vh)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT);
#elif TD_VBYTES == 32
    return (td_vh)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
#else
    td_vu u = (td_vu)x, mag = u & 0x7fffffff;
    td_vu nan = 0x7e00 | (mag >> 13 & 0x3ff);
    td_vu small = (td_vu)((td_vf)mag + 0.5f) - 0x3f000000;
    td_vu plain = (mag + 0xfff + (mag >> 13 & 1) - ((127 - 15) << 23)) >> 13;
    td_vu h = mix((td_vi)(mag < 0x38800000), small, plain);
    h = mix((td_vi)(mag >= 0x477ff000), (td_vu)td_first(0) | 0x7c00, h);
    return __builtin_convertvector(mix(x != x, nan, h) | (u >> 16 & 0x8000), td_vh);
#endif
}

static td_vf f16_to_f32(td_vh h)
{
#ifdef __AVX512F__
    return (td_vf)_mm512_cvtph_ps((__m256i)h);
#elif TD_VBYTES == 32
    return (td_vf)_mm256_cvtph_ps((__m128i)h);
#else
    td_vu u = __builtin_convertvector(h, td_vu), mag = u & 0x7fff;
    td_vu small = (td_vu)(__builtin_convertvector((td_vi)mag, td_vf) * 0x1p-24f);
    td_vu big = mag << 13 | 0x7f800000, quiet = (td_vu)(mag > 0x7c00) & 0x400000;
    td_vu plain = (mag << 13) + ((127 - 15) << 23);
    td_vu f = mix((td_vi)(mag < 0x400), small, mix((td_vi)(mag >= 0x7c00), big | quiet, plain));
    return (td_vf)(f | (u & 0x8000) << 16);
#endif
}

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

static void row(const struct td_call *call, int64_t n, void *out, const void *const *in,
                const int *step)
{
    enum td_dtype from = call->arg[0].tensor.dtype, to = call->out[0].dtype;
    (void)step;
    if (from == to)
        memcpy(out, in[0], (size_t)n * td_dtype_size(to));
    else if (to == TD_bf16)
        narrow(n, out, in[0], f32_to_bf16, td_f32_to_bf16);
    else if (to == TD_f16)
        narrow(n, out, in[0], f32_to_f16, td_f32_to_f16);
    else if (from == TD_bf16)
        widen(n, out, in[0], td_widen_bf16, td_bf16_to_f32);
    else
        widen(n, out, in[0], f16_to_f32, td_f16_to_f32);
}

TD_KERNEL(cast)
{
    td_elementwise(call, 1, row);
}
