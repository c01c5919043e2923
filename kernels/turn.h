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

/* out[r * out_row + c] = in[r + c * in_col], 4-byte elements, for r, c in [0, TD_LANES). */
TD_INLINE void td_transpose(uint32_t *out, int64_t out_row, const uint32_t *in, int64_t in_col)
{
    td_vu row[TD_LANES];
#pragma GCC unroll 16
    for (int i = 0; i < TD_LANES; i++)
        memcpy(&row[i], in + i * in_col, sizeof row[i]);
    td_turn(row);
#pragma GCC unroll 16
    for (int i = 0; i < TD_LANES; i++)
        memcpy(out + i * out_row, &row[i], sizeof row[i]);
}

#endif
