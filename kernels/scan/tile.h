/* The tile that the scans' elements come through, of doubles or of INT64: into it, out of it, and
 * its transposition. */
#ifndef TD_KERNELS_SCAN_TILE_H
#define TD_KERNELS_SCAN_TILE_H

#include "kernels/lines.h"

#define PIECE 512 /* elements of a row, or columns of a block: a tile of each sort fills 4 KiB */

union tile {
    double real[PIECE];
    int64_t whole[PIECE];
};

#define EACH(type, expression)                                                                     \
    for (int64_t i = 0; i < n; i++)                                                                \
        to[i] = (type)(expression);                                                                \
    break;

TD_INLINE void load_real(double *to, const void *x, int64_t n, enum td_dtype type)
{
    float line[PIECE];
    switch (type) {
    case TD_f64:
        EACH(double, ((const double *)x)[i])
    case TD_f32:
        EACH(double, ((const float *)x)[i])
    default:
        td_line_widen(line, x, n, type);
        EACH(double, line[i])
    }
}

TD_INLINE void store_real(void *out, const double *from, int64_t n, enum td_dtype type)
{
    float line[PIECE], *to = type == TD_f32 ? out : line;
    if (type == TD_f64) {
        memcpy(out, from, (size_t)n * sizeof *from);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)from[i];
    if (type != TD_f32)
        td_line_narrow(out, line, n, type);
}

TD_INLINE void load_whole(int64_t *to, const void *x, int64_t n, enum td_dtype type)
{
    switch (type) {
    case TD_bool:
        EACH(int64_t, ((const uint8_t *)x)[i] != 0)
    case TD_u8:
        EACH(int64_t, ((const uint8_t *)x)[i])
    case TD_i8:
        EACH(int64_t, ((const int8_t *)x)[i])
    case TD_i16:
        EACH(int64_t, ((const int16_t *)x)[i])
    case TD_i32:
        EACH(int64_t, ((const int32_t *)x)[i])
    default:
        EACH(int64_t, ((const int64_t *)x)[i])
    }
}

#define STORE(type)                                                                                \
    {                                                                                              \
        type *to = out;                                                                            \
        EACH(type, from[i])                                                                        \
    }

TD_INLINE void store_whole(void *out, const int64_t *from, int64_t n, enum td_dtype type)
{
    if (type == TD_bool) {
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)out)[i] = from[i] != 0;
        return;
    }
    switch (td_dtype_size(type)) {
    case 1:
        STORE(uint8_t)
    case 2:
        STORE(uint16_t)
    case 4:
        STORE(uint32_t)
    default:
        STORE(int64_t)
    }
}

/* n elements of a type, from the tile's number at on. */
TD_INLINE void load_tile(union tile *to, int64_t at, const void *x, int64_t n, enum td_dtype type)
{
    if (td_dtype_kind(type) == 'f')
        load_real(to->real + at, x, n, type);
    else
        load_whole(to->whole + at, x, n, type);
}

TD_INLINE void store_tile(void *out, const union tile *from, int64_t at, int64_t n,
                          enum td_dtype type)
{
    if (td_dtype_kind(type) == 'f')
        store_real(out, from->real + at, n, type);
    else
        store_whole(out, from->whole + at, n, type);
}

/* to, columns x rows, is the transpose of from, rows x columns, both at least 2, in blocks of 2 x
 * 2; the last block of an odd size overlaps the one before it. */
TD_INLINE void transpose(int64_t *to, const int64_t *from, int64_t rows, int64_t columns)
{
    typedef int64_t two __attribute__((vector_size(16)));
    for (int64_t i = 0; i < rows; i += 2)
        for (int64_t j = 0; j < columns; j += 2) {
            int64_t r = i + 2 > rows ? rows - 2 : i, c = j + 2 > columns ? columns - 2 : j;
            two a, b, even, odd;
            memcpy(&a, from + r * columns + c, sizeof a);
            memcpy(&b, from + (r + 1) * columns + c, sizeof b);
            even = __builtin_shuffle(a, b, (two){0, 2});
            odd = __builtin_shuffle(a, b, (two){1, 3});
            memcpy(to + c * rows + r, &even, sizeof even);
            memcpy(to + (c + 1) * rows + r, &odd, sizeof odd);
        }
}

#undef EACH
#undef STORE
#endif
