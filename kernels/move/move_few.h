/* Planes of few rows or few columns of 4-byte elements that lie side by side, a row's or a column's
 * few, in the input or in the output: as many vectors of the one side as they are few are those of
 * the other, of whose lanes each takes its own from all. */
#ifndef TD_KERNELS_MOVE_FEW_H
#define TD_KERNELS_MOVE_FEW_H

#include "kernels/turn.h"
#include "kernels/vec.h"

#if TD_LANES >= 8
#define TD_FEW_MOST (TD_LANES == 16 ? 7 : 4) /* n * n shuffles for n vectors: of more, squares */

/* a's lanes by `from` where `of` says which, else b. */
#ifdef __AVX512F__
typedef __mmask16 td_few_mask;
#define TD_FEW_MASK(of, which)                                                                     \
    _mm512_cmpeq_epi32_mask((__m512i)(of), _mm512_set1_epi32((int)(which)))
#define TD_FEW_TAKE(mask, a, from, b)                                                              \
    (td_vu) _mm512_mask_permutexvar_epi32((__m512i)(b), mask, (__m512i)(from), (__m512i)(a))
#else
typedef td_vi td_few_mask;
#define TD_FEW_MASK(of, which) ((of) == (int32_t)(which))
#define TD_FEW_TAKE(mask, a, from, b)                                                              \
    (td_vu)(((mask) & (td_vi)__builtin_shuffle(a, from)) | (~(mask) & (td_vi)(b)))
#endif

struct td_few { /* steps in elements */
    uint32_t *out;
    const uint32_t *in;
    int64_t out_step, in_step; /* from one of n vectors to the next */
    int64_t out_next, in_next; /* to the next n */
    int64_t count;             /* of n vectors */
};

/* apart: they lie side by side in the input, and apart in the output. */
TD_INLINE void td_few_vectors(struct td_few f, const int n, const bool apart)
{
    td_vi from[TD_FEW_MOST];
    td_few_mask mask[TD_FEW_MOST][TD_FEW_MOST];
    for (int i = 0; i < n; i++) {
        td_vi of;
        for (int l = 0; l < TD_LANES; l++) {
            int at = apart ? l * n + i : i * TD_LANES + l; /* among those side by side */
            of[l] = apart ? at / TD_LANES : at % n;
            from[i][l] = apart ? at % TD_LANES : at / n;
        }
        for (int k = 1; k < n; k++)
            mask[i][k] = TD_FEW_MASK(of, k);
    }
    for (; f.count > 0; f.count--, f.out += f.out_next, f.in += f.in_next) {
        td_vu v[TD_FEW_MOST];
#pragma GCC unroll 8
        for (int k = 0; k < n; k++)
            memcpy(&v[k], f.in + k * f.in_step, sizeof v[k]);
#pragma GCC unroll 8
        for (int i = 0; i < n; i++) {
            td_vu x = __builtin_shuffle(v[0], from[i]);
#pragma GCC unroll 8
            for (int k = 1; k < n; k++)
                x = TD_FEW_TAKE(mask[i][k], v[k], from[i], x);
            memcpy(f.out + i * f.out_step, &x, sizeof x);
        }
    }
}

#define TD_FEW(n)                                                                                  \
    case n:                                                                                        \
        if (apart)                                                                                 \
            td_few_vectors(f, n, true);                                                            \
        else                                                                                       \
            td_few_vectors(f, n, false);                                                           \
        break;

/* Of as many as whole vectors have, along the longer side: so many; 0: of none. */
static int64_t td_few_whole(uint32_t *out, int64_t out_row, const uint32_t *in, int64_t in_col,
                            int64_t rows, int64_t cols)
{
    const bool apart = rows < cols;
    const int64_t n = apart ? rows : cols, many = apart ? cols : rows;
    struct td_few f = {out, in, .count = many / TD_LANES};
    if (n < 2 || n > TD_FEW_MOST || (apart ? in_col : out_row) != n || many < 4 * n * n ||
        many < 4 * TD_LANES)
        return 0;
    f.out_step = apart ? out_row : TD_LANES;
    f.in_step = apart ? TD_LANES : in_col;
    f.out_next = apart ? TD_LANES : n * TD_LANES;
    f.in_next = apart ? n * TD_LANES : TD_LANES;
    switch (n) {
        TD_FEW(2)
        TD_FEW(3)
        TD_FEW(4)
#if TD_LANES == 16
        TD_FEW(5)
        TD_FEW(6)
        TD_FEW(7)
#endif
    }
    return f.count * TD_LANES;
}

/* The same of columns that fill half a vector and more, side by side in the output: each row is
 * written with all of its vector, and the next one over what is not its own. */
static int64_t td_few_squares(uint32_t *out, int64_t out_row, const uint32_t *in, int64_t in_col,
                              int64_t rows, int64_t cols)
{
    int64_t r = 0;
    if (out_row != cols || cols < TD_LANES / 2 || cols >= TD_LANES)
        return 0;
    for (; r + TD_LANES < rows; r += TD_LANES) {
        td_vu row[TD_LANES];
#pragma GCC unroll 16
        for (int i = 0; i < TD_LANES; i++)
            memcpy(&row[i], in + r + (i < cols ? i : 0) * in_col, sizeof row[i]);
        td_turn(row);
#pragma GCC unroll 16
        for (int i = 0; i < TD_LANES; i++)
            memcpy(out + (r + i) * out_row, &row[i], sizeof row[i]);
    }
    return r;
}
#endif

/* out[r * out_row + c] = in[r + c * in_col], of a plane of that kind; false: it is none. */
static bool td_few_turn(uint32_t *out, int64_t out_row, const uint32_t *in, int64_t in_col,
                        int64_t rows, int64_t cols)
{
    int64_t done = 0;
#if TD_LANES >= 8
    done = td_few_whole(out, out_row, in, in_col, rows, cols);
    done = done ? done : td_few_squares(out, out_row, in, in_col, rows, cols);
#endif
    if (!done)
        return false;
    for (int64_t r = rows < cols ? 0 : done; r < rows; r++)
        for (int64_t c = rows < cols ? done : 0; c < cols; c++)
            out[r * out_row + c] = in[r + c * in_col];
    return true;
}

#endif
