/* The vector vocabulary of the per-level files: one source, as many lanes as the level's registers
 * hold. It is written in the compiler's vector types, so that an operator's source names no
 * instruction set; SLEEF gives the functions, in the variant of the level.
 *
 * Include only from files built once per level (kernels/meson.build passes TD_LEVEL and the flags).
 * All functions are static inline: an object built here must export nothing but its kernels. */
#ifndef TD_KERNELS_VEC_H
#define TD_KERNELS_VEC_H

#ifndef TD_LEVEL
#error "vec.h is for files compiled once per ISA level: list this one in kernels/meson.build"
#endif
#if defined CPU_CAPABILITY_AVX512 && !(defined __AVX512F__ && defined __AVX512VL__)
#error "an AVX512 level needs -mavx512f -mavx512bw -mavx512vl -mavx512dq"
#elif defined CPU_CAPABILITY_AVX2 && !(defined __AVX2__ && defined __FMA__)
#error "an AVX2 level needs -mavx2 -mfma -mf16c"
#elif defined CPU_CAPABILITY_DEFAULT && defined __AVX__
#error "the DEFAULT level is plain x86-64"
#endif

#include <immintrin.h>
#include <sleef.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined CPU_CAPABILITY_AVX512
#define TD_VBYTES 64
#define TD_SLEEF(name, ulp) Sleef_##name##f16_##ulp##avx512f
#elif defined CPU_CAPABILITY_AVX2
#define TD_VBYTES 32
#define TD_SLEEF(name, ulp) Sleef_##name##f8_##ulp##avx2
#else
#define TD_VBYTES 16
#define TD_SLEEF(name, ulp) Sleef_##name##f4_##ulp##sse2
#endif

#define TD_LANES (TD_VBYTES / 4)
#define TD_INLINE static inline __attribute__((always_inline, unused))

typedef float td_vf __attribute__((vector_size(TD_VBYTES)));
typedef int32_t td_vi __attribute__((vector_size(TD_VBYTES)));
typedef uint32_t td_vu __attribute__((vector_size(TD_VBYTES)));
typedef int64_t td_vl __attribute__((vector_size(TD_VBYTES))); /* TD_LANES / 2 of them */

TD_INLINE td_vf td_load(const float *p)
{
    td_vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

TD_INLINE void td_store(float *p, td_vf v)
{
    memcpy(p, &v, sizeof v);
}

/* The first n < TD_LANES elements; the other lanes hold fill. */
TD_INLINE td_vf td_load_n(const float *p, int64_t n, float fill)
{
    float lane[TD_LANES];
    for (int i = 0; i < TD_LANES; i++)
        lane[i] = fill;
    memcpy(lane, p, (size_t)n * sizeof *p);
    return td_load(lane);
}

TD_INLINE void td_store_n(float *p, int64_t n, td_vf v)
{
    float lane[TD_LANES];
    td_store(lane, v);
    memcpy(p, lane, (size_t)n * sizeof *p);
}

TD_INLINE td_vf td_set(float x)
{
    return x - (td_vf){0};
}

/* a where the mask's lane is all ones, else b. */
TD_INLINE td_vf td_select(td_vi mask, td_vf a, td_vf b)
{
    return (td_vf)((mask & (td_vi)a) | (~mask & (td_vi)b));
}

TD_INLINE td_vf td_abs(td_vf x)
{
    return (td_vf)((td_vi)x & 0x7fffffff);
}

/* The larger, and NaN when either is NaN. */
TD_INLINE td_vf td_max(td_vf a, td_vf b)
{
    return td_select((td_vi)(a > b) | (td_vi)(a != a), a, b);
}

/* a * b + c, rounded once where the level has FMA. */
TD_INLINE td_vf td_fma(td_vf a, td_vf b, td_vf c)
{
#if TD_VBYTES == 64
    return (td_vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif TD_VBYTES == 32
    return (td_vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

/* Sums and maxima over the lanes, as a tree. */
TD_INLINE float td_hsum(td_vf v)
{
    float lane[TD_LANES];
    td_store(lane, v);
    for (int w = TD_LANES / 2; w; w /= 2)
        for (int i = 0; i < w; i++)
            lane[i] += lane[i + w];
    return lane[0];
}

TD_INLINE float td_hmax(td_vf v)
{
    float lane[TD_LANES], top;
    td_store(lane, v);
    top = lane[0];
    for (int i = 1; i < TD_LANES; i++)
        top = lane[i] > top || lane[i] != lane[i] ? lane[i] : top;
    return top;
}

/* Functions, at most 1.0 ulp from the exact value (SLEEF's u10 variants). */
TD_INLINE td_vf td_exp(td_vf x)
{
    return (td_vf)TD_SLEEF(exp, u10)(x);
}

TD_INLINE td_vf td_tanh(td_vf x)
{
    return (td_vf)TD_SLEEF(tanh, u10)(x);
}

TD_INLINE td_vf td_erf(td_vf x)
{
    return (td_vf)TD_SLEEF(erf, u10)(x);
}

/* ---- rows: the loops of elementwise operators, given what happens to one vector ---- */

TD_INLINE void td_row_unary(int64_t n, float *y, const float *x, td_vf (*f)(td_vf))
{
    int64_t i = 0;
    for (; i + TD_LANES <= n; i += TD_LANES)
        td_store(y + i, f(td_load(x + i)));
    if (i < n)
        td_store_n(y + i, n - i, f(td_load_n(x + i, n - i, 0)));
}

/* y = f(a, b, c), c the same for all elements (an operator's scalar); a step is 1 or 0. */
TD_INLINE void td_row_binary(int64_t n, float *y, const float *a, int step_a, const float *b,
                             int step_b, td_vf c, td_vf (*f)(td_vf, td_vf, td_vf))
{
    int64_t i = 0;
    td_vf va = td_set(*a), vb = td_set(*b);
    for (; i + TD_LANES <= n; i += TD_LANES) {
        if (step_a)
            va = td_load(a + i);
        if (step_b)
            vb = td_load(b + i);
        td_store(y + i, f(va, vb, c));
    }
    if (i < n) {
        if (step_a)
            va = td_load_n(a + i, n - i, 1);
        if (step_b)
            vb = td_load_n(b + i, n - i, 1);
        td_store_n(y + i, n - i, f(va, vb, c));
    }
}

#endif
