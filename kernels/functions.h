/* What formulas call and lanes.h has no instructions for: SLEEF's functions, in the variant of the
 * level, and what goes a lane at a time. Where there is a better form, formulas have it. */
#ifndef TD_KERNELS_FUNCTIONS_H
#define TD_KERNELS_FUNCTIONS_H

#include "kernels/lanes.h"

#include <math.h>
#include <sleef.h>

#if defined CPU_CAPABILITY_AVX512
#define TD_SLEEF_F32(name) Sleef_##name##f16_u10avx512f
#define TD_SLEEF_F64(name) Sleef_##name##d8_u10avx512f
#define TD_SLEEF_PART 64
#elif defined CPU_CAPABILITY_AVX2 || defined CPU_CAPABILITY_WIDE
#define TD_SLEEF_F32(name) Sleef_##name##f8_u10avx2
#define TD_SLEEF_F64(name) Sleef_##name##d4_u10avx2
#define TD_SLEEF_PART 32
#else
#define TD_SLEEF_F32(name) Sleef_##name##f4_u10sse2
#define TD_SLEEF_F64(name) Sleef_##name##d2_u10sse2
#define TD_SLEEF_PART 16
#endif
#if TD_REAL_BITS == 32
#define TD_SLEEF_FN TD_SLEEF_F32
#else
#define TD_SLEEF_FN TD_SLEEF_F64
#endif
typedef td_real td_sleef_part __attribute__((vector_size(TD_SLEEF_PART)));

/* Out of line: a call spills all registers anyway, and inlined at each use it is only larger. */
#define TD_BY_SLEEF(name, fn)                                                                      \
    static V __attribute__((noinline, unused)) name(V x)                                           \
    {                                                                                              \
        td_sleef_part p[TD_VBYTES / TD_SLEEF_PART];                                                \
        memcpy(p, &x, sizeof x);                                                                   \
        for (int i = 0; i < TD_VBYTES / TD_SLEEF_PART; i++)                                        \
            p[i] = (td_sleef_part)TD_SLEEF_FN(fn)(p[i]);                                           \
        memcpy(&x, p, sizeof x);                                                                   \
        return x;                                                                                  \
    }
#define TD_BY_SLEEF_2(name, fn)                                                                    \
    static V __attribute__((noinline, unused)) name(V x, V y)                                      \
    {                                                                                              \
        td_sleef_part p[TD_VBYTES / TD_SLEEF_PART], q[TD_VBYTES / TD_SLEEF_PART];                  \
        memcpy(p, &x, sizeof x);                                                                   \
        memcpy(q, &y, sizeof y);                                                                   \
        for (int i = 0; i < TD_VBYTES / TD_SLEEF_PART; i++)                                        \
            p[i] = (td_sleef_part)TD_SLEEF_FN(fn)(p[i], q[i]);                                     \
        memcpy(&x, p, sizeof x);                                                                   \
        return x;                                                                                  \
    }

TD_BY_SLEEF(o_exp2, exp2)
TD_BY_SLEEF(o_expm1, expm1)
TD_BY_SLEEF(o_log2, log2)
TD_BY_SLEEF(o_log10, log10)
TD_BY_SLEEF(o_tan, tan)
TD_BY_SLEEF(o_asin, asin)
TD_BY_SLEEF(o_acos, acos)
TD_BY_SLEEF(o_atan, atan)
TD_BY_SLEEF(sinh_sleef_, sinh)
TD_BY_SLEEF(cosh_sleef_, cosh)
TD_BY_SLEEF(asinh_sleef_, asinh)
TD_BY_SLEEF(acosh_sleef_, acosh)
TD_BY_SLEEF(o_atanh, atanh)
TD_BY_SLEEF_2(o_atan2, atan2)
TD_BY_SLEEF_2(o_pow, pow)
#define Sleef_erfcd2_u10sse2 Sleef_erfcd2_u15sse2 /* SLEEF's best of it: 1.5 units */
#define Sleef_erfcd4_u10avx2 Sleef_erfcd4_u15avx2
#define Sleef_erfcd8_u10avx512f Sleef_erfcd8_u15avx512f
#define Sleef_erfcf4_u10sse2 Sleef_erfcf4_u15sse2
#define Sleef_erfcf8_u10avx2 Sleef_erfcf8_u15avx2
#define Sleef_erfcf16_u10avx512f Sleef_erfcf16_u15avx512f
TD_BY_SLEEF(o_erfc, erfc)
TD_BY_SLEEF(sin_sleef_, sin)
TD_BY_SLEEF(cos_sleef_, cos)

/* The C library's, a lane at a time: exact for any quotient. */
static V __attribute__((noinline, unused)) fmod_by_lane_(V a, V b)
{
    for (int i = 0; i < L_LANES; i++)
        a[i] = (td_real)(TD_REAL_BITS == 32 ? fmodf((float)a[i], (float)b[i]) : fmod(a[i], b[i]));
    return a;
}

#endif
