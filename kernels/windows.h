/* Square windows over planes of FP32: what pools and depthwise convolutions of small kernels share.
 * Products are summed straight from the plane, several rows of results at a time in registers
 * (windows_products.def). Of pools a tile is laid out first, with its padding: with a stride of 2,
 * each row's even columns before its odd ones. So each position of a vector of windows is a vector
 * in memory, at the plane's edges too. Rows of narrow planes stay in registers
 * (windows_narrow.def). Included by files that are compiled once a level. */
#ifndef TD_KERNELS_WINDOWS_H
#define TD_KERNELS_WINDOWS_H

#include "kernels/vec.h"

#include <math.h>

#define TD_WINDOWS_WORTH (TD_VBYTES > 16) /* with fewer lanes and registers they take longer */
#define TD_WINDOWS_ROWS 4                 /* of results at a time */
#define TD_WINDOWS_WIDEST 7               /* kernel */
#define TD_WINDOWS_ROOM 3072 /* elements of a laid tile: in the first cache with all else */

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

/* Not 0 when there is a NaN among them. */
TD_INLINE uint32_t td_windows_nan(td_vf a, td_vf b)
{
#ifdef __AVX512F__
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_UNORD_Q);
#elif TD_VBYTES == 32
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_UNORD_Q));
#else
    uint32_t any = 0;
    for (int i = 0; i < TD_LANES; i++)
        any |= a[i] != a[i] || b[i] != b[i];
    return any;
#endif
}

/* The larger of two that are no NaN. */
TD_INLINE td_vf td_windows_max(td_vf a, td_vf b)
{
#ifdef __AVX512F__
    return (td_vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif TD_VBYTES == 32
    return (td_vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return td_select(b > a, b, a);
#endif
}

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

/* A part of the result of a pool, and what it takes of the plane: for each row of the result one in
 * which its windows' rows are joined. */
struct td_windows_tile {
    int64_t y, x, rows, columns; /* of the result */
    int64_t half;                /* elements of a laid row's even columns, or of all of them */
    float at[TD_WINDOWS_ROOM] __attribute__((aligned(64)));
};

/* What all functions here are compiled for. */
struct td_windows_form {
    int kernel, stride;
    enum td_windows_kind kind;
    bool nan; /* maxima look for NaN, which else they lose */
};

TD_INLINE td_vf td_windows_join(td_vf a, td_vf b, const struct td_windows_form f)
{
    return f.kind == TD_WINDOWS_mean ? a + b
           : f.nan                   ? td_windows_larger(a, b)
                                     : td_windows_max(a, b);
}

/* What joined rows of a window begin with, and padding. */
TD_INLINE td_vf td_windows_none(const struct td_windows_form f)
{
    return td_set(f.kind == TD_WINDOWS_largest ? -INFINITY : 0);
}

/* A vector of each of n rows of the plane, joined: of left columns, if they are fewer. *nan becomes
 * something else than 0 where one of the elements is NaN. */
TD_INLINE td_vf td_windows_pile(const float *from, int64_t width, const int64_t n, int64_t left,
                                const bool whole, const struct td_windows_form f, uint32_t *nan)
{
    td_vf sum = td_windows_none(f), fill = sum, last = sum;
#pragma GCC unroll 8
    for (int64_t i = 0; i < n; i++, from += width) {
        td_vf v = whole ? td_load(from) : td_load_next(from, left, fill[0]);
        if (f.kind == TD_WINDOWS_largest && i % 2)
            *nan |= td_windows_nan(v, last);
        else if (f.kind == TD_WINDOWS_largest && i == n - 1)
            *nan |= td_windows_nan(v, v);
        sum = i ? td_windows_join(v, sum, f) : v;
        last = v;
    }
    return sum;
}

/* Lays out rows [row, end), a vector of each or two with a stride of 2, of which left elements lie
 * in the plane or whole vectors, from column i of it on, which has `before` of padding before it.
 * inside: no window of theirs reaches over the plane's edge above or below. Gives back what is not
 * 0 where one of the elements is NaN. */
TD_INLINE uint32_t td_windows_lay_rows(const struct td_windows *w, struct td_windows_tile *tile,
                                       int64_t row, int64_t end, const bool inside, int64_t i,
                                       int64_t left, int64_t before, const bool whole,
                                       const struct td_windows_form f)
{
    const int step = f.stride, pile = f.kernel;
    const int64_t laid = f.stride * tile->half;
    int64_t first = tile->y * f.stride - w->above + row * step;
    float *even = tile->at + row * laid + before % f.stride * tile->half + before / f.stride;
    float *odd =
        tile->at + row * laid + (before + 1) % f.stride * tile->half + (before + 1) / f.stride;
    const bool two = f.stride == 2 && (whole || left > TD_LANES);
    uint32_t nan = 0;
    for (; row < end; row++, first += step, even += laid, odd += laid) {
        int64_t from = inside || first > 0 ? first : 0, last = first + pile, n = pile;
        if (!inside)
            n = (last < w->height ? last : w->height) - from;
        const float *in = w->in + from * w->width + i;
        td_vf a = td_windows_pile(in, w->width, n, left, whole, f, &nan), b = td_windows_none(f);
        if (two)
            b = td_windows_pile(in + TD_LANES, w->width, n, left - TD_LANES, whole, f, &nan);
        td_store(even, f.stride == 1 ? a : td_every_other(a, b, 0));
        if (f.stride == 2)
            td_store(odd, td_every_other(a, b, 1));
    }
    return nan;
}

/* The same of all rows. */
TD_INLINE uint32_t td_windows_lay_column(const struct td_windows *w, struct td_windows_tile *tile,
                                         int64_t i, int64_t left, int64_t before, const bool whole,
                                         const struct td_windows_form f)
{
    const int step = f.stride, pile = f.kernel;
    int64_t first = tile->y * f.stride - w->above, room = w->height - pile - first;
    int64_t low = first < 0 ? (step - 1 - first) / step : 0, high = room < 0 ? 0 : room / step + 1;
    low = low < tile->rows ? low : tile->rows;
    high = high < low ? low : high < tile->rows ? high : tile->rows;
    return td_windows_lay_rows(w, tile, 0, low, false, i, left, before, whole, f) |
           td_windows_lay_rows(w, tile, low, high, true, i, left, before, whole, f) |
           td_windows_lay_rows(w, tile, high, tile->rows, false, i, left, before, whole, f);
}

/* n elements of padding in each row, from element `from` on. */
TD_INLINE void td_windows_pad(struct td_windows_tile *tile, int64_t from, int64_t n,
                              const struct td_windows_form f)
{
    for (int64_t i = 0; i < n; i += TD_LANES)
        for (int64_t row = 0; row < tile->rows; row++)
            td_store(tile->at + row * f.stride * tile->half + from + i, td_windows_none(f));
}

/* Lays the tile out, and says whether there was a NaN. */
TD_INLINE bool td_windows_lay(const struct td_windows *w, struct td_windows_tile *tile,
                              const struct td_windows_form f)
{
    int64_t read = tile->columns + f.kernel / f.stride, step = f.stride * TD_LANES;
    int64_t x = tile->x * f.stride - w->left, from = x < 0 ? 0 : x, i;
    int64_t end = x + (tile->columns - 1) * f.stride + f.kernel, before = from - x;
    uint32_t nan = 0;
    end = end < w->width ? end : w->width;
    for (int part = 0; part < f.stride; part++)
        td_windows_pad(tile, part * tile->half, end > from ? (before + f.stride - 1) / f.stride : 0,
                       f);
    for (i = from; i < end; i += step, before += step)
        if (end - i >= step)
            nan |= td_windows_lay_column(w, tile, i, 0, before, true, f);
        else
            nan |= td_windows_lay_column(w, tile, i, end - i, before, false, f);
    for (int part = 0; part < f.stride; part++) {
        int64_t laid = end > from ? (before + f.stride - 1 - part) / f.stride : 0;
        td_windows_pad(tile, part * tile->half + laid, read - laid, f);
    }
    return nan;
}

TD_INLINE td_vf td_windows_tap(const struct td_windows_tile *tile, int64_t row, int64_t x,
                               const int t, const struct td_windows_form f)
{
    return td_load(tile->at + (row * f.stride + t % f.stride) * tile->half + x + t / f.stride);
}

TD_INLINE void td_windows_put(const struct td_windows *w, const struct td_windows_tile *tile,
                              int64_t y, int64_t x, td_vf v)
{
    td_store_next(w->out + (tile->y + y) * w->columns + tile->x + x, tile->columns - x, v);
}

/* The tile's maxima or means. */
TD_INLINE void td_windows_joined_of(const struct td_windows *w, const struct td_windows_tile *tile,
                                    const struct td_windows_form f)
{
    for (int64_t y = 0; y < tile->rows; y++)
        for (int64_t x = 0; x < tile->columns; x += TD_LANES) {
            td_vf v = td_windows_tap(tile, y, x, 0, f);
#pragma GCC unroll 8
            for (int t = 1; t < f.kernel; t++)
                v = td_windows_join(td_windows_tap(tile, y, x, t, f), v, f);
            if (f.kind == TD_WINDOWS_mean)
                v /= td_load(w->counts + tile->x + x) * w->parts[tile->y + y];
            td_windows_put(w, tile, y, x, v);
        }
}

/* The rows of a window of five and more enter two sums in turn, which do not wait for each other:
 * the sum that row `own` enters, and both of them. */
TD_INLINE int td_windows_part(const int own, const struct td_windows_form f)
{
    return f.kernel > 3 ? own & 1 : 0;
}
TD_INLINE td_vf td_windows_total(const td_vf *sum, const struct td_windows_form f)
{
    return f.kernel > 3 ? sum[0] + sum[1] : sum[0];
}

#include "kernels/windows_narrow.def"
#include "kernels/windows_products.def"

/* Rows [begin, end) of the result, tile by tile, each as wide as its rows may be. */
TD_INLINE void td_windows_tiles(const struct td_windows *w, int64_t begin, int64_t end,
                                struct td_windows_form f)
{
    if (td_windows_is_narrow(w)) {
        if (w->width < TD_LANES)
            td_windows_narrow(w, begin, end, false, f);
        else
            td_windows_narrow(w, begin, end, true, f);
        return;
    }
    if (f.kind == TD_WINDOWS_products) {
        td_windows_products_of(w, begin, end, f);
        return;
    }
    const int64_t spare = f.kernel / f.stride + 2 * TD_LANES - 1;
    int64_t columns = TD_WINDOWS_ROOM / TD_WINDOWS_ROWS / f.stride - spare, most;
    struct td_windows_tile tile;
    columns = w->columns < columns ? w->columns : columns / TD_LANES * TD_LANES;
    tile.half = (columns + spare) / TD_LANES * TD_LANES;
    most = TD_WINDOWS_ROOM / (f.stride * tile.half);
    most = most / TD_WINDOWS_ROWS * TD_WINDOWS_ROWS;
    for (tile.y = begin; tile.y < end; tile.y += most)
        for (tile.x = 0; tile.x < w->columns; tile.x += columns) {
            int64_t left = w->columns - tile.x;
            tile.rows = end - tile.y < most ? end - tile.y : most;
            tile.columns = left < columns ? left : columns;
            f.nan = false;
            if (td_windows_lay(w, &tile, f) && f.kind == TD_WINDOWS_largest) {
                f.nan = true;
                td_windows_lay(w, &tile, f);
            }
            td_windows_joined_of(w, &tile, f);
        }
}

/* A td_windows_rows of that kernel, stride (1 or 2) and kind. */
#define TD_WINDOWS(name, kind, kernel, stride)                                                     \
    static void name(const struct td_windows *w, int64_t begin, int64_t end)                       \
    {                                                                                              \
        td_windows_tiles(w, begin, end, (struct td_windows_form){kernel, stride, kind, false});    \
    }

#endif
