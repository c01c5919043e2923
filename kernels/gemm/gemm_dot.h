/* Products of short numbers, summed in each lane of 32 bits: the instructions that VNNI,
 * AVX512_BF16 and, for 16 bits, SSE2 brought. A build for tests without the instruction
 * (kernels/vec.h, WIDE) gets the same in plain C. */
#ifndef TD_KERNELS_GEMM_DOT_H
#define TD_KERNELS_GEMM_DOT_H

#include "kernels/half.h"
#include "kernels/vec.h"

/* sum + a0 * b0 + a1 * b1, INT16. Exact but for the sum's wrapping. */
TD_INLINE td_vi td_dot_i16(td_vi sum, td_vi a, td_vi b)
{
#ifdef __AVX512BW__
    return sum + (td_vi)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif TD_VBYTES == 64
    __m256i x[2], y[2];
    td_vi product;
    memcpy(x, &a, sizeof a), memcpy(y, &b, sizeof b);
    for (int i = 0; i < 2; i++)
        x[i] = _mm256_madd_epi16(x[i], y[i]);
    memcpy(&product, x, sizeof product);
    return sum + product;
#elif TD_VBYTES == 32
    return sum + (td_vi)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#else
    return sum + (td_vi)_mm_madd_epi16((__m128i)a, (__m128i)b);
#endif
}

/* sum + four UINT8 of a times four INT8 of b. Exact but for the sum's wrapping. */
TD_INLINE td_vi td_dot_u8i8(td_vi sum, td_vi a, td_vi b)
{
#if defined __AVX512VNNI__ && TD_VBYTES == 64
    return (td_vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
#elif defined __AVXVNNI__ && TD_VBYTES == 32
    return (td_vi)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)a, (__m256i)b);
#else
    uint8_t u[TD_VBYTES];
    int8_t i[TD_VBYTES];
    memcpy(u, &a, sizeof u), memcpy(i, &b, sizeof i);
    for (int n = 0; n < TD_VBYTES; n++)
        sum[n / 4] = (int32_t)((uint32_t)sum[n / 4] + (uint32_t)(u[n] * i[n]));
    return sum;
#endif
}

/* sum + a0 * b0 + a1 * b1, BF16. */
TD_INLINE td_vf td_dot_bf16(td_vf sum, td_vf a, td_vf b)
{
#if defined __AVX512BF16__ && TD_VBYTES == 64
    return (td_vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
    uint16_t x[2 * TD_LANES], y[2 * TD_LANES];
    memcpy(x, &a, sizeof x), memcpy(y, &b, sizeof y);
    for (int n = 2 * TD_LANES - 1; n >= 0; n--) /* as the instruction has it, the odd ones first */
        sum[n / 2] += td_bf16_to_f32(x[n]) * td_bf16_to_f32(y[n]);
    return sum;
#endif
}

#endif
