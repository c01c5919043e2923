/* Sizes and indices made of numbers that a client sends: a product that wraps to 0 divides, one
 * that wraps below leads out of memory, and C does not say which integer NaN or 1e300 becomes. What
 * a rule computes from arguments goes through these until it has judged it; what follows from
 * tensors' sizes alone can be counted (td_fits). */
#ifndef TD_KERNELS_SIZES_H
#define TD_KERNELS_SIZES_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the product, sum or difference fits; where not, *to is the limit that is nearest to it.
 */
static inline bool td_size_times(int64_t a, int64_t b, int64_t *to)
{
    if (!__builtin_mul_overflow(a, b, to))
        return true;
    *to = (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
    return false;
}

static inline bool td_size_plus(int64_t a, int64_t b, int64_t *to)
{
    if (!__builtin_add_overflow(a, b, to))
        return true;
    *to = b < 0 ? INT64_MIN : INT64_MAX;
    return false;
}

static inline bool td_size_minus(int64_t a, int64_t b, int64_t *to)
{
    if (!__builtin_sub_overflow(a, b, to))
        return true;
    *to = b < 0 ? INT64_MAX : INT64_MIN;
    return false;
}

/* How many windows that reach over so many elements, a stride apart, there are in that room, with
 * so much padding on both sides together; 0: not one. All but room are at most 2^62, and 1 or more,
 * padding 0 or more. */
static inline int64_t td_size_windows(int64_t room, int64_t padding, int64_t reach, int64_t stride)
{
    __int128 free = (__int128)room + padding - reach, n = free < 0 ? 0 : free / stride + 1;
    return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

/* The integer that a real number is cut to, towards 0: the nearest limit for one beyond, 0 for NaN.
 */
static inline int64_t td_size_of_real(double x)
{
    if (x >= 0x1p63)
        return INT64_MAX;
    return x >= -0x1p63 ? (int64_t)x : x < 0 ? INT64_MIN : 0;
}

/* The same within 0 to last. */
static inline int64_t td_index_of_real(double x, int64_t last)
{
    int64_t i = td_size_of_real(x);
    return i < 0 ? 0 : i > last ? last : i;
}

#endif
