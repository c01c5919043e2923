/* Planes of elements of 1, 2, 4 and 8 bytes, in squares that are transposed in registers of 16
 * bytes, those of 8 bytes in pairs of them. Include only from files built once per level. */
#ifndef TD_KERNELS_PLANES_H
#define TD_KERNELS_PLANES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t td_turn_1 __attribute__((vector_size(16)));
typedef uint16_t td_turn_2 __attribute__((vector_size(16)));
typedef uint32_t td_turn_4 __attribute__((vector_size(16)));
typedef uint64_t td_turn_8 __attribute__((vector_size(32)));

/* Vectors a and b, element by element in turn: the first and the second half of that. */
#define TD_TURN_LOW_1(a, b)                                                                        \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define TD_TURN_HIGH_1(a, b)                                                                       \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define TD_TURN_LOW_2(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define TD_TURN_HIGH_2(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define TD_TURN_LOW_4(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define TD_TURN_HIGH_4(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)

/* Of elements numbered by row and column, each round moves one bit of the row's number down. */
#define TD_TURN_ROUNDS(size, side, v)                                                              \
    _Pragma("GCC unroll 4") for (int round = 1; round < side; round *= 2)                          \
    {                                                                                              \
        td_turn_##size next[side];                                                                 \
        _Pragma("GCC unroll 8") for (int i = 0; i < side / 2; i++)                                 \
        {                                                                                          \
            next[2 * i] = TD_TURN_LOW_##size(v[i], v[i + side / 2]);                               \
            next[2 * i + 1] = TD_TURN_HIGH_##size(v[i], v[i + side / 2]);                          \
        }                                                                                          \
        memcpy(v, next, sizeof next);                                                              \
    }

static inline void td_turn_square_1(td_turn_1 *v)
{
    TD_TURN_ROUNDS(1, 16, v)
}

static inline void td_turn_square_2(td_turn_2 *v)
{
    TD_TURN_ROUNDS(2, 8, v)
}

static inline void td_turn_square_4(td_turn_4 *v)
{
    TD_TURN_ROUNDS(4, 4, v)
}

static inline void td_turn_square_8(td_turn_8 *v)
{
    td_turn_8 w[4];
    for (int i = 0; i < 2; i++) {
        w[i] = __builtin_shufflevector(v[i], v[i + 2], 0, 1, 4, 5);
        w[i + 2] = __builtin_shufflevector(v[i], v[i + 2], 2, 3, 6, 7);
    }
    for (int i = 0; i < 4; i += 2) {
        v[i] = __builtin_shufflevector(w[i], w[i + 1], 0, 4, 2, 6);
        v[i + 1] = __builtin_shufflevector(w[i], w[i + 1], 1, 5, 3, 7);
    }
}

/* out[r * out_row + c] = in[r + c * in_col]. Squares at the end take some elements once more; they
 * go down where down says so, else across. The loop of a narrower plane makes no vectors, into
 * which elements would be put one by one. */
#define TD_TURN_PLANE(type, size, side)                                                            \
    static inline void td_turn_plane_##size(type *out, int64_t out_row, const type *in,            \
                                            int64_t in_col, int64_t rows, int64_t cols, bool down) \
    {                                                                                              \
        if (rows < side || cols < side) {                                                          \
            for (int64_t r = 0; r < rows; r++)                                                     \
                _Pragma("GCC unroll 4") for (int64_t c = 0; c < cols; c++)                         \
                {                                                                                  \
                    out[r * out_row + c] = in[r + c * in_col];                                     \
                    __asm__("");                                                                   \
                }                                                                                  \
            return;                                                                                \
        }                                                                                          \
        for (int64_t a = 0; a < (down ? cols : rows); a += side)                                   \
            for (int64_t b = 0; b < (down ? rows : cols); b += side) {                             \
                int64_t r = down ? b : a, c = down ? a : b;                                        \
                td_turn_##size v[side];                                                            \
                r = r < rows - side ? r : rows - side;                                             \
                c = c < cols - side ? c : cols - side;                                             \
                _Pragma("GCC unroll 16") for (int i = 0; i < side; i++)                            \
                    memcpy(&v[i], in + r + (c + i) * in_col, sizeof v[i]);                         \
                td_turn_square_##size(v);                                                          \
                _Pragma("GCC unroll 16") for (int i = 0; i < side; i++)                            \
                    memcpy(out + (r + i) * out_row + c, &v[i], sizeof v[i]);                       \
            }                                                                                      \
    }
TD_TURN_PLANE(uint8_t, 1, 16)
TD_TURN_PLANE(uint16_t, 2, 8)
TD_TURN_PLANE(uint32_t, 4, 4)
TD_TURN_PLANE(uint64_t, 8, 4)

#endif
