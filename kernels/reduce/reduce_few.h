/* Rows of few elements: part of reduce_rows.h. L_LANES rows are turned into as many vectors as a
 * row has elements, so that each row is in a lane of its own. The order in which a row's elements
 * are folded does not depend on the row's place among the others. */
#ifndef TD_KERNELS_REDUCE_FEW_H
#define TD_KERNELS_REDUCE_FEW_H

#include "kernels/reals.h"
#include "kernels/reduce/reduce.h"

#define FEW 6 /* elements of a row, at most */

/* Element i of each of L_LANES dense rows of n elements becomes a lane of to[i]. */
TD_INLINE void turn_rows(const td_real *x, const int n, V to[FEW])
{
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) {
        to[i] = L_load(x);
#pragma GCC unroll 8
        for (int k = 1; k < n; k++) { /* what lies in vectors 0 to k */
            VI from;
            for (int r = 0; r < L_LANES; r++) {
                int at = r * n + i, kept = k == 1 && at < L_LANES ? at : r;
                from[r] = at / L_LANES == k ? L_LANES + at % L_LANES : kept;
            }
            to[i] = __builtin_shuffle(to[i], L_load(x + k * L_LANES), from);
        }
    }
}

/* The next rows, at most L_LANES, of n <= FEW elements, turned so. Returns how many. */
static __attribute__((noinline)) int64_t turn_few(const td_real *x, int64_t n, int64_t rows,
                                                  int64_t step, V to[FEW])
{
    td_real room[FEW * L_LANES];
    const int64_t some = rows < L_LANES ? rows : L_LANES;
    if (some < L_LANES || step != n) {
        memset(room, 0, sizeof room);
        for (int64_t r = 0; r < some; r++)
            memcpy(room + r * n, x + r * step, (size_t)n * sizeof *x);
        x = room;
    }
    switch (n) {
    case 1:
        turn_rows(x, 1, to);
        break;
    case 2:
        turn_rows(x, 2, to);
        break;
    case 3:
        turn_rows(x, 3, to);
        break;
    case 4:
        turn_rows(x, 4, to);
        break;
    case 5:
        turn_rows(x, 5, to);
        break;
    default:
        turn_rows(x, 6, to);
    }
    return some;
}

/* each: the first n numbers of x, one a lane; else the first one in every lane. */
TD_INLINE V each_of(const double *x, int each, int64_t n)
{
    td_real lane[L_LANES] = {0};
    if (!each)
        return L_c((td_real)*x);
    for (int i = 0; i < L_LANES && i < n; i++)
        lane[i] = (td_real)x[i];
    return L_load(lane);
}

/* Writes the first n lanes as totals of this member and its type. */
#define PUT_LANES(name, member, type)                                                              \
    TD_INLINE void name(V v, int64_t n, union td_total *to)                                        \
    {                                                                                              \
        td_real lane[L_LANES];                                                                     \
        L_store(lane, v);                                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            to[i].member = (type)lane[i];                                                          \
    }
PUT_LANES(put_totals, f, double)
PUT_LANES(put_places, i, int64_t)

#endif
