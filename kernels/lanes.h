/* The primitives in which formulas are written, over the vectors of one type: FP32, or FP64 where
 * TD_REAL_BITS is 64. A formula (kernels/formulas.h, and the third column of pointwise.def) calls
 * nothing else, so that the same text can be compiled for every level and type, and read by
 * whoever builds code at run time.
 *
 *   L_c(x)                     the constant x in every lane
 *   L_bits(u)                  the lane with these bits
 *   L_add L_sub L_mul L_div L_fma(a, b, c) = a * b + c, L_fnma(a, b, c) = c - a * b, L_sqrt
 *   L_neg L_abs L_copysign(magnitude, sign)
 *   L_min L_max                the second operand where either is NaN or both are zeros, as x86 has
 *                              it: L_max(L_c(0), x) keeps NaN
 *   L_lt L_le L_gt L_ge L_eq   false where either is NaN; L_ne and L_uno (unordered) are true there
 *   L_both L_either L_not      on what these give
 *   L_sel(m, a, b)             a where m, else b
 *   L_any(m)                   whether any lane is: for a slow way that few lanes need
 *   L_round L_floor L_ceil L_trunc   to a whole number; L_round: nearest, ties to even
 *   L_ldexp(x, n)              x * 2^n, n whole in the lanes' own type, rounded once
 *   L_ldexp_from(x, n, a, b)   the same, where it is 0 for all a < b: levels that multiply then
 *                              take 0 for x, since products that are too small take long
 *   L_FAR_EXPONENT             a whole n for which L_ldexp(x, n) is 0 in FP32 and takes no longer:
 *                              results that are only little too small do, some 60 ns a vector on
 *                              an Intel Xeon (Cascade Lake)
 *   L_bit(m, k)                whether bit k of the lane's bits is set
 *   L_flip(a, m, k)            -a where it is, else a
 *   L_toward(a, b)             the number next to a on the way to b
 *   L_frexp(x, &n)             x = m * 2^n with 0.75 <= m < 1.5, of positive finite x
 *
 * Include only from files built once per level. Products and sums are never contracted
 * (-ffp-contract=off), and L_fma rounds once except at the DEFAULT level, which has no such
 * instruction. */
#ifndef TD_KERNELS_LANES_H
#define TD_KERNELS_LANES_H

#include "kernels/vec.h"

#ifndef TD_REAL_BITS
#define TD_REAL_BITS 32
#endif

#if TD_REAL_BITS == 32
typedef float td_real;
typedef int32_t td_whole;
typedef uint32_t td_word;
#define TD_P512(op) _mm512_##op##_ps
#define TD_P512_MASK(op) _mm512_##op##_ps_mask
#define TD_MANTISSA 23
#define TD_BIAS 127
#define TD_ROUND_MAGIC 0x1p23f
#else
typedef double td_real;
typedef int64_t td_whole;
typedef uint64_t td_word;
#define TD_P512(op) _mm512_##op##_pd
#define TD_P512_MASK(op) _mm512_##op##_pd_mask
#define TD_MANTISSA 52
#define TD_BIAS 1023
#define TD_ROUND_MAGIC 0x1p52
#endif
#define L_LANES (TD_VBYTES / (int)sizeof(td_real))

typedef td_real V __attribute__((vector_size(TD_VBYTES)));
typedef td_whole VI __attribute__((vector_size(TD_VBYTES)));
typedef td_word VU __attribute__((vector_size(TD_VBYTES)));

#if defined __AVX512F__
#define TD_LANES_512
typedef __mmask16 VM;
#elif TD_VBYTES == 32
#define TD_LANES_256
typedef VI VM;
#else
typedef VI VM;
#endif

TD_INLINE V L_c(td_real x)
{
    return x - (V){0};
}

TD_INLINE V L_bits(td_word u)
{
    return (V)(u + (VU){0});
}

TD_INLINE V L_load(const td_real *p)
{
    V v;
    memcpy(&v, p, sizeof v);
    return v;
}

TD_INLINE void L_store(td_real *p, V v)
{
    memcpy(p, &v, sizeof v);
}

#define L_add(a, b) ((a) + (b))
#define L_sub(a, b) ((a) - (b))
#define L_mul(a, b) ((a) * (b))
#define L_div(a, b) ((a) / (b))

#define TD_SIGN ((td_word)1 << (8 * sizeof(td_word) - 1))

TD_INLINE V L_neg(V a)
{
    return (V)((VU)a ^ TD_SIGN);
}

TD_INLINE V L_abs(V a)
{
    return (V)((VU)a & ~TD_SIGN);
}

TD_INLINE V L_copysign(V magnitude, V sign)
{
    return (V)(((VU)magnitude & ~TD_SIGN) | ((VU)sign & TD_SIGN));
}

/* ---- what the levels have instructions of their own for ---- */

#ifdef TD_LANES_512

#define TD_COMPARE(name, how)                                                                      \
    TD_INLINE VM L_##name(V a, V b)                                                                \
    {                                                                                              \
        return TD_P512_MASK(cmp)(a, b, how);                                                       \
    }
TD_COMPARE(lt, _CMP_LT_OQ)
TD_COMPARE(le, _CMP_LE_OQ)
TD_COMPARE(gt, _CMP_GT_OQ)
TD_COMPARE(ge, _CMP_GE_OQ)
TD_COMPARE(eq, _CMP_EQ_OQ)
TD_COMPARE(ne, _CMP_NEQ_UQ)
TD_COMPARE(uno, _CMP_UNORD_Q)
#undef TD_COMPARE

#define L_both(m, n) ((VM)((m) & (n)))
#define L_either(m, n) ((VM)((m) | (n)))
#define L_not(m) ((VM)(~(m) & ((1u << L_LANES) - 1)))
#define L_any(m) ((m) != 0)

TD_INLINE V L_sel(VM m, V a, V b)
{
    return TD_P512(mask_blend)((__typeof__(TD_P512_MASK(cmp)(a, a, 0)))m, b, a);
}

TD_INLINE V L_min(V a, V b)
{
    return TD_P512(min)(a, b);
}

TD_INLINE V L_max(V a, V b)
{
    return TD_P512(max)(a, b);
}

TD_INLINE V L_fma(V a, V b, V c)
{
    return TD_P512(fmadd)(a, b, c);
}

TD_INLINE V L_fnma(V a, V b, V c)
{
    return TD_P512(fnmadd)(a, b, c);
}

TD_INLINE V L_sqrt(V a)
{
    return TD_P512(sqrt)(a);
}

#define L_round(a) ((V)TD_P512(roundscale)(a, 8))
#define L_floor(a) ((V)TD_P512(roundscale)(a, 9))
#define L_ceil(a) ((V)TD_P512(roundscale)(a, 10))
#define L_trunc(a) ((V)TD_P512(roundscale)(a, 11))

TD_INLINE V L_ldexp(V x, V n)
{
    return TD_P512(scalef)(x, n);
}

#define L_ldexp_from(x, n, a, b) L_ldexp(x, n)
#define L_FAR_EXPONENT (-1000)

#else

#define L_lt(a, b) ((VM)((a) < (b)))
#define L_le(a, b) ((VM)((a) <= (b)))
#define L_gt(a, b) ((VM)((a) > (b)))
#define L_ge(a, b) ((VM)((a) >= (b)))
#define L_eq(a, b) ((VM)((a) == (b)))
#define L_ne(a, b) ((VM)((a) != (b)))
#define L_both(m, n) ((m) & (n))
#define L_either(m, n) ((m) | (n))
#define L_not(m) (~(m))

TD_INLINE VM L_uno(V a, V b)
{
    return (VM)(a != a) | (VM)(b != b);
}

#ifdef TD_LANES_256

#if TD_REAL_BITS == 32
#define TD_256(op) _mm256_##op##_ps
#else
#define TD_256(op) _mm256_##op##_pd
#endif

TD_INLINE bool L_any(VM m)
{
    return !_mm256_testz_si256((__m256i)m, (__m256i)m);
}

TD_INLINE V L_sel(VM m, V a, V b)
{
    return (V)TD_256(blendv)(b, a, (V)m);
}

TD_INLINE V L_min(V a, V b)
{
    return TD_256(min)(a, b);
}

TD_INLINE V L_max(V a, V b)
{
    return TD_256(max)(a, b);
}

TD_INLINE V L_fma(V a, V b, V c)
{
    return TD_256(fmadd)(a, b, c);
}

TD_INLINE V L_fnma(V a, V b, V c)
{
    return TD_256(fnmadd)(a, b, c);
}

TD_INLINE V L_sqrt(V a)
{
    return TD_256(sqrt)(a);
}

#define L_round(a) ((V)TD_256(round)(a, 8))
#define L_floor(a) ((V)TD_256(round)(a, 9))
#define L_ceil(a) ((V)TD_256(round)(a, 10))
#define L_trunc(a) ((V)TD_256(round)(a, 11))

#else /* any width, in what every x86-64 has */

TD_INLINE bool L_any(VM m)
{
    uint64_t part[TD_VBYTES / 8], all = 0;
    memcpy(part, &m, sizeof m);
    for (int i = 0; i < TD_VBYTES / 8; i++)
        all |= part[i];
    return all;
}

TD_INLINE V L_sel(VM m, V a, V b)
{
    return (V)((m & (VI)a) | (~m & (VI)b));
}

TD_INLINE V L_min(V a, V b)
{
    return L_sel(L_lt(a, b), a, b);
}

TD_INLINE V L_max(V a, V b)
{
    return L_sel(L_gt(a, b), a, b);
}

TD_INLINE V L_fma(V a, V b, V c)
{
#ifdef __FMA__
    for (int i = 0; i < L_LANES; i++)
        c[i] = (td_real)(TD_REAL_BITS == 32 ? __builtin_fmaf((float)a[i], (float)b[i], (float)c[i])
                                            : __builtin_fma(a[i], b[i], c[i]));
    return c;
#else
    return a * b + c;
#endif
}

TD_INLINE V L_fnma(V a, V b, V c)
{
    return L_fma(L_neg(a), b, c);
}

TD_INLINE V L_sqrt(V a)
{
#if TD_VBYTES == 16 && TD_REAL_BITS == 32
    return (V)_mm_sqrt_ps((__m128)a);
#elif TD_VBYTES == 16
    return (V)_mm_sqrt_pd((__m128d)a);
#else
    for (int i = 0; i < L_LANES; i++)
        a[i] = (td_real)(TD_REAL_BITS == 32 ? __builtin_sqrtf((float)a[i]) : __builtin_sqrt(a[i]));
    return a;
#endif
}

/* Adding 2^23 (2^52) to a magnitude below it leaves no room for a fraction. */
TD_INLINE V L_round(V a)
{
    V m = L_abs(a), r = (m + TD_ROUND_MAGIC) - TD_ROUND_MAGIC;
    return L_copysign(L_sel(L_lt(m, L_c(TD_ROUND_MAGIC)), r, a), a);
}

TD_INLINE V L_floor(V a)
{
    V r = L_round(a);
    return L_copysign(L_sel(L_gt(r, a), r - 1, r), a);
}

TD_INLINE V L_ceil(V a)
{
    return L_neg(L_floor(L_neg(a)));
}

TD_INLINE V L_trunc(V a)
{
    return L_copysign(L_floor(L_abs(a)), a);
}

#endif

/* Twice by half of the exponent: a product with a power of 2 is exact until the last one, which
 * alone may fall among the denormals. n is between -2 * TD_BIAS and 2 * TD_BIAS. */
TD_INLINE V L_ldexp(V x, V n)
{
    V half = L_floor(n * (td_real)0.5), rest = n - half;
    VI h = __builtin_convertvector(half, VI), r = __builtin_convertvector(rest, VI);
    return x * (V)((VU)(h + TD_BIAS) << TD_MANTISSA) * (V)((VU)(r + TD_BIAS) << TD_MANTISSA);
}

#define L_ldexp_from(x, n, a, b) L_ldexp(L_sel(L_lt(a, b), L_c(0), x), n)
#define L_FAR_EXPONENT (-150) /* of 0, as from L_ldexp_from */

#endif

TD_INLINE VM L_bit(V m, const int k)
{
#if defined TD_LANES_512 && TD_REAL_BITS == 32
    return _mm512_test_epi32_mask((__m512i)m, _mm512_set1_epi32(1 << k));
#elif defined TD_LANES_512
    return _mm512_test_epi64_mask((__m512i)m, _mm512_set1_epi64(1ll << k));
#else
    return (VM)(0 - ((VI)m >> k & 1));
#endif
}

TD_INLINE V L_flip(V a, V m, const int k)
{
    return (V)((VU)a ^ ((VU)m << (TD_REAL_BITS - 1 - k) & TD_SIGN));
}

/* By the bits: one more leads away from 0. */
TD_INLINE V L_toward(V a, V b)
{
    VI up = (VI)(a < b), above = (VI)(a > 0), step = 1 - (((up ^ above) & 1) << 1);
    V y = L_sel(L_eq(a, L_c(0)), L_copysign((V)((VI){0} + 1), b), (V)((VU)a + (VU)step));
    return L_sel(L_uno(a, b), L_add(a, b), L_sel(L_eq(a, b), b, y));
}

/* 0.75 <= m < 1.5 by taking the bits of 0.75 away from those of x: what is left above the mantissa
 * is the exponent. */
TD_INLINE V L_frexp(V x, V *n)
{
    VI small = (VI)(x < (td_real)(TD_REAL_BITS == 32 ? 0x1p-126 : 0x1p-1022)); /* denormal */
    V big = x * (td_real)(TD_REAL_BITS == 32 ? 0x1p25 : 0x1p54);
    VU bits = (VU)((small & (VI)big) | (~small & (VI)x));
    VI e = (VI)(bits - (VU)L_c((td_real)0.75)) >> TD_MANTISSA;
    *n = __builtin_convertvector(e - (small & (TD_REAL_BITS == 32 ? 25 : 54)), V);
    return (V)(bits - ((VU)e << TD_MANTISSA));
}

#endif
