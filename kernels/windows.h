/* Square windows over planes of FP32, several rows of results at a time in registers: what pools
 * and depthwise convolutions of small kernels share. A vector of results takes each position of its
 * windows from memory as it lies there; at a plane's edges, lanes that are not there hold what
 * padding stands for. Rows of the plane are read once for all results above and below that take
 * them. Included by files that are compiled once a level. */
#ifndef TD_KERNELS_WINDOWS_H
#define TD_KERNELS_WINDOWS_H

#include "kernels/vec.h"

#include <math.h>

#define TD_WINDOWS_WORTH (TD_VBYTES > 16) /* with fewer lanes and registers they take longer */
#define TD_WINDOWS_ROWS 4                 /* of results at a time */
#define TD_WINDOWS_WIDEST 7               /* kernel */

enum td_windows_kind { TD_WINDOWS_products, TD_WINDOWS_largest, TD_WINDOWS_mean };

struct td_windows { /* over one plane; sizes in elements */
    const float *in;
    float *out;
    int64_t height, width; /* of in */
    int64_t columns;       /* of out */
    int64_t above, left;   /* padding */
    const float *weight;   /* products: what the window's elements are multiplied with, in order, */
    float bias;            /* and what is added */
    const float *counts;   /* mean: what a sum is divided by is a column's number, of which there
                              are whole vectors, */
    const float *parts;    /* times a row's */
};

/* Computes rows [begin, end) of the result. */
typedef void td_windows_rows(const struct td_windows *w, int64_t begin, int64_t end);

/* The larger, or the NaN. */
TD_INLINE td_vf td_windows_larger(td_vf a, td_vf b)
{
#ifdef __AVX512F__
    __m512 x = (__m512)a, y = (__m512)b;
    return (td_vf)_mm512_mask_mov_ps(_mm512_max_ps(x, y), _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q),
                                     x);
#else
    return td_select((b > a) | (b != b), b, a);
#endif
}

/* The elements that position t of TD_LANES windows takes, t + 1 too for a stride of 2; the first
 * window begins at column of a row. edge: they may reach beyond it, where fill stands. */
TD_INLINE void td_windows_take(td_vf *to, const float *row, int64_t column, int64_t width,
                               const int t, const int stride, const bool edge, const float fill)
{
    td_vf v[2];
    for (int k = 0; k < stride; k++) {
        int64_t at = column + t + k * TD_LANES;
        v[k] = edge ? td_load_between(row + at, -at, width - at, fill) : td_load(row + at);
    }
    to[0] = stride == 1 ? v[0] : td_every_other(v[0], v[1], 0);
    if (stride == 2)
        to[1] = td_every_other(v[0], v[1], 1);
}

/* rows rows of TD_LANES results, from column x of row y on. */
TD_INLINE void td_windows_block(const struct td_windows *w, int64_t y, int64_t x, const int rows,
                                const int kernel, const int stride, const enum td_windows_kind kind,
                                const bool edge)
{
    const float fill = kind == TD_WINDOWS_largest ? -INFINITY : 0;
    td_vf acc[TD_WINDOWS_ROWS], tap[TD_WINDOWS_WIDEST + 1];
    for (int r = 0; r < rows; r++)
        acc[r] = td_set(kind == TD_WINDOWS_products ? w->bias : fill);
#pragma GCC unroll 16
    for (int i = 0; i < (rows - 1) * stride + kernel; i++) {
        int64_t from = y * stride - w->above + i;
        if (from < 0 || from >= w->height)
            continue;
#pragma GCC unroll 8
        for (int t = 0; t < kernel; t += stride)
            td_windows_take(tap + t, w->in + from * w->width, x * stride - w->left, w->width, t,
                            stride, edge, fill);
#pragma GCC unroll 8
        for (int t = 1; t < kernel && kind != TD_WINDOWS_products; t++)
            tap[0] = kind == TD_WINDOWS_mean ? tap[0] + tap[t] : td_windows_larger(tap[0], tap[t]);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            const int row = i - r * stride; /* of the window */
            if (row < 0 || row >= kernel)
                continue;
            if (kind == TD_WINDOWS_largest)
                acc[r] = td_windows_larger(acc[r], tap[0]);
            else if (kind == TD_WINDOWS_mean)
                acc[r] += tap[0];
            else
#pragma GCC unroll 8
                for (int t = 0; t < kernel; t++)
                    acc[r] = td_fma(tap[t], td_set(w->weight[row * kernel + t]), acc[r]);
        }
    }
    for (int r = 0; r < rows; r++) {
        if (kind == TD_WINDOWS_mean)
            acc[r] /= td_load(w->counts + x) * w->parts[y + r];
        td_store_next(w->out + (y + r) * w->columns + x, w->columns - x, acc[r]);
    }
}

TD_INLINE void td_windows_band(const struct td_windows *w, int64_t y, const int rows,
                               const int kernel, const int stride, const enum td_windows_kind kind)
{
    const int64_t reach =
        (kernel - 1) / stride * stride + stride * TD_LANES; /* of a block's loads */
    for (int64_t x = 0; x < w->columns; x += TD_LANES) {
        int64_t column = x * stride - w->left;
        if (column >= 0 && column + reach <= w->width)
            td_windows_block(w, y, x, rows, kernel, stride, kind, false);
        else
            td_windows_block(w, y, x, rows, kernel, stride, kind, true);
    }
}

/* A td_windows_rows of that kernel, stride (1 or 2) and kind. The last rows are taken with some of
 * those before, once more. */
#define TD_WINDOWS(name, kind, kernel, stride)                                                     \
    static void name(const struct td_windows *w, int64_t begin, int64_t end)                       \
    {                                                                                              \
        const int most = TD_WINDOWS_ROWS;                                                          \
        if (end - begin < most)                                                                    \
            for (int64_t y = begin; y < end; y++)                                                  \
                td_windows_band(w, y, 1, kernel, stride, kind);                                    \
        else                                                                                       \
            for (int64_t y = begin; y < end; y += most)                                            \
                td_windows_band(w, y + most <= end ? y : end - most, most, kernel, stride, kind);  \
    }

#endif
