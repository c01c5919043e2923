/* Lines of a tensor as numbers that loops compute with, and back, for kernels that compute on whole
 * lines: BF16 and FP16 as FP32, FP32 as FP64, all others as they are; or any floating-point type as
 * FP64, for those that are sums above all. Include only from files built
 * once per level. */
#ifndef TD_KERNELS_LINES_H
#define TD_KERNELS_LINES_H

#include "kernels/half.h"
#include "kernels/kernels.h"
#include "kernels/vec.h"

/* to[i] = from[i] for i in [0, n). type: TD_bf16 or TD_f16. */
TD_INLINE void td_line_widen(float *to, const uint16_t *from, int64_t n, enum td_dtype type)
{
    for (int64_t i = 0; i < n; i += TD_LANES) {
        td_vh h;
        if (n - i >= TD_LANES)
            memcpy(&h, from + i, sizeof h);
        else
            h = td_load_halves(from + i, n - i);
        td_vf v = type == TD_bf16 ? td_widen_bf16(h) : td_widen_f16(h);
        td_store_next(to + i, n - i, v);
    }
}

/* Of BF16, whole pairs of vectors first: how many elements are done. */
TD_INLINE int64_t td_line_narrow_pairs(uint16_t *to, const float *from, int64_t n)
{
    int64_t i = 0;
#if TD_VBYTES == 32 && defined __AVX2__
    for (; i + 2 * TD_LANES <= n; i += 2 * TD_LANES) {
        td_vu low, high;
        td_round_bf16_two(td_load(from + i), td_load(from + i + TD_LANES), &low, &high);
        __m256i both = _mm256_packus_epi32((__m256i)(low >> 16), (__m256i)(high >> 16));
        both = _mm256_permute4x64_epi64(both, 0xd8);
        memcpy(to + i, &both, sizeof both);
    }
#else
    (void)to, (void)from, (void)n;
#endif
    return i;
}

TD_INLINE void td_line_narrow(uint16_t *to, const float *from, int64_t n, enum td_dtype type)
{
    for (int64_t i = type == TD_bf16 ? td_line_narrow_pairs(to, from, n) : 0; i < n;
         i += TD_LANES) {
        td_vf v = td_load_next(from + i, n - i, 0);
        td_vh h = type == TD_bf16 ? td_narrow_bf16(v) : td_narrow_f16(v);
        if (n - i >= TD_LANES)
            memcpy(to + i, &h, sizeof h);
        else
            td_store_halves(to + i, n - i, h);
    }
}

/* td_f64_to_odd without a branch: cut off, then 1 in the last place where that took anything. */
TD_INLINE void td_line_to_odd(float *to, const double *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double x = from[i], back = (double)(float)x, m = x < 0 ? -x : x,
               b = back < 0 ? -back : back;
        to[i] = td_bits_f32((td_f32_bits((float)x) - (b > m)) | (back < x) | (back > x));
    }
}

/* n elements of FP32, BF16 or FP16 from the at-th on: where they lie, or in room. */
TD_INLINE const float *td_line_of_float(enum td_dtype type, const void *from, int64_t at, int64_t n,
                                        float *room)
{
    if (type == TD_f32)
        return (const float *)from + at;
    td_line_widen(room, (const uint16_t *)from + at, n, type);
    return room;
}

TD_INLINE void td_line_to_float(enum td_dtype type, void *to, int64_t at, int64_t n, const float *x)
{
    if (type == TD_f32)
        memcpy((float *)to + at, x, (size_t)n * sizeof *x);
    else
        td_line_narrow((uint16_t *)to + at, x, n, type);
}

/* n elements of FP64 or FP32. */
TD_INLINE const double *td_line_of_double(enum td_dtype type, const void *from, int64_t at,
                                          int64_t n, double *room)
{
    if (type == TD_f64)
        return (const double *)from + at;
    const float *x = (const float *)from + at;
    for (int64_t i = 0; i < n; i++)
        room[i] = (double)x[i];
    return room;
}

TD_INLINE void td_line_to_double(enum td_dtype type, void *to, int64_t at, int64_t n,
                                 const double *x)
{
    if (type == TD_f64)
        memcpy((double *)to + at, x, (size_t)n * sizeof *x);
    else
        for (int64_t i = 0; i < n; i++)
            ((float *)to)[at + i] = (float)x[i];
}

#define TD_LINE_WHOLE(T)                                                                           \
    TD_INLINE const T *td_line_of_##T(enum td_dtype type, const void *from, int64_t at, int64_t n, \
                                      T *room)                                                     \
    {                                                                                              \
        (void)type, (void)n, (void)room;                                                           \
        return (const T *)from + at;                                                               \
    }                                                                                              \
    TD_INLINE void td_line_to_##T(enum td_dtype type, void *to, int64_t at, int64_t n, const T *x) \
    {                                                                                              \
        (void)type;                                                                                \
        memcpy((T *)to + at, x, (size_t)n * sizeof *x);                                            \
    }
TD_LINE_WHOLE(uint8_t)
TD_LINE_WHOLE(int8_t)
TD_LINE_WHOLE(int16_t)
TD_LINE_WHOLE(int32_t)
TD_LINE_WHOLE(int64_t)
#undef TD_LINE_WHOLE

/* Elements from at on, n <= TD_RUN, of a tensor of any floating-point type; level.c has them. */
#define TD_RUN 256
#define td_line_get TD_NAME(line_get)
#define td_line_put TD_NAME(line_put)
void td_line_get(double *to, const struct td_tensor *t, int64_t at, int64_t n);
void td_line_put(const struct td_tensor *t, int64_t at, int64_t n, const double *x);

#endif
