/* The block of a product in AMX tiles: 32 x 32 sums in four tiles, fed by two of a and two of b,
 * 16 lanes of depth at a time. At the edges the tiles are configured smaller, so nothing is read or
 * written that is not there; the depth comes filled up with zeros (td_gemm's pad), because another
 * depth would need another configuration, and loading one clears the sums.
 *
 * gcc 12's intrinsics do not tell the compiler what memory they read: a configuration or a row that
 * was just written may still be in registers, or gone. Each place says so itself. */
#ifndef TD_KERNELS_GEMM_TILES_H
#define TD_KERNELS_GEMM_TILES_H

#include "kernels/gemm/gemm_block.h"

#define TD_TILES_ROWS 32
#define TD_TILES_COLS 32
#define TD_TILES_DEPTH 16

enum td_tiles_step { /* a's type, then b's */
                     TD_TILES_bf16,
                     TD_TILES_i8i8,
                     TD_TILES_i8u8,
                     TD_TILES_u8i8,
                     TD_TILES_u8u8,
};

struct td_tiles { /* what this thread's tiles are configured for; 0, 0: nothing */
    int64_t rows, cols;
};

/* Tiles 0 1 / 2 3 hold the sums, 4 and 5 rows of a, 6 and 7 columns of b. */
static inline void td_tiles_configure(struct td_tiles *tiles, int64_t rows, int64_t cols)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16]; /* a row's, for each tile */
        uint8_t rows[16];
    } config;
    if (tiles->rows == rows && tiles->cols == cols)
        return;
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int i = 0; i < 2; i++) {
        int64_t some_rows = rows - 16 * i, some_cols = cols - 16 * i;
        uint8_t r = some_rows <= 0 ? 0 : some_rows < 16 ? (uint8_t)some_rows : 16;
        uint16_t c = some_cols <= 0 ? 0 : some_cols < 16 ? (uint16_t)(some_cols * 4) : 64;
        for (int other = 0; other < 2; other++) {
            config.rows[2 * i + other] = r;
            config.bytes[2 * other + i] = c;
        }
        config.rows[4 + i] = r;
        config.bytes[4 + i] = r ? 64 : 0;
        config.rows[6 + i] = c ? TD_TILES_DEPTH : 0;
        config.bytes[6 + i] = c;
    }
    for (int i = 0; i < 4; i++) /* a tile with no rows has no columns either */
        if (!config.rows[i] || !config.bytes[i])
            config.rows[i] = 0, config.bytes[i] = 0;
    __asm__ volatile("" ::"m"(config));
    _tile_loadconfig(&config);
    tiles->rows = rows;
    tiles->cols = cols;
}

static inline void td_tiles_release(struct td_tiles *tiles)
{
    if (tiles->rows)
        _tile_release();
    *tiles = (struct td_tiles){0};
}

#define TD_TILES_MULTIPLY(sum, a, b)                                                               \
    switch (step) {                                                                                \
    case TD_TILES_bf16:                                                                            \
        _tile_dpbf16ps(sum, a, b);                                                                 \
        break;                                                                                     \
    case TD_TILES_i8i8:                                                                            \
        _tile_dpbssd(sum, a, b);                                                                   \
        break;                                                                                     \
    case TD_TILES_i8u8:                                                                            \
        _tile_dpbsud(sum, a, b);                                                                   \
        break;                                                                                     \
    case TD_TILES_u8i8:                                                                            \
        _tile_dpbusd(sum, a, b);                                                                   \
        break;                                                                                     \
    default:                                                                                       \
        _tile_dpbuud(sum, a, b);                                                                   \
    }

/* One block, at most 32 x 32. */
TD_INLINE void td_tiles_block(const struct td_block *t, int64_t rows, int64_t cols,
                              const enum td_tiles_step step)
{
    const bool low = rows > 16, right = cols > 16;
    const int64_t row = t->ldc * 4, row_a = t->lda * 4, row_b = t->ldb * 4;
    float *c0 = t->c, *c1 = t->c + 16 * t->ldc;
    __asm__ volatile("" ::: "memory");
    _tile_zero(0);
    if (right)
        _tile_zero(1);
    if (low)
        _tile_zero(2);
    if (low && right)
        _tile_zero(3);
    if (t->add) {
        _tile_loadd(0, c0, row);
        if (right)
            _tile_loadd(1, c0 + 16, row);
        if (low)
            _tile_loadd(2, c1, row);
        if (low && right)
            _tile_loadd(3, c1 + 16, row);
    }
    for (int64_t p = 0; p < t->k; p += TD_TILES_DEPTH) {
        const float *a = t->a + p, *b = (const float *)t->b + p * t->ldb;
        _tile_loadd(4, a, row_a);
        _tile_stream_loadd(6, b, row_b);
        TD_TILES_MULTIPLY(0, 4, 6);
        if (right) {
            _tile_stream_loadd(7, b + 16, row_b);
            TD_TILES_MULTIPLY(1, 4, 7);
        }
        if (low) {
            _tile_loadd(5, a + 16 * t->lda, row_a);
            TD_TILES_MULTIPLY(2, 5, 6);
        }
        if (low && right)
            TD_TILES_MULTIPLY(3, 5, 7);
    }
    _tile_stored(0, c0, row);
    if (right)
        _tile_stored(1, c0 + 16, row);
    if (low)
        _tile_stored(2, c1, row);
    if (low && right)
        _tile_stored(3, c1 + 16, row);
    __asm__ volatile("" ::: "memory");
}

/* rows x cols of c, cols <= 32. */
TD_INLINE void td_tiles_column(struct td_tiles *tiles, struct td_block t, int64_t rows,
                               int64_t cols, const enum td_tiles_step step)
{
    for (; rows > 0; rows -= TD_TILES_ROWS) {
        int64_t some = rows < TD_TILES_ROWS ? rows : TD_TILES_ROWS;
        td_tiles_configure(tiles, some, cols);
        td_tiles_block(&t, some, cols, step);
        t.a += some * t.lda;
        t.c += some * t.ldc;
    }
}

#endif
