/* Elements of any floating-point type as the lanes of lanes.h: BF16 and FP16 as FP32. Where the
 * type is a constant, nothing is left of the choice. */
#ifndef TD_KERNELS_REALS_H
#define TD_KERNELS_REALS_H

#include "kernels/half.h"
#include "kernels/kernels.h"
#include "kernels/lanes.h"

#if TD_REAL_BITS == 64
#define TD_REAL_TYPE TD_f64
#else
#define TD_REAL_TYPE TD_f32
#endif

TD_INLINE V L_get(const void *p, int64_t i, const enum td_dtype from)
{
#if TD_REAL_BITS == 32
    td_vh h;
    if (from != TD_f32) {
        memcpy(&h, (const uint16_t *)p + i, sizeof h);
        return from == TD_bf16 ? td_widen_bf16(h) : td_widen_f16(h);
    }
#endif
    (void)from;
    return L_load((const td_real *)p + i);
}

TD_INLINE void L_put(void *p, int64_t i, const enum td_dtype to, V v)
{
#if TD_REAL_BITS == 32
    if (to != TD_f32) {
        td_vh h = to == TD_bf16 ? td_narrow_bf16(v) : td_narrow_f16(v);
        memcpy((uint16_t *)p + i, &h, sizeof h);
        return;
    }
#endif
    (void)to;
    L_store((td_real *)p + i, v);
}

/* Bytes of an element. */
#define TD_REAL_SIZE(type) ((type) & (TD_f16 | TD_bf16) ? 2 : (int64_t)sizeof(td_real))

/* The first n < L_LANES elements, and fill in the other lanes. */
TD_INLINE V L_get_n(const void *p, int64_t i, int64_t n, const enum td_dtype from, td_real fill)
{
#if TD_REAL_BITS == 32
    if (from == TD_f32)
        return td_load_n((const float *)p + i, n, fill);
    td_vh h = td_load_halves((const uint16_t *)p + i, n);
    V v = from == TD_bf16 ? td_widen_bf16(h) : td_widen_f16(h);
    return fill == 0 ? v : td_select(td_first(n), v, L_c(fill));
#elif defined __AVX512F__
    (void)from;
    return (V)_mm512_mask_loadu_pd((__m512d)L_c(fill), (__mmask8)((1u << n) - 1),
                                   (const double *)p + i);
#elif defined __AVX2__ && TD_VBYTES == 32
    const __m256i mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
    (void)from;
    return (V)_mm256_blendv_pd((__m256d)L_c(fill), _mm256_maskload_pd((const double *)p + i, mask),
                               (__m256d)mask);
#else
    td_real lane[L_LANES];
    (void)from;
    L_store(lane, L_c(fill));
    td_copy_few(lane, (const td_real *)p + i, n, sizeof *lane);
    return L_load(lane);
#endif
}

TD_INLINE void L_put_n(void *p, int64_t i, int64_t n, const enum td_dtype to, V v)
{
#if TD_REAL_BITS == 32
    if (to == TD_f32)
        td_store_n((float *)p + i, n, v);
    else
        td_store_halves((uint16_t *)p + i, n, to == TD_bf16 ? td_narrow_bf16(v) : td_narrow_f16(v));
#elif defined __AVX512F__
    (void)to;
    _mm512_mask_storeu_pd((double *)p + i, (__mmask8)((1u << n) - 1), (__m512d)v);
#else
    td_real lane[L_LANES];
    L_put(lane, 0, to, v);
    td_copy_few((td_real *)p + i, lane, n, sizeof *lane);
#endif
}

/* The next elements of the left > 0 that remain: a whole vector, or the last few. */
TD_INLINE V L_next(const void *p, int64_t i, int64_t left, const enum td_dtype from, td_real fill)
{
    return left >= L_LANES ? L_get(p, i, from) : L_get_n(p, i, left, from, fill);
}

TD_INLINE void L_put_next(void *p, int64_t i, int64_t left, const enum td_dtype to, V v)
{
    if (left >= L_LANES)
        L_put(p, i, to, v);
    else
        L_put_n(p, i, left, to, v);
}

/* Lane i becomes lane i ^ step, the step being a constant; beyond the lanes, itself. */
TD_INLINE V L_swap(V v, const int step)
{
    VI from;
    for (int i = 0; i < L_LANES; i++)
        from[i] = i ^ step;
    return step < L_LANES ? __builtin_shuffle(v, from) : v;
}

/* Lane i is that of b where bit d of i is set, else that of a; or lane i ^ other. */
TD_INLINE V L_side_by_side(V a, V b, const int d, const int other)
{
    VI from;
    for (int i = 0; i < L_LANES; i++)
        from[i] = (i ^ other) + (i & d ? L_LANES : 0);
    return __builtin_shuffle(a, b, from);
}

/* Defines each_NAME(v): lane r of it is all lanes of v[r], joined. v is overwritten. */
#define TD_EACH(name, join)                                                                        \
    TD_INLINE void halve_##name(V *v, const int d)                                                 \
    {                                                                                              \
        _Pragma("GCC unroll 8") for (int r = 0; r < d && d < L_LANES; r++) v[r] =                  \
            join(L_side_by_side(v[r], v[r + d], d, 0), L_side_by_side(v[r], v[r + d], d, d));      \
    }                                                                                              \
    TD_INLINE V each_##name(V v[L_LANES])                                                          \
    {                                                                                              \
        halve_##name(v, 8);                                                                        \
        halve_##name(v, 4);                                                                        \
        halve_##name(v, 2);                                                                        \
        halve_##name(v, 1);                                                                        \
        return v[0];                                                                               \
    }

/* The greatest lane: a NaN may be lost. */
TD_INLINE td_real L_hmax(V v)
{
    v = L_max(v, L_swap(v, 8));
    v = L_max(v, L_swap(v, 4));
    v = L_max(v, L_swap(v, 2));
    return L_max(v, L_swap(v, 1))[0];
}

typedef double VD __attribute__((vector_size(TD_VBYTES)));

TD_INLINE VD L_add_swapped(VD v, const int step)
{
    int64_t __attribute__((vector_size(TD_VBYTES))) from;
    for (int i = 0; i < TD_VBYTES / 8; i++)
        from[i] = i ^ step;
    return step < TD_VBYTES / 8 ? v + __builtin_shuffle(v, from) : v;
}

/* The lanes' sum, in double, as a tree. */
TD_INLINE double L_hsum(V v)
{
#if TD_REAL_BITS == 32
    float __attribute__((vector_size(TD_VBYTES / 2))) low, high;
    memcpy(&low, &v, sizeof low);
    memcpy(&high, (char *)&v + sizeof low, sizeof high);
    VD sum = __builtin_convertvector(low, VD) + __builtin_convertvector(high, VD);
#else
    VD sum = v;
#endif
    return L_add_swapped(L_add_swapped(L_add_swapped(sum, 4), 2), 1)[0];
}

#endif
