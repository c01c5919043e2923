/* Calls of which some operands' elements are apart along a row of the result. Most lie side by side
 * along another dimension: a transposed matrix, an image with channels last beside one with
 * channels first; along a row each element is in another line. So the result is computed in blocks
 * of several rows: the operand's part of a block is transposed into a tile, by squares in
 * registers, while its lines are in the first-level cache, or laid out there row by row; and then
 * the block's rows are computed, by a generated loop where there is one. Compiled once, with base
 * flags. */
#include "kernels/pointwise/walk.h"

#include <assert.h>

#define RUN 128   /* bytes that a block takes of each of an operand's runs, */
#define ROWS 64   /* or so many elements */
#define SQUARE 16 /* columns are a multiple of this where that is possible */
#define LINE 64   /* tiles begin with one */

struct block_walk {
    const struct td_point_walk *walk;
    int64_t rows, cols, n_down, n_across; /* of a block; blocks of one outer index */
    int64_t dense[TD_MAX_RANK];           /* the result's steps, in elements */
    bool joins;                   /* rows are whole, and all that is not apart lies so too */
    size_t tile[TD_FUSED_VALUES]; /* where each value's tile begins in the room */
};

static int64_t blocks_of(int64_t n, int64_t block)
{
    return (n + block - 1) / block;
}

/* Bytes that the value's tile takes for each column: a loop reads all that is not apart where it
 * lies. */
static size_t tile_of(const struct block_walk *b, const struct td_point_value *v)
{
    if (v->apart)
        return v->size * (size_t)b->rows;
    return v->tiled && !b->walk->code ? v->size : 0;
}

/* As many columns as have room; fewer rows, where that would be too few of them. */
static void size_blocks(struct block_walk *b)
{
    const struct td_point_walk *w = b->walk;
    const int64_t across = w->shape[w->rank - 1], down = w->shape[w->down];
    b->rows = down < ROWS ? down : ROWS;
    for (int k = 0; k < w->n_values; k++)
        if (w->value[k].apart && b->rows > RUN / (int64_t)w->value[k].size)
            b->rows = RUN / (int64_t)w->value[k].size;
    for (;; b->rows /= 2) {
        size_t bytes = 0, lines = 0;
        for (int k = 0; k < w->n_values; k++) {
            bytes += tile_of(b, &w->value[k]);
            lines += tile_of(b, &w->value[k]) != 0;
        }
        b->cols = (int64_t)((TD_POINT_ROOM - lines * LINE) / bytes) / SQUARE * SQUARE;
        if (b->cols || b->rows == 1)
            break;
    }
    assert(b->cols); /* all values of 8 bytes have room for 24 columns */
    b->cols = b->cols > across ? across : b->cols;
    b->n_down = blocks_of(down, b->rows);
    b->n_across = blocks_of(across, b->cols);
    if (b->n_across > 1) { /* all of nearly the same width */
        int64_t even = blocks_of(blocks_of(across, b->n_across), SQUARE) * SQUARE;
        b->cols = even < b->cols ? even : b->cols;
    }
}

static void place_tiles(struct block_walk *b)
{
    size_t at = 0;
    for (int k = 0; k < b->walk->n_values; k++) {
        b->tile[k] = at;
        at += (tile_of(b, &b->walk->value[k]) * (size_t)b->cols + LINE - 1) / LINE * LINE;
    }
}

struct block {
    int64_t outer; /* the index in all dimensions but the last and the one that blocks go down */
    int64_t row, col, rows, cols;
};

/* Where a value with these steps stands at the block's first element. */
static int64_t offset_of(const struct td_point_walk *w, const int64_t *step,
                         const struct block *block)
{
    const int last = w->rank - 1;
    int64_t at = block->row * step[w->down] + block->col * step[last], outer = block->outer;
    for (int d = last - 1; d >= 0; d--)
        if (d != w->down) {
            at += outer % w->shape[d] * step[d];
            outer /= w->shape[d];
        }
    return at;
}

static void lay_out(const struct block_walk *b, const struct td_point_value *v,
                    const struct block *block, char *tile)
{
    const struct td_point_walk *w = b->walk;
    const int64_t size = (int64_t)v->size, step = v->step[w->rank - 1];
    const char *from = v->data + offset_of(w, v->step, block) * size;
    if (v->step[w->down] == 1) {
        w->turn(
            &(struct td_point_plane){tile, from, b->cols, step, block->rows, block->cols, v->size});
        return;
    }
    for (int64_t r = 0; r < block->rows; r++)
        td_point_copy(tile + r * b->cols * size, from + r * v->step[w->down] * size, block->cols,
                      step, v->size);
}

static void run_code(const struct block_walk *b, const struct block *block, char *const *tile)
{
    const struct td_point_walk *w = b->walk;
    int64_t row_step[TD_FUSED_VALUES];
    char *at[TD_FUSED_VALUES];
    for (int k = 0; k < w->n_values; k++) {
        const struct td_point_value *v = &w->value[k];
        const int64_t *step = v->made ? b->dense : v->step;
        row_step[k] = v->apart ? b->cols : step[w->down];
        at[k] = v->apart  ? tile[k]
                : v->data ? v->data + offset_of(w, step, block) * (int64_t)v->size
                          : NULL;
    }
    td_point_run_block(w, at, row_step, block->cols, block->rows);
}

static void run_rows(const struct block_walk *b, const struct block *block, char *const *tile)
{
    const struct td_point_walk *w = b->walk;
    int64_t begin = offset_of(w, b->dense, block), at_once = b->joins ? block->rows : 1;
    char *at[TD_FUSED_VALUES];
    for (int64_t r = 0; r < block->rows; r += at_once, begin += b->dense[w->down]) {
        for (int k = 0; k < w->n_values; k++) {
            const struct td_point_value *v = &w->value[k];
            at[k] = v->apart ? tile[k] + (size_t)(r * b->cols) * v->size
                             : td_point_at(w, v, begin, block->cols, tile[k]);
        }
        for (int k = 0; k < w->n_ops; k++)
            if (!w->value[w->op[k].out].constant)
                td_point_run_op(&w->op[k], at_once * block->cols, at);
    }
}

/* The elements that are the same for all blocks, for rows. */
static void lay_constants(const struct block_walk *b, char *const *tile)
{
    const struct td_point_walk *w = b->walk;
    for (int k = 0; k < w->n_values; k++) {
        const struct td_point_value *v = &w->value[k];
        if (v->constant && !v->made)
            td_point_copy(tile[k], v->data, b->cols, 0, v->size);
    }
    for (int k = 0; k < w->n_ops; k++)
        if (w->value[w->op[k].out].constant)
            td_point_run_op(&w->op[k], b->cols, tile);
}

static void run_blocks(void *arg, int64_t begin, int64_t end)
{
    const struct block_walk *b = arg;
    const struct td_point_walk *w = b->walk;
    char tiles[TD_POINT_ROOM] __attribute__((aligned(LINE))), *tile[TD_FUSED_VALUES];
    for (int k = 0; k < w->n_values; k++)
        tile[k] = tiles + b->tile[k];
    if (!w->code)
        lay_constants(b, tile);
    for (; begin < end; begin++) {
        struct block block = {.outer = begin / b->n_down / b->n_across,
                              .row = begin % b->n_down * b->rows,
                              .col = begin / b->n_down % b->n_across * b->cols};
        int64_t rows = w->shape[w->down] - block.row, cols = w->shape[w->rank - 1] - block.col;
        block.rows = rows < b->rows ? rows : b->rows;
        block.cols = cols < b->cols ? cols : b->cols;
        for (int k = 0; k < w->n_values; k++)
            if (w->value[k].apart)
                lay_out(b, &w->value[k], &block, tile[k]);
        (w->code ? run_code : run_rows)(b, &block, tile);
    }
}

void td_point_run_blocks(const struct td_point_walk *w, int threads, int64_t grain)
{
    struct block_walk b = {.walk = w};
    int64_t n = 1;
    for (int d = w->rank - 1; d >= 0; n *= w->shape[d--])
        b.dense[d] = n;
    size_blocks(&b);
    place_tiles(&b);
    b.joins = b.n_across == 1 && w->down == w->rank - 2;
    for (int k = 0; k < w->n_values; k++)
        b.joins = b.joins && (w->value[k].apart || w->value[k].dense);
    int64_t outer = n / w->shape[w->down] / w->shape[w->rank - 1];
    td_parallel_brief(threads, outer * b.n_down * b.n_across, grain / (b.rows * b.cols) + 1,
                      run_blocks, &b);
}
