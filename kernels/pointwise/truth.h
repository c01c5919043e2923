/* BOOL beside lanes: what a row that picks reads, and what a comparison writes. */
#ifndef TD_KERNELS_POINTWISE_TRUTH_H
#define TD_KERNELS_POINTWISE_TRUTH_H

#include "kernels/lanes.h"

/* L_LANES of them, as 1 and 0. */
TD_INLINE V load_truth(const void *p, int64_t i)
{
    const char *from = (const char *)p + i;
#if defined TD_LANES_512 && TD_REAL_BITS == 32
    __m128i byte = _mm_loadu_si128((const __m128i *)(const void *)from);
    return (V)_mm512_maskz_mov_ps(_mm_test_epi8_mask(byte, byte), (__m512)L_c(1));
#elif defined TD_LANES_512
    __m128i byte = _mm_loadl_epi64((const __m128i *)(const void *)from);
    return (V)_mm512_maskz_mov_pd((__mmask8)_mm_test_epi8_mask(byte, byte), (__m512d)L_c(1));
#else
#if defined TD_LANES_256 && TD_REAL_BITS == 32
    VI lane = (VI)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from));
#elif defined TD_LANES_256
    int32_t byte;
    memcpy(&byte, from, sizeof byte);
    VI lane = (VI)_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(byte));
#else
    VI lane;
    for (int k = 0; k < L_LANES; k++)
        lane[k] = from[k];
#endif
    return (V)((VI)(lane != 0) & (VI)L_c(1));
#endif
}

TD_INLINE void store_truth(void *p, int64_t i, VM m)
{
    char *to = (char *)p + i;
#if defined TD_LANES_512 && TD_REAL_BITS == 32
    _mm_storeu_si128((__m128i *)(void *)to, _mm_maskz_set1_epi8(m, 1));
#elif defined TD_LANES_512
    _mm_storel_epi64((__m128i *)(void *)to, _mm_maskz_set1_epi8(m, 1));
#elif defined TD_LANES_256
    __m128i half = _mm_packs_epi32(_mm256_castsi256_si128((__m256i)m),
                                   _mm256_extracti128_si256((__m256i)m, 1));
    __m128i byte =
        _mm_abs_epi8(_mm_packs_epi16(half, half)); /* of FP64 each lane's is there twice */
#if TD_REAL_BITS == 32
    _mm_storel_epi64((__m128i *)(void *)to, byte);
#else
    int32_t four = _mm_cvtsi128_si32(_mm_shuffle_epi8(byte, _mm_cvtsi32_si128(0x06040200)));
    memcpy(to, &four, sizeof four);
#endif
#else
    for (int k = 0; k < L_LANES; k++)
        to[k] = m[k] & 1;
#endif
}

#endif
