/* The pointwise operators in whole numbers and BOOL: plain loops over one type each, which the
 * compiler turns into the level's vectors. Arithmetic is unsigned, so that it wraps. */
#include "kernels/none.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/pointwise/whole.h"
#include "kernels/vec.h"

#include <math.h>

/* A formula for all types asks whether unsigned numbers are below 0. Of a formula of
 * floats alone no row comes. */
enum { NONE };
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wunused-variable"

/* Pointers are read once: a store of 8 bits might be one to them, for all that a compiler knows. */
#define FROM_1(first) const first *const x = in[0];
#define FROM_2(first) FROM_1(first) const T *const y = in[1];
#define FROM_3(first) FROM_2(first) const T *const z = in[2];
#define FIRST_same T
#define FIRST_ratio T
#define FIRST_truth T
#define FIRST_pick uint8_t
#define IN_1(first) const first a = x[i];
#define IN_2(first) IN_1(first) const T b = y[i];
#define IN_3(first) IN_2(first) const T c = z[i];
#define UNIT(type) (64 / sizeof(type)) /* elements of which rows get multiples */
#define SIZE_same (int64_t)sizeof(T)
#define SIZE_ratio SIZE_same
#define SIZE_truth 1
#define OUT_pick OUT_same
#define OUT_ratio OUT_same
#define OUT_same(x) ((T *)to)[i] = TO_T(x)
#define OUT_truth(x) ((uint8_t *)to)[i] = (x) != 0

#define W_pick(a, b, c) ((T)((c) ^ (((b) ^ (c)) & (T)(0 - (U)((a) != 0))))) /* no branch */
#define W_add(a, b) ((T)((U)(a) + (U)(b)))
#define W_sub(a, b) ((T)((U)(a) - (U)(b)))
#define W_mul(a, b) ((T)((U)(a) * (U)(b)))
#define W_not(a) W_NOT(a)
/* Limits of the type's own size, which a row knows before its loop: that stays in it. */
#define LOWEST ((T)-1 > 0 ? (T)0 : (T)((U)1 << (8 * sizeof(T) - 1)))
#define HELD(x) ((x) < (int64_t)LOWEST ? LOWEST : (x) > (int64_t)(T)~LOWEST ? (T)~LOWEST : (T)(x))
#define AT_LEAST(a, p) ((a) < (p) ? (p) : (a))
#define AT_MOST(a, q) ((a) > (q) ? (q) : (a))
#define BITS ((T)(8 * sizeof(T)))
#define W_shl(a, b) ((b) < 0 || (b) >= BITS ? 0 : (T)((U)(a) << (b)))
#define W_shr(a, b) ROW(shr, NAME)(a, b)
#define HELD_0 0
#define HELD_6 6
#define HELD_INT64_MIN LOWEST
#define HELD_INT64_MAX ((T)~LOWEST)
#define W_clamp(a, p, q) AT_MOST(AT_LEAST(a, HELD_##p), HELD_##q)
#define W_upto(x, p, a, b) ((x) <= HELD_##p && !beyond_##p ? (T)(a) : (b))
/* The distance is exact before it is rounded: it is compared with 0 and up. */
#define W_close(a, b)                                                                              \
    ((double)((a) < (b) ? (uint64_t)(b) - (uint64_t)(a) : (uint64_t)(a) - (uint64_t)(b)) <=        \
     real_q + fabs(real_p * (double)(b)))
#define DEAR 40 /* the cost of formulas that no vectors compute: for them a unit is one element */

#if !defined CPU_CAPABILITY_AVX512 /* where AVX2's rows of bytes are faster: pointwise.c */
#define BYTES(...) __VA_ARGS__
#define STILL_BYTES(...) __VA_ARGS__
#define UNSHIFTED                                                                                  \
    2 /* bytes of the elements which no instruction shifts each by a count of its own */
#define NAME u8
#define T uint8_t
#define U unsigned
#include "kernels/pointwise/int_rows.def"
#define NAME i8
#define T int8_t
#define U unsigned
#include "kernels/pointwise/int_rows.def"
#define NAME truth /* BOOL: whatever is not 0 is 1 */
#define T uint8_t
#define U unsigned
#define TO_T(x) ((x) != 0)
#define W_NOT(a) (!(a))
#include "kernels/pointwise/int_rows.def"
#else
#define BYTES(...) NULL, NULL, NULL
#define STILL_BYTES(...)                                                                           \
    {NULL, NULL}, {NULL, NULL},                                                                    \
    {                                                                                              \
        NULL, NULL                                                                                 \
    }
#define UNSHIFTED 1
#endif
#define NAME i16
#define T int16_t
#define U unsigned
#include "kernels/pointwise/int_rows.def"
#define NAME i32
#define T int32_t
#define U unsigned
#include "kernels/pointwise/int_rows.def"
#define NAME i64
#define T int64_t
#define U uint64_t
#include "kernels/pointwise/int_rows.def"

TD_KERNEL(pointwise_int)
{
    static const bool is_dear[TD_POINTS] = {
#define TD_POINT(id, operands, result, cost, ...) (cost) >= DEAR,
#include "kernels/pointwise/pointwise.def"
    };
    static td_point_row *const rows[TD_POINTS][6] = {
#define ROW_OF(id, whole, name) TD_MEANT(whole) ? id##_##name : NULL
#define TD_POINT(id, operands, result, cost, judge, whole, lanes)                                  \
    {BYTES(ROW_OF(id, whole, truth), ROW_OF(id, whole, u8), ROW_OF(id, whole, i8)),                \
     ROW_OF(id, whole, i16), ROW_OF(id, whole, i32), ROW_OF(id, whole, i64)},
#include "kernels/pointwise/pointwise.def"
    };
    static td_point_still_rows *const still[TD_POINTS][6][2] = {
#define HAS_STILL(cost, whole) (TD_MEANT(whole) && TD_POINT_HAS_STILL(cost))
#define STILL_OF(id, taken, name)                                                                  \
    {                                                                                              \
        (taken) ? id##_first_##name : NULL, (taken) ? id##_second_##name : NULL                    \
    }
#define STILL_ROWS_1(id, taken)                                                                    \
    {                                                                                              \
        {                                                                                          \
            NULL, NULL                                                                             \
        }                                                                                          \
    }
#define STILL_ROWS_3 STILL_ROWS_1
#define STILL_ROWS_2(id, taken)                                                                    \
    {                                                                                              \
        STILL_BYTES(STILL_OF(id, taken, truth), STILL_OF(id, taken, u8), STILL_OF(id, taken, i8)), \
            STILL_OF(id, taken, i16), STILL_OF(id, taken, i32), STILL_OF(id, taken, i64)           \
    }
#define TD_POINT(id, operands, result, cost, judge, whole, lanes)                                  \
    STILL_ROWS_##operands(id, HAS_STILL(cost, whole)),
#include "kernels/pointwise/pointwise.def"
    };
    enum td_dtype type = td_dtype_signed(td_point_type(call));
    enum td_point point = td_point_of(call);
    int which = __builtin_ctz(type);
    int unit = is_dear[point] ? 1 : (int)(64 / td_dtype_size(type));
    td_pointwise_still(call, &(struct td_point_way){rows[point][which], unit, TD_POINT_TURN},
                       still[point][which]);
}
