/* BF16 and FP16 as bits in a uint16_t, one element at a time: the contract that every level's
 * vector form keeps bit for bit. Rounding is to nearest, ties to even; a NaN keeps its sign and
 * upper payload and becomes quiet; denormals are rounded like any other number, never flushed;
 * what is too big becomes an infinity. IEEE 754-2019, 5.4.2 and 6.2.3. Where all operands are of
 * one of them, what only moves, picks or changes signs may keep a signalling NaN. */
#ifndef TD_KERNELS_HALF_H
#define TD_KERNELS_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t td_f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

static inline float td_bits_f32(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

/* A double to FP32 by rounding to odd: a second rounding, to a half type, then gives what one
 * rounding would have given (Boldo and Melquiond, 2008). */
static inline float td_f64_to_odd(double x)
{
    float f = (float)x;
    uint32_t bits = td_f32_bits(f);
    if (x == (double)f || bits & 1 || x != x)
        return f;
    return td_bits_f32((x < 0 ? x < (double)f : x > (double)f) ? bits + 1 : bits - 1);
}

/* A whole number to a double that rounds to any shorter type as the number itself would. */
static inline double td_i64_to_odd(int64_t x)
{
    if (x >= -(INT64_C(1) << 53) && x <= INT64_C(1) << 53)
        return (double)x;
    return (double)(x >> 11 | ((x & 0x7ff) != 0)) * 2048;
}

static inline double td_u64_to_odd(uint64_t x)
{
    return x >> 63 ? td_i64_to_odd((int64_t)(x >> 1 | (x & 1))) * 2 : td_i64_to_odd((int64_t)x);
}

/* Cut off; a negative one wraps, and what no INT64 and no UINT64 holds becomes the nearest. */
static inline uint64_t td_f64_to_u64(double x)
{
    if (x >= 0x1p63)
        return x >= 0x1p64 ? UINT64_MAX : (uint64_t)x;
    return (uint64_t)(x >= -0x1p63 ? (int64_t)x : INT64_MIN);
}

static inline float td_bf16_to_f32(uint16_t h)
{
    return td_bits_f32((uint32_t)h << 16);
}

static inline uint16_t td_f32_to_bf16(float x)
{
    uint32_t u = td_f32_bits(x);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float td_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, mag = h & 0x7fff;
    if (mag > 0x7c00) /* NaN: quiet, as the conversion instruction makes it */
        return td_bits_f32(sign | 0x7fc00000 | (mag & 0x3ff) << 13);
    if (mag == 0x7c00)
        return td_bits_f32(sign | 0x7f800000);
    if (mag < 0x400) { /* denormal: its value is mag * 2^-24, exact in FP32 */
        float x = (float)mag * 0x1p-24f;
        return td_bits_f32(td_f32_bits(x) | sign);
    }
    return td_bits_f32(sign | ((mag << 13) + ((127 - 15) << 23)));
}

static inline uint16_t td_f32_to_f16(float x)
{
    uint32_t u = td_f32_bits(x), mag = u & 0x7fffffff;
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    if (mag > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (mag >> 13 & 0x3ff));
    if (mag >= 0x477ff000) /* 65520 and up round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (mag < 0x38800000) { /* below 2^-14: adding 0.5 lines the result up at 2^-24, rounded */
        float y = td_bits_f32(mag) + 0.5f;
        return (uint16_t)(sign | (td_f32_bits(y) - 0x3f000000));
    }
    mag += 0xfff + (mag >> 13 & 1);
    return (uint16_t)(sign | ((mag - ((127 - 15) << 23)) >> 13));
}

#endif
