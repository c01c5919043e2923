/* What the index family's rows do with the elements of a run, or of a block of places, by type. For
 * files that are compiled per level. */
#ifndef TD_KERNELS_INDEX_WAYS_H
#define TD_KERNELS_INDEX_WAYS_H

#include "kernels/copy.h"
#include "kernels/half.h"
#include "kernels/index/index.h"

#include <string.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

struct factor { /* of what is added */
    double real;
    uint64_t whole;
};

/* from's step is 0 or more elements; at NULL: into is a run. */
typedef void td_combine(void *into, const int64_t *at, const void *from, int64_t step, int64_t n,
                        struct factor factor);

#define COPY(bits)                                                                                 \
    static inline void write_##bits(void *into, const int64_t *at, const void *from, int64_t step, \
                                    int64_t n, struct factor factor)                               \
    {                                                                                              \
        uint##bits##_t *t = into;                                                                  \
        const uint##bits##_t *f = from;                                                            \
        (void)factor;                                                                              \
        if (!at && step == 1)                                                                      \
            td_copy_run(into, from, n *(int64_t)sizeof *t);                                        \
        else if (!at)                                                                              \
            for (int64_t i = 0; i < n; i++)                                                        \
                t[i] = f[i * step];                                                                \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                t[at[i]] = f[i * step];                                                            \
    }                                                                                              \
    static inline void read_##bits(void *to, const int64_t *at, const void *from, int64_t step,    \
                                   int64_t n)                                                      \
    {                                                                                              \
        uint##bits##_t *t = to;                                                                    \
        const uint##bits##_t *f = from;                                                            \
        if (step == 1)                                                                             \
            for (int64_t i = 0; i < n; i++)                                                        \
                t[i] = f[at[i]];                                                                   \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                t[i * step] = f[at[i]];                                                            \
    }
COPY(8)
COPY(16)
COPY(32)
COPY(64)

#ifdef __F16C__
#define LOAD_f16(h) _cvtsh_ss(h)
#define STORE_f16(x) _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT)
#else
#define LOAD_f16(h) td_f16_to_f32(h)
#define STORE_f16(x) td_f32_to_f16(x)
#endif
#define LOAD_bf16(h) td_bf16_to_f32(h)
#define STORE_bf16(x) td_f32_to_bf16(x)
#define SAME(x) (x)
#define REAL(T) ((T)factor.real)
#define WHOLE(T) ((T)factor.whole)
#define TRUTH(x) ((x) != 0)

#define COMBINE(id, way, T, C, LOAD, STORE, FACTOR, ...)                                           \
    static inline void way##_##id(void *into, const int64_t *at, const void *from, int64_t step,   \
                                  int64_t n, struct factor factor)                                 \
    {                                                                                              \
        T *t = into;                                                                               \
        const T *f = from;                                                                         \
        C by = FACTOR(C);                                                                          \
        (void)by;                                                                                  \
        if (!at && step == 1)                                                                      \
            for (int64_t i = 0; i < n; i++) {                                                      \
                C a = LOAD(t[i]), b = LOAD(f[i]);                                                  \
                t[i] = (T)STORE(__VA_ARGS__);                                                      \
            }                                                                                      \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                      \
                T *x = at ? t + at[i] : t + i;                                                     \
                C a = LOAD(*x), b = LOAD(f[i * step]);                                             \
                *x = (T)STORE(__VA_ARGS__);                                                        \
            }                                                                                      \
    }

/* A NaN among a and b stays. */
#define LESS(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define MORE(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define ALL_WAYS(id, T, C, LOAD, STORE, FACTOR)                                                    \
    COMBINE(id, add, T, C, LOAD, STORE, FACTOR, a + b * by)                                        \
    COMBINE(id, mul, T, C, LOAD, STORE, FACTOR, a *b)                                              \
    COMBINE(id, min, T, C, LOAD, STORE, FACTOR, LESS(a, b))                                        \
    COMBINE(id, max, T, C, LOAD, STORE, FACTOR, MORE(a, b))
#define WHOLE_WAYS(id, T, U)                                                                       \
    COMBINE(id, add, T, U, (U), (T), WHOLE, a + b * by)                                            \
    COMBINE(id, mul, T, U, (U), (T), WHOLE, a *b)                                                  \
    COMBINE(id, min, T, T, SAME, SAME, WHOLE, LESS(a, b))                                          \
    COMBINE(id, max, T, T, SAME, SAME, WHOLE, MORE(a, b))
ALL_WAYS(f32, float, float, SAME, SAME, REAL)
ALL_WAYS(f64, double, double, SAME, SAME, REAL)
ALL_WAYS(f16, uint16_t, float, LOAD_f16, STORE_f16, REAL)
ALL_WAYS(bf16, uint16_t, float, LOAD_bf16, STORE_bf16, REAL)
COMBINE(bool, add, uint8_t, unsigned, SAME, TRUTH, WHOLE, a + b * by)
COMBINE(bool, mul, uint8_t, unsigned, SAME, TRUTH, WHOLE, a *b)
COMBINE(bool, min, uint8_t, unsigned, SAME, TRUTH, WHOLE, LESS(a, b))
COMBINE(bool, max, uint8_t, unsigned, SAME, TRUTH, WHOLE, MORE(a, b))
WHOLE_WAYS(u8, uint8_t, unsigned)
WHOLE_WAYS(i8, int8_t, unsigned)
WHOLE_WAYS(i16, int16_t, unsigned)
WHOLE_WAYS(i32, int32_t, uint32_t)
WHOLE_WAYS(i64, int64_t, uint64_t)

static inline td_combine *find_combine(enum td_index_way way, enum td_dtype dtype)
{
    static td_combine *const write[] = {
        [1] = write_8, [2] = write_16, [4] = write_32, [8] = write_64};
#define EACH(way)                                                                                  \
    {                                                                                              \
        [TD_DTYPE_INDEX_bool] = way##_bool, [TD_DTYPE_INDEX_u8] = way##_u8,                        \
        [TD_DTYPE_INDEX_i8] = way##_i8, [TD_DTYPE_INDEX_i16] = way##_i16,                          \
        [TD_DTYPE_INDEX_i32] = way##_i32, [TD_DTYPE_INDEX_i64] = way##_i64,                        \
        [TD_DTYPE_INDEX_f16] = way##_f16, [TD_DTYPE_INDEX_bf16] = way##_bf16,                      \
        [TD_DTYPE_INDEX_f32] = way##_f32, [TD_DTYPE_INDEX_f64] = way##_f64                         \
    }
    static td_combine *const ways[][TD_DTYPES] = {EACH(add), EACH(mul), EACH(min), EACH(max)};
#undef EACH
    if (way == TD_INDEX_write)
        return write[td_dtype_size(dtype)];
    return ways[way == TD_INDEX_mean ? 0 : way - TD_INDEX_add]
               [__builtin_ctz(td_dtype_signed(dtype))];
}

typedef void td_read(void *to, const int64_t *at, const void *from, int64_t step, int64_t n);

/* By the size of an element. */
static inline td_read *find_read(size_t size)
{
    return size == 1 ? read_8 : size == 2 ? read_16 : size == 4 ? read_32 : read_64;
}

/* Reads the n elements that the indices of the only pointer name. Indices lie side by side, and so
 * do results. Not by vectors: their gathers take longer. */
#define READ_POINTED(bits, T)                                                                      \
    static inline void read_pointed_##bits##_##T(                                                  \
        uint##bits##_t *restrict to, const uint##bits##_t *restrict from, const T *restrict index, \
        int64_t n, int64_t bound, int64_t stride)                                                  \
    {                                                                                              \
        _Pragma("GCC unroll 4") for (int64_t i = 0; i < n; i++)                                    \
        {                                                                                          \
            int64_t at = index[i];                                                                 \
            at += at >> 63 & bound;                                                                \
            to[i] = from[at * stride];                                                             \
        }                                                                                          \
    }
#define READ_POINTED_BY(bits)                                                                      \
    READ_POINTED(bits, int32_t)                                                                    \
    READ_POINTED(bits, int64_t)
READ_POINTED_BY(8)
READ_POINTED_BY(16)
READ_POINTED_BY(32)
READ_POINTED_BY(64)

/* size: bytes an element; at: where the pointer stands. */
static inline void read_pointed(size_t size, const struct td_pointer *by, int64_t at,
                                const void *from, void *to, int64_t n)
{
    switch (size) {
#define READ(bits)                                                                                 \
    if (by->t.dtype == TD_i64)                                                                     \
        read_pointed_##bits##_int64_t(to, from, (const int64_t *)by->t.data + at, n, by->bound,    \
                                      by->stride);                                                 \
    else                                                                                           \
        read_pointed_##bits##_int32_t(to, from, (const int32_t *)by->t.data + at, n, by->bound,    \
                                      by->stride);                                                 \
    break;
    case 1:
        READ(8)
    case 2:
        READ(16)
    case 4:
        READ(32)
    default:
        READ(64)
#undef READ
    }
}

#endif
