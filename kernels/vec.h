/* The vector vocabulary of the per-level files: one source, as many lanes as the level's registers
 * hold. It is written in the compiler's vector types, so that an operator's source names no
 * instruction set.
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
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined CPU_CAPABILITY_AVX512
#define TD_VBYTES 64
#elif defined CPU_CAPABILITY_AVX2
#define TD_VBYTES 32
#elif defined CPU_CAPABILITY_WIDE /* tests only: the 64-byte logic on a machine without AVX-512 */
#define TD_VBYTES 64
#else
#define TD_VBYTES 16
#endif

#define TD_LANES (TD_VBYTES / 4)
#define TD_INLINE static inline __attribute__((always_inline, unused))

typedef float td_vf __attribute__((vector_size(TD_VBYTES)));
typedef int32_t td_vi __attribute__((vector_size(TD_VBYTES)));
typedef uint32_t td_vu __attribute__((vector_size(TD_VBYTES)));
typedef int64_t td_vl __attribute__((vector_size(TD_VBYTES)));      /* TD_LANES / 2 of them */
typedef uint16_t td_vh __attribute__((vector_size(TD_VBYTES / 2))); /* TD_LANES of them */

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

/* Moves n < TD_LANES elements of size bytes, in few pieces and without a call. */
TD_INLINE void td_copy_few(void *to, const void *from, int64_t n, int64_t size)
{
    char *t = to;
    const char *f = from;
    for (int64_t piece = TD_LANES / 2; piece; piece /= 2)
        if (n & piece) {
            memcpy(t, f, (size_t)(piece * size));
            t += piece * size;
            f += piece * size;
        }
}

/* All ones in the first n lanes. */
TD_INLINE td_vi td_first(int64_t n)
{
    static const int32_t iota[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    td_vi lane;
    memcpy(&lane, iota, sizeof lane);
    return lane < (int32_t)n;
}

/* The first n < TD_LANES elements; the other lanes hold fill. */
TD_INLINE td_vf td_load_n(const float *p, int64_t n, float fill)
{
#ifdef __AVX512F__
    return (td_vf)_mm512_mask_loadu_ps(_mm512_set1_ps(fill), (__mmask16)((1u << n) - 1), p);
#elif TD_VBYTES == 32
    td_vi mask = td_first(n);
    td_vi rest = (td_vi)(fill - (td_vf){0}) & ~mask;
    return (td_vf)((td_vi)_mm256_maskload_ps(p, (__m256i)mask) | rest);
#else
    float lane[TD_LANES];
    for (int i = 0; i < TD_LANES; i++)
        lane[i] = fill;
    td_copy_few(lane, p, n, sizeof *p);
    return td_load(lane);
#endif
}

/* Lanes from number first on and below end; in the others is fill, and they are not read. */
TD_INLINE td_vf td_load_between(const float *p, int64_t first, int64_t end, float fill)
{
    first = first < 0 ? 0 : first < TD_LANES ? first : TD_LANES;
    end = end < 0 ? 0 : end < TD_LANES ? end : TD_LANES;
#ifdef __AVX512F__
    uint32_t mask = ((1u << end) - 1) & ~((1u << first) - 1);
    return (td_vf)_mm512_mask_loadu_ps(_mm512_set1_ps(fill), (__mmask16)mask, p);
#elif TD_VBYTES == 32
    td_vi mask = td_first(end) & ~td_first(first);
    td_vi rest = (td_vi)(fill - (td_vf){0}) & ~mask;
    return (td_vf)((td_vi)_mm256_maskload_ps(p, (__m256i)mask) | rest);
#else
    float lane[TD_LANES];
    for (int i = 0; i < TD_LANES; i++)
        lane[i] = i >= first && i < end ? p[i] : fill;
    return td_load(lane);
#endif
}

TD_INLINE void td_store_n(float *p, int64_t n, td_vf v)
{
#ifdef __AVX512F__
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    float lane[TD_LANES];
    td_store(lane, v);
    td_copy_few(p, lane, n, sizeof *p);
#endif
}

/* Up to 4 elements of 16 bits, the first one lowest; those beyond are 0. */
TD_INLINE uint64_t td_load_few_halves(const uint16_t *p, int64_t n)
{
    uint64_t all = n & 1 ? p[n - 1] : 0;
    uint32_t two;
    if (n & 2) {
        memcpy(&two, p, sizeof two);
        all = all << 32 | two;
    }
    if (n & 4)
        memcpy(&all, p, sizeof all);
    return all;
}

/* n < TD_LANES of 16 bits; the other lanes hold 0. At AVX2 by way of whole registers: a vector that
 * is read where parts of it were just written waits for them. */
TD_INLINE td_vh td_load_halves(const uint16_t *p, int64_t n)
{
#ifdef __AVX512F__
    return (td_vh)_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), p);
#elif TD_VBYTES == 32
    return (td_vh)_mm_set_epi64x((int64_t)td_load_few_halves(p + 4, n > 4 ? n - 4 : 0),
                                 (int64_t)td_load_few_halves(p, n < 4 ? n : 4));
#else
    td_vh h = {0};
    td_copy_few(&h, p, n, sizeof *p);
    return h;
#endif
}

TD_INLINE void td_store_halves(uint16_t *p, int64_t n, td_vh h)
{
#ifdef __AVX512F__
    _mm256_mask_storeu_epi16(p, (__mmask16)((1u << n) - 1), (__m256i)h);
#else
    td_copy_few(p, &h, n, sizeof *p);
#endif
}

/* The next elements of the left > 0 that remain: a whole vector, or the last few. */
TD_INLINE td_vf td_load_next(const float *p, int64_t left, float fill)
{
    return left >= TD_LANES ? td_load(p) : td_load_n(p, left, fill);
}

TD_INLINE void td_store_next(float *p, int64_t left, td_vf v)
{
    if (left >= TD_LANES)
        td_store(p, v);
    else
        td_store_n(p, left, v);
}

TD_INLINE td_vf td_set(float x)
{
    return x - (td_vf){0};
}

/* BF16 to FP32 and back, as kernels/half.h has it. At AVX512 by masks, and the upper halves by one
 * shuffle: the instruction that narrows takes three times its time where it stores, and GCC widens
 * in two halves. */
/* Of numbers, the upper halves; NaN may become anything, and the lower halves are nothing. */
TD_INLINE td_vu td_round_number(td_vf x)
{
#ifdef __AVX512BW__
    __m512i u = (__m512i)x, up = _mm512_add_epi32(u, _mm512_set1_epi32(0x7fff));
    __mmask16 odd = _mm512_test_epi32_mask(u, _mm512_set1_epi32(0x10000));
    return (td_vu)_mm512_mask_add_epi32(up, odd, up, _mm512_set1_epi32(1));
#else
    td_vu u = (td_vu)x;
    return u + 0x7fff + (u >> 16 & 1);
#endif
}

TD_INLINE td_vu td_round_bf16(td_vf x)
{
#ifdef __AVX512BW__
    __mmask16 nan = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
    return (td_vu)_mm512_mask_or_epi32((__m512i)td_round_number(x), nan, (__m512i)x,
                                       _mm512_set1_epi32(0x400000));
#else
    td_vu nan = (td_vu)(x != x);
    return (nan & ((td_vu)x | 0x400000)) | (~nan & td_round_number(x));
#endif
}

TD_INLINE td_vf td_widen_bf16(td_vh h)
{
#ifdef __AVX512BW__
    return (td_vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)h), 16);
#else
    return (td_vf)(__builtin_convertvector(h, td_vu) << 16);
#endif
}

TD_INLINE td_vh td_upper_halves(td_vu up)
{
#ifdef __AVX512BW__
    typedef short halves __attribute__((vector_size(64)));
    const halves upper = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
    return (td_vh)_mm512_castsi512_si256(_mm512_permutexvar_epi16((__m512i)upper, (__m512i)up));
#else
    return __builtin_convertvector(up >> 16, td_vh);
#endif
}

TD_INLINE td_vh td_narrow_bf16(td_vf x)
{
    return td_upper_halves(td_round_bf16(x));
}

/* Twice TD_LANES of them without a shuffle, for what does not ask which lane is which: those of
 * even places, and of odd ones. */
TD_INLINE td_vu td_load_pairs(const void *p)
{
    td_vu pairs;
    memcpy(&pairs, p, sizeof pairs);
    return pairs;
}

TD_INLINE td_vf td_even_bf16(td_vu pairs)
{
    return (td_vf)(pairs << 16);
}

TD_INLINE td_vf td_odd_bf16(td_vu pairs)
{
    return (td_vf)(pairs & 0xffff0000);
}

/* td_round_bf16 of two vectors; AVX2 looks for NaN in both by one comparison. */
TD_INLINE void td_round_bf16_two(td_vf a, td_vf b, td_vu *low, td_vu *high)
{
#if TD_VBYTES == 32 && defined __AVX2__
    *low = td_round_number(a);
    *high = td_round_number(b);
    if (__builtin_expect(!_mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_UNORD_Q)), 1))
        return;
#endif
    *low = td_round_bf16(a);
    *high = td_round_bf16(b);
}

TD_INLINE void td_store_bf16_pairs(void *p, td_vf even, td_vf odd)
{
    td_vu low, high;
    td_round_bf16_two(even, odd, &low, &high);
    td_vu pairs = low >> 16 | (high & 0xffff0000);
    memcpy(p, &pairs, sizeof pairs);
}

/* FP16 likewise: by the conversion instruction from AVX2 on, which follows the same rules; before,
 * in integers. */
TD_INLINE td_vu td_mix(td_vi mask, td_vu a, td_vu b)
{
    return ((td_vu)mask & a) | (~(td_vu)mask & b);
}

TD_INLINE td_vh td_narrow_f16(td_vf x)
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
    td_vu h = td_mix((td_vi)(mag < 0x38800000), small, plain);
    h = td_mix((td_vi)(mag >= 0x477ff000), (td_vu)td_first(0) | 0x7c00, h);
    return __builtin_convertvector(td_mix(x != x, nan, h) | (u >> 16 & 0x8000), td_vh);
#endif
}

TD_INLINE td_vf td_widen_f16(td_vh h)
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
    td_vu f =
        td_mix((td_vi)(mag < 0x400), small, td_mix((td_vi)(mag >= 0x7c00), big | quiet, plain));
    return (td_vf)(f | (u & 0x8000) << 16);
#endif
}

/* a where the mask's lane is all ones, else b. */
TD_INLINE td_vf td_select(td_vi mask, td_vf a, td_vf b)
{
    return (td_vf)((mask & (td_vi)a) | (~mask & (td_vi)b));
}

/* a * b + c, rounded once where the level has FMA. */
TD_INLINE td_vf td_fma(td_vf a, td_vf b, td_vf c)
{
#ifdef __AVX512F__
    return (td_vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif TD_VBYTES == 32
    return (td_vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined __FMA__
    __m256 x[2], y[2], z[2];
    memcpy(x, &a, sizeof a), memcpy(y, &b, sizeof b), memcpy(z, &c, sizeof c);
    for (int i = 0; i < 2; i++)
        z[i] = _mm256_fmadd_ps(x[i], y[i], z[i]);
    memcpy(&c, z, sizeof c);
    return c;
#else
    return a * b + c;
#endif
}

/* Lane i becomes lane i ^ step. */
TD_INLINE td_vf td_swap(td_vf v, const int step)
{
    td_vi from;
    for (int i = 0; i < TD_LANES; i++)
        from[i] = i ^ step;
    return __builtin_shuffle(v, from);
}

/* Of 2 * TD_LANES elements, those of even places, or, from = 1, of odd ones. */
TD_INLINE td_vf td_every_other(td_vf a, td_vf b, const int from)
{
    td_vi place;
    for (int i = 0; i < TD_LANES; i++)
        place[i] = 2 * i + from;
    return __builtin_shuffle(a, b, place);
}

/* How many of the n rows that are left a block of registers takes, which has room for most: as many
 * as the blocks behind it, since one of few rows has too few independent sums to hide the latency
 * of FMA. */
TD_INLINE int64_t td_even_block(int64_t n, int64_t most)
{
    int64_t blocks = (n + most - 1) / most;
    return (n + blocks - 1) / blocks;
}

/* The sum of the lanes, as a tree. */
TD_INLINE float td_hsum(td_vf v)
{
#if TD_LANES == 16
    v += td_swap(v, 8);
#endif
#if TD_LANES >= 8
    v += td_swap(v, 4);
#endif
    v += td_swap(v, 2);
    v += td_swap(v, 1);
    return v[0];
}

#endif
