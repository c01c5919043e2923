/* A block of a product's result held in registers, FP32 and BF16: the heart of gemm_simd.h, which
 * says how it is used. TD_MR rows of two vectors, where each vector of b that is loaded serves all
 * rows and each element of a both vectors. */
#ifndef TD_KERNELS_GEMM_BLOCK_H
#define TD_KERNELS_GEMM_BLOCK_H

#include "kernels/half.h"
#include "kernels/vec.h"

#if TD_VBYTES == 64
#define TD_MR 12
#else
#define TD_MR 6
#endif
#define TD_NR (2 * TD_LANES)

/* ---- elements of either type, as FP32 ---- */

TD_INLINE td_vf td_gemm_load(const void *p, int64_t i, bool half)
{
    td_vh h;
    if (!half)
        return td_load((const float *)p + i);
    memcpy(&h, (const uint16_t *)p + i, sizeof h);
    return td_widen_bf16(h);
}

/* The first n of a vector, 0 < n <= TD_LANES; zeros beyond. */
TD_INLINE td_vf td_gemm_load_n(const void *p, int64_t i, int64_t n, bool half)
{
    td_vh h = {0};
    if (n >= TD_LANES)
        return td_gemm_load(p, i, half);
    if (!half)
        return td_load_n((const float *)p + i, n, 0);
    td_copy_few(&h, (const uint16_t *)p + i, n, 2);
    return td_widen_bf16(h);
}

/* ---- the register block ---- */

struct td_block {
    int64_t k;
    const float *a; /* rows of it, lda apart */
    const void *b;  /* rows of it, ldb apart: a panel, or the matrix itself */
    float *c;
    int64_t lda, ldb, ldc;
    bool add; /* to what c holds */
};

/* c[mr][nv vectors] (+)= a[mr][k] * b[k][nv vectors] */
TD_INLINE void td_block_run(const struct td_block *t, const int mr, const int nv, const bool half)
{
    td_vf acc[TD_MR][8], b[8];
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 8
        for (int v = 0; v < nv; v++)
            acc[i][v] = t->add ? td_load(t->c + i * t->ldc + v * TD_LANES) : td_set(0);
    for (int64_t p = 0; p < t->k; p++) {
#pragma GCC unroll 8
        for (int v = 0; v < nv; v++)
            b[v] = td_gemm_load(t->b, p * t->ldb + v * TD_LANES, half);
#pragma GCC unroll 16
        for (int i = 0; i < mr; i++) {
            td_vf a = td_set(t->a[i * t->lda + p]);
#pragma GCC unroll 8
            for (int v = 0; v < nv; v++)
                acc[i][v] = td_fma(a, b[v], acc[i][v]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 8
        for (int v = 0; v < nv; v++)
            td_store(t->c + i * t->ldc + v * TD_LANES, acc[i][v]);
}

/* As many of the rows as one block takes; says how many. */
TD_INLINE int64_t td_block_rows(const struct td_block *t, int64_t rows, const bool half)
{
    if (rows >= TD_MR) {
        td_block_run(t, TD_MR, 2, half);
        return TD_MR;
    }
#if TD_MR > 8
    if (rows >= 8) {
        td_block_run(t, 8, 2, half);
        return 8;
    }
#endif
    if (rows >= 4) {
        td_block_run(t, 4, 2, half);
        return 4;
    }
    if (rows >= 2) {
        td_block_run(t, 2, 2, half);
        return 2;
    }
    td_block_run(t, 1, 2, half);
    return 1;
}

/* Moves the first cols of a block's rows. */
static inline void td_block_move(float *to, int64_t ldt, const float *from, int64_t ldf,
                                 int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++)
        memcpy(to + i * ldt, from + i * ldf, (size_t)cols * sizeof *to);
}

/* rows x cols of c, cols <= TD_NR; where fewer, the block goes by way of the stack. */
TD_INLINE void td_block_column(struct td_block t, int64_t rows, int64_t cols, const bool half)
{
    float edge[TD_MR * TD_NR] __attribute__((aligned(64)));
    float *c = t.c;
    int64_t ldc = t.ldc, done;
    for (; rows > 0; rows -= done, t.a += done * t.lda, c += done * ldc) {
        int64_t some = rows < TD_MR ? rows : TD_MR;
        t.c = c;
        if (cols < TD_NR) {
            t.c = edge, t.ldc = TD_NR;
            if (t.add)
                td_block_move(edge, TD_NR, c, ldc, some, cols);
        }
        done = td_block_rows(&t, some, half);
        if (cols < TD_NR)
            td_block_move(c, ldc, edge, TD_NR, done, cols);
    }
}

static __attribute__((noinline)) void td_column_f32(struct td_block t, int64_t rows, int64_t cols)
{
    td_block_column(t, rows, cols, false);
}

static __attribute__((noinline)) void td_column_bf16(struct td_block t, int64_t rows)
{
    td_block_column(t, rows, TD_NR, true);
}

#endif
