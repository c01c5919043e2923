/* The insides of a product: a block of the result held in registers, and FP32 sums along k.
 *
 * The block is TD_MR rows of two vectors, where each vector of b that is loaded serves all rows and
 * each element of a both vectors (6 x 16 on AVX2: 12 accumulators, 2 vectors of b, 1 of a, in 16
 * registers). FP32, of which most products are, has blocks of every height up to that. Of other
 * lanes fewer rows go in pieces of 8, 4, 2 and 1. */
#ifndef TD_KERNELS_GEMM_BLOCK_H
#define TD_KERNELS_GEMM_BLOCK_H

#include "kernels/gemm/gemm_dot.h"
#include "kernels/kernels.h"
#include "kernels/vec.h"

#if TD_VBYTES == 64
#define TD_MR 12
#else
#define TD_MR 6
#endif
#define TD_NR (2 * TD_LANES)

/* ---- elements of FP32, BF16 or FP16, as FP32 ---- */

TD_INLINE td_vf td_gemm_widen(td_vh h, const enum td_dtype type)
{
    return type == TD_bf16 ? td_widen_bf16(h) : td_widen_f16(h);
}

TD_INLINE td_vf td_gemm_load(const void *p, int64_t i, const enum td_dtype type)
{
    td_vh h;
    if (type == TD_f32)
        return td_load((const float *)p + i);
    memcpy(&h, (const uint16_t *)p + i, sizeof h);
    return td_gemm_widen(h, type);
}

/* The first n of a vector, 0 < n <= TD_LANES; zeros beyond. */
TD_INLINE td_vf td_gemm_load_n(const void *p, int64_t i, int64_t n, const enum td_dtype type)
{
    td_vh h = {0};
    if (n >= TD_LANES)
        return td_gemm_load(p, i, type);
    if (type == TD_f32)
        return td_load_n((const float *)p + i, n, 0);
    td_copy_few(&h, (const uint16_t *)p + i, n, 2);
    return td_gemm_widen(h, type);
}

TD_INLINE float td_gemm_get(const void *p, int64_t i, const enum td_dtype type)
{
    return type == TD_f32    ? ((const float *)p)[i]
           : type == TD_bf16 ? td_bf16_to_f32(((const uint16_t *)p)[i])
                             : td_f16_to_f32(((const uint16_t *)p)[i]);
}

/* ---- the register block ---- */

/* What a lane of 32 bits holds, and so what one step along k is. */
enum td_step {
    TD_STEP_f32,        /* a * b */
    TD_STEP_widen_bf16, /* the same, b being BF16 in memory */
    TD_STEP_widen_f16,  /* or FP16 */
    TD_STEP_bf16,       /* two of BF16: a0 * b0 + a1 * b1, summed in FP32 */
    TD_STEP_i16,        /* two of INT16, summed in INT32 */
    TD_STEP_u8i8,       /* four of UINT8 with four of INT8 */
    TD_STEP_i8u8,       /* and the other way round */
};

/* What a block of two FP32 vectors prefetches: each step along k prefetches the lines at both
 * addresses, which may be one line, and moves both on by step elements. The next block of rows
 * starts share elements behind this one. */
struct td_ahead {
    const float *at[2]; /* NULL: nothing */
    int64_t step, share;
};

struct td_block {
    int64_t k;      /* lanes */
    const float *a; /* rows of it, lda apart */
    const void *b;  /* rows of it, ldb apart: a panel, or the matrix itself */
    float *c;       /* sums, in FP32 or INT32 */
    int64_t lda, ldb, ldc;
    struct td_ahead ahead;
    int64_t next; /* of td_block_pair: from a panel of b to the next, in elements */
    int64_t cols; /* of c: more than all of the block's vectors but the last one have */
    bool add;     /* sums begin with what c holds; else with the bias */
    bool far;     /* c is not in a near cache: its lines are prefetched while the sums are made */
    /* Numbers of rows, bias_i apart; where bias_i is 0, of columns. NULL: sums begin with 0. */
    const float *bias;
    int64_t bias_i;
};

/* The type of b in memory; FP32 as well for lanes that hold several short numbers. */
TD_INLINE enum td_dtype td_step_reads(const enum td_step step)
{
    return step == TD_STEP_widen_bf16 ? TD_bf16 : step == TD_STEP_widen_f16 ? TD_f16 : TD_f32;
}

TD_INLINE td_vf td_block_step(td_vf sum, td_vf a, td_vf b, const enum td_step step)
{
    switch (step) {
    case TD_STEP_bf16:
        return td_dot_bf16(sum, a, b);
    case TD_STEP_i16:
        return (td_vf)td_dot_i16((td_vi)sum, (td_vi)a, (td_vi)b);
    case TD_STEP_u8i8:
        return (td_vf)td_dot_u8i8((td_vi)sum, (td_vi)a, (td_vi)b);
    case TD_STEP_i8u8:
        return (td_vf)td_dot_u8i8((td_vi)sum, (td_vi)b, (td_vi)a);
    default:
        return td_fma(a, b, sum);
    }
}

/* The lane in all lanes. As bits, since FP32 arithmetic would change some that are no FP32. */
TD_INLINE td_vf td_block_spread(const float *p, const enum td_step step)
{
    uint32_t bits;
    if (step <= TD_STEP_widen_f16)
        return td_set(*p);
    memcpy(&bits, p, sizeof bits);
    return (td_vf)(bits + (td_vu){0});
}

/* Vector v of a row of which only the block's columns may be read. */
TD_INLINE td_vf td_block_load(const struct td_block *t, const float *row, const int v, const int nv)
{
    const float *p = row + v * TD_LANES;
    return v < nv - 1 ? td_load(p) : td_load_next(p, t->cols - v * TD_LANES, 0);
}

/* What the sums begin with. */
TD_INLINE void td_block_begin(const struct td_block *t, td_vf acc[][8], const int mr, const int nv)
{
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 8
        for (int v = 0; v < nv; v++)
            acc[i][v] = t->add       ? td_block_load(t, t->c + i * t->ldc, v, nv)
                        : !t->bias   ? (td_vf){0}
                        : !t->bias_i ? td_block_load(t, t->bias, v, nv)
                                     : td_set(t->bias[i * t->bias_i]);
}

/* Where a row of b is. */
enum td_block_reads {
    TD_BLOCK_whole, /* one vector behind the other, */
    TD_BLOCK_ahead, /* the same, and t->ahead is prefetched */
    TD_BLOCK_part,  /* of the last vector only the block's columns may be read, of FP32 */
    TD_BLOCK_pair,  /* two in a panel, two in the next */
};

/* Vector v, 0 to 3, of row p of a pair of panels. */
TD_INLINE const float *td_block_pair_at(const struct td_block *t, int64_t p, const int v)
{
    return (const float *)t->b + (v > 1 ? t->next - TD_NR : 0) + p * t->ldb + v * TD_LANES;
}

/* How many rows ahead a pair of panels is prefetched. Few rows read them faster than hardware
 * prefetches by itself. */
#define TD_PAIR_AHEAD 16

/* And of few rows of a those of b that are read where they lie, far apart. */
#define TD_WIDE_AHEAD 8

/* c[mr][nv vectors] (+)= a[mr][k] * b[k][nv vectors]. */
TD_INLINE void td_block_sums(const struct td_block *t, const int mr, const int nv,
                             const enum td_step step, const enum td_block_reads reads)
{
    const bool fetches = step == TD_STEP_f32 && nv >= 4 && reads != TD_BLOCK_pair;
    td_vf acc[TD_MR][8], b[8];
    for (int i = 0; i < mr && t->far; i++)
        for (int v = 0; v < nv; v += 64 / TD_VBYTES)
            __builtin_prefetch(t->c + i * t->ldc + v * TD_LANES, 1);
    td_block_begin(t, acc, mr, nv);
    for (int64_t p = 0; p < t->k; p++) {
        for (int v = 0; v < nv && reads == TD_BLOCK_pair; v += TD_VBYTES == 64 ? 1 : 2)
            __builtin_prefetch(td_block_pair_at(t, p + TD_PAIR_AHEAD, v));
        for (int v = 0; v < nv && fetches; v += 64 / TD_VBYTES)
            __builtin_prefetch((const float *)t->b + (p + TD_WIDE_AHEAD) * t->ldb + v * TD_LANES);
        for (int i = 0; i < 2 && reads == TD_BLOCK_ahead; i++)
            __builtin_prefetch(t->ahead.at[i] + p * t->ahead.step, 0, 2);
#pragma GCC unroll 8
        for (int v = 0; v < nv; v++)
            b[v] = reads == TD_BLOCK_part && v == nv - 1
                       ? td_block_load(t, (const float *)t->b + p * t->ldb, v, nv)
                   : reads == TD_BLOCK_pair
                       ? td_load(td_block_pair_at(t, p, v))
                       : td_gemm_load(t->b, p * t->ldb + v * TD_LANES, td_step_reads(step));
#pragma GCC unroll 16
        for (int i = 0; i < mr; i++) {
            td_vf a = td_block_spread(t->a + i * t->lda + p, step);
#pragma GCC unroll 8
            for (int v = 0; v < nv; v++)
                acc[i][v] = td_block_step(acc[i][v], a, b[v], step);
        }
    }
    bool whole = t->cols >= nv * TD_LANES;
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 8
        for (int v = 0; v < nv; v++) {
            float *c = t->c + i * t->ldc + v * TD_LANES;
            if (whole || v < nv - 1)
                td_store(c, acc[i][v]);
            else
                td_store_n(c, t->cols - v * TD_LANES, acc[i][v]);
        }
}

/* Of whole vectors, by reads, with t->ahead where that is set; or TD_BLOCK_part. */
TD_INLINE void td_block_run(const struct td_block *t, const int mr, const int nv,
                            const enum td_step step, const enum td_block_reads reads)
{
    if (reads == TD_BLOCK_whole && step == TD_STEP_f32 && nv == 2 && t->ahead.at[0])
        td_block_sums(t, mr, nv, step, TD_BLOCK_ahead);
    else
        td_block_sums(t, mr, nv, step, reads);
}

/* As many of the rows as one block of nv vectors takes; says how many. */
TD_INLINE int64_t td_block_rows(const struct td_block *t, int64_t rows, const int nv,
                                const enum td_step step, const enum td_block_reads reads)
{
    const bool every = step == TD_STEP_f32;
    int64_t height = every           ? td_even_block(rows, TD_MR)
                     : rows >= TD_MR ? TD_MR
                     : rows >= 8     ? 8
                     : rows >= 4     ? 4
                     : rows >= 2     ? 2
                                     : 1;
    switch (height) {
#define HEIGHT(mr, has)                                                                            \
    case mr:                                                                                       \
        if (mr <= TD_MR && (has || every))                                                         \
            td_block_run(t, mr <= TD_MR ? mr : TD_MR, nv, step, reads);                            \
        break;
        HEIGHT(1, true)
        HEIGHT(2, true)
        HEIGHT(3, false)
        HEIGHT(4, true)
        HEIGHT(5, false)
        HEIGHT(6, TD_MR == 6)
        HEIGHT(7, false)
        HEIGHT(8, true)
        HEIGHT(9, false)
        HEIGHT(10, false)
        HEIGHT(11, false)
        HEIGHT(12, true)
#undef HEIGHT
    }
    return height;
}

/* Rows that a block of two panels, four vectors, has room for. Few rows of two vectors have too few
 * sums: each has to wait for its last one. */
#define TD_PAIR_ROWS (TD_VBYTES == 64 ? 6 : 3)

/* Up to TD_PAIR_ROWS rows of two whole panels, of FP32. */
TD_INLINE void td_block_pair(struct td_block *t, int64_t rows)
{
    t->cols = 2 * TD_NR;
    switch (rows) {
#define ROWS(mr)                                                                                   \
    case mr:                                                                                       \
        td_block_sums(t, mr < TD_PAIR_ROWS ? mr : TD_PAIR_ROWS, 4, TD_STEP_f32, TD_BLOCK_pair);    \
        break;
        ROWS(1)
        ROWS(2)
        ROWS(3)
        ROWS(4)
        ROWS(5)
        ROWS(6)
#undef ROWS
    }
}

/* rows x cols of c, which end in vector nv. */
TD_INLINE void td_block_vectors(struct td_block t, int64_t rows, int64_t cols, const int nv,
                                const enum td_step step, const enum td_block_reads reads)
{
    t.cols = cols;
    for (int64_t done; rows > 0; rows -= done, t.a += done * t.lda, t.c += done * t.ldc) {
        done = td_block_rows(&t, rows, nv, step, reads);
        for (int i = 0; i < 2 && t.ahead.at[0]; i++)
            t.ahead.at[i] += t.ahead.share;
        t.bias = t.bias ? t.bias + done * t.bias_i : NULL;
    }
}

/* The same, cols <= TD_NR: of both vectors of b's rows, or of the first where that is all. */
TD_INLINE void td_block_column(struct td_block t, int64_t rows, int64_t cols,
                               const enum td_step step)
{
    if (cols > TD_LANES)
        td_block_vectors(t, rows, cols, 2, step, TD_BLOCK_whole);
    else
        td_block_vectors(t, rows, cols, 1, step, TD_BLOCK_whole);
}

/* The same of FP32 b, of which nothing beyond the columns may be read. */
TD_INLINE void td_block_edge(struct td_block t, int64_t rows, int64_t cols)
{
    if (cols > TD_LANES)
        td_block_vectors(t, rows, cols, 2, TD_STEP_f32, TD_BLOCK_part);
    else
        td_block_vectors(t, rows, cols, 1, TD_STEP_f32, TD_BLOCK_part);
}

/* ---- sums along k ---- */

/* The lanes' sums of four vectors. */
TD_INLINE void td_sum4(float to[4], td_vf a, td_vf b, td_vf c, td_vf d)
{
    typedef float quad __attribute__((vector_size(16)));
    td_vf v[4] = {a, b, c, d};
    quad sum[4];
    for (int i = 0; i < 4; i++) {
        quad part[TD_LANES / 4];
        memcpy(part, &v[i], sizeof part);
        sum[i] = part[0];
        for (int j = 1; j < TD_LANES / 4; j++)
            sum[i] += part[j];
    }
    typedef int32_t quad_i __attribute__((vector_size(16)));
    quad ab = __builtin_shuffle(sum[0], sum[1], (quad_i){0, 4, 1, 5}) +
              __builtin_shuffle(sum[0], sum[1], (quad_i){2, 6, 3, 7});
    quad cd = __builtin_shuffle(sum[2], sum[3], (quad_i){0, 4, 1, 5}) +
              __builtin_shuffle(sum[2], sum[3], (quad_i){2, 6, 3, 7});
    quad all = __builtin_shuffle(ab, cd, (quad_i){0, 1, 4, 5}) +
               __builtin_shuffle(ab, cd, (quad_i){2, 3, 6, 7});
    memcpy(to, &all, sizeof all);
}

/* c[mr][nr] = a[mr][k] * b's nr columns, each a run of k. nr is a multiple of 4, or 1. */
TD_INLINE void td_dot_run(const struct td_block *t, const int mr, const int nr,
                          const enum td_dtype type)
{
    td_vf acc[4][8], a[4];
    int64_t p = 0;
#pragma GCC unroll 4
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 8
        for (int j = 0; j < nr; j++)
            acc[i][j] = td_set(0);
    for (; p < t->k; p += TD_LANES) {
        int64_t left = t->k - p;
        bool whole = left >= TD_LANES;
#pragma GCC unroll 4
        for (int i = 0; i < mr; i++)
            a[i] =
                whole ? td_load(t->a + i * t->lda + p) : td_load_n(t->a + i * t->lda + p, left, 0);
#pragma GCC unroll 8
        for (int j = 0; j < nr; j++) {
            td_vf b = whole ? td_gemm_load(t->b, j * t->ldb + p, type)
                            : td_gemm_load_n(t->b, j * t->ldb + p, left, type);
#pragma GCC unroll 4
            for (int i = 0; i < mr; i++)
                acc[i][j] = td_fma(a[i], b, acc[i][j]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < mr; i++)
        if (nr == 1)
            t->c[i * t->ldc] = td_hsum(acc[i][0]);
        else
#pragma GCC unroll 2
            for (int j = 0; j < nr; j += 4)
                td_sum4(t->c + i * t->ldc + j, acc[i][j], acc[i][j + 1], acc[i][j + 2],
                        acc[i][j + 3]);
}

TD_INLINE void td_dot_rows(const struct td_block *t, int64_t rows, const int nr,
                           const enum td_dtype type)
{
    if (rows == 1)
        td_dot_run(t, 1, nr, type);
    else if (rows == 2)
        td_dot_run(t, 2, nr, type);
    else
        td_dot_run(t, 3, nr, type);
}

#endif
