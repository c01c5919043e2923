/* Whole numbers' own arithmetic for pointwise.def, where the type's operator will not do: division
 * that cannot trap, powers, limits. Results are the type's low bits. */
#ifndef TD_KERNELS_POINTWISE_WHOLE_H
#define TD_KERNELS_POINTWISE_WHOLE_H

#include <stdbool.h>
#include <stdint.h>

/* The quotient cut off; of a division by 0: 0. */
static inline int64_t W_quotient(int64_t a, int64_t b)
{
    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static inline int64_t W_fmod(int64_t a, int64_t b)
{
    return b == 0 || b == -1 ? 0 : a % b;
}

static inline int64_t W_remainder(int64_t a, int64_t b)
{
    int64_t rest = W_fmod(a, b);
    return rest && (rest < 0) != (b < 0) ? rest + b : rest;
}

static inline int64_t W_floor_divide(int64_t a, int64_t b)
{
    int64_t rest = W_fmod(a, b);
    return W_quotient(a, b) - (rest && (rest < 0) != (b < 0));
}

static inline uint64_t W_size(int64_t a)
{
    return a < 0 ? 0 - (uint64_t)a : (uint64_t)a;
}

static inline int64_t W_gcd(int64_t a, int64_t b) /* Euclid's */
{
    uint64_t x = W_size(a), y = W_size(b);
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return (int64_t)x;
}

static inline int64_t W_lcm(int64_t a, int64_t b)
{
    uint64_t divisor = (uint64_t)W_gcd(a, b);
    return divisor ? (int64_t)W_size((int64_t)(W_size(a) / divisor * W_size(b))) : 0;
}

/* By squaring; a negative power is 0 but for 1 and -1. */
static inline int64_t W_pow(int64_t a, int64_t b)
{
    uint64_t result = 1, square = (uint64_t)a;
    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    for (; b; b >>= 1, square *= square)
        if (b & 1)
            result *= square;
    return (int64_t)result;
}

#endif
