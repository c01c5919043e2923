/* Transposition of squares of 4-byte elements in vectors of the level. Include only from files
 * built once per level. */
#ifndef TD_KERNELS_TURN_H
#define TD_KERNELS_TURN_H

#include "kernels/vec.h"

/* One round of the exchange: rows i and i + step swap the halves of 2 * step lanes that lie off the
 * diagonal. log2(TD_LANES) rounds transpose a square. */
TD_INLINE void td_exchange(td_vu *row, const int step)
{
    td_vu low = {0}, high = {0};
    for (int j = 0; j < TD_LANES; j++) {
        low[j] = (uint32_t)(j & step ? TD_LANES + j - step : j);
        high[j] = (uint32_t)(j & step ? TD_LANES + j : j + step);
    }
    for (int i = 0; i < TD_LANES; i++)
        if (!(i & step)) {
            td_vu a = row[i], b = row[i + step];
            row[i] = __builtin_shuffle(a, b, low);
            row[i + step] = __builtin_shuffle(a, b, high);
        }
}

/* Transposes a square. */
TD_INLINE void td_turn(td_vu *row)
{
#if TD_LANES == 16
    td_exchange(row, 8);
#endif
#if TD_LANES >= 8
    td_exchange(row, 4);
#endif
    td_exchange(row, 2);
    td_exchange(row, 1);
}

#ifdef __AVX512F__
/* Four elements each from in, in + step, and so on, side by side: by loads, which do not use the
 * port that shuffles need. */
TD_INLINE __m512 td_gather_fours(const float *in, int64_t step)
{
    __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(in));
    v = _mm512_mask_broadcast_f32x4(v, 0x00f0, _mm_loadu_ps(in + step));
    v = _mm512_mask_broadcast_f32x4(v, 0x0f00, _mm_loadu_ps(in + 2 * step));
    return _mm512_mask_broadcast_f32x4(v, 0xf000, _mm_loadu_ps(in + 3 * step));
}

/* A square, whose two larger exchanges are made by loads. */
TD_INLINE void td_load_turned(td_vu *row, const float *in, int64_t in_col)
{
#pragma GCC unroll 4
    for (int a = 0; a < TD_LANES; a += 4) {
        __m512 r[4], low[2], high[2];
#pragma GCC unroll 4
        for (int b = 0; b < 4; b++)
            r[b] = td_gather_fours(in + b * in_col + a, 4 * in_col);
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            low[i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
            high[i] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
        }
        row[a] = (td_vu)_mm512_shuffle_ps(low[0], low[1], 0x44);
        row[a + 1] = (td_vu)_mm512_shuffle_ps(low[0], low[1], 0xee);
        row[a + 2] = (td_vu)_mm512_shuffle_ps(high[0], high[1], 0x44);
        row[a + 3] = (td_vu)_mm512_shuffle_ps(high[0], high[1], 0xee);
    }
}
#else
TD_INLINE void td_load_turned(td_vu *row, const float *in, int64_t in_col)
{
#pragma GCC unroll 16
    for (int i = 0; i < TD_LANES; i++)
        memcpy(&row[i], in + i * in_col, sizeof row[i]);
    td_turn(row);
}
#endif

/* out[r * out_row + c] = in[r + c * in_col], 4-byte elements, for r, c in [0, TD_LANES). */
TD_INLINE void td_transpose(uint32_t *out, int64_t out_row, const uint32_t *in, int64_t in_col)
{
    td_vu row[TD_LANES];
    td_load_turned(row, (const float *)in, in_col);
#pragma GCC unroll 16
    for (int i = 0; i < TD_LANES; i++)
        memcpy(out + i * out_row, &row[i], sizeof row[i]);
}

#endif
