/* Calls of which some operands lie side by side along another dimension than the result: a
 * transposed matrix, an image with channels last beside one with channels first. Along a row each
 * element of such an operand is in another line. So the result is computed in blocks of several
 * rows: the operand's are laid out by squares that turn in registers, while their lines are in the
 * first-level cache, and rows follow one after the other. Compiled once, with base flags. */
#include "kernels/pointwise/walk.h"

#define RUN 128   /* bytes that a block takes of each of an operand's runs, */
#define ROWS 64   /* or so many elements */
#define SQUARE 16 /* columns are a multiple of this where that is possible */

struct block_walk {
    const struct td_point_walk *walk;
    td_point_turn *turn;
    int64_t rows, cols, down, across; /* of a block; blocks of one outer index */
    int64_t row_step;             /* from one row of a block to the next: the result's elements */
    bool joins;                   /* rows are whole, and all that is not turned lies so too */
    size_t slot[TD_FUSED_VALUES]; /* bytes an element of a row in the tiles before its own */
};

static int64_t blocks_of(int64_t n, int64_t block)
{
    return (n + block - 1) / block;
}

/* As many columns as have room; fewer rows, where that would be too few of them. */
static void size_blocks(struct block_walk *b)
{
    const struct td_point_walk *w = b->walk;
    int64_t across = w->shape[w->rank - 1], down = w->shape[w->turned];
    for (int k = 0; k < w->n_values; k++)
        if (w->value[k].turned && b->rows > RUN / (int64_t)w->value[k].size)
            b->rows = RUN / (int64_t)w->value[k].size;
    b->rows = down < b->rows ? down : b->rows;
    for (;; b->rows /= 2) {
        size_t bytes = 0;
        for (int k = 0; k < w->n_values; k++) {
            const struct td_point_value *v = &w->value[k];
            b->slot[k] = bytes;
            bytes += !v->tiled ? 0 : v->turned ? v->size * (size_t)b->rows : v->size;
        }
        b->cols = (int64_t)(TD_POINT_ROOM / bytes) / SQUARE * SQUARE;
        if (b->cols || b->rows == 1)
            break;
    }
    b->cols = b->cols > across ? across : b->cols;
    b->down = blocks_of(down, b->rows);
    b->across = blocks_of(across, b->cols);
    if (b->across > 1) { /* all of nearly the same width */
        int64_t even = blocks_of(blocks_of(across, b->across), SQUARE) * SQUARE;
        b->cols = even < b->cols ? even : b->cols;
    }
}

/* Where an operand stands at the block's first element: its index but along the last dimension and
 * the one that blocks go down is `outer`. */
static int64_t offset_of(const struct td_point_walk *w, const int64_t *step, int64_t outer)
{
    int64_t at = 0;
    for (int d = w->rank - 2; d >= 0; d--)
        if (d != w->turned) {
            at += outer % w->shape[d] * step[d];
            outer /= w->shape[d];
        }
    return at;
}

static void turn(const struct block_walk *b, const struct td_point_value *v, int64_t row,
                 int64_t col, int64_t rows, int64_t cols, char *tile)
{
    int64_t step = v->step[b->walk->rank - 1];
    const char *from = v->data + (row + col * step) * (int64_t)v->size;
    b->turn(&(struct td_point_plane){tile, from, b->cols, step, rows, cols, v->size});
}

static void run_block(const struct block_walk *b, int64_t outer, int64_t row, int64_t col,
                      char *const *tile)
{
    const struct td_point_walk *w = b->walk;
    const int last = w->rank - 1;
    int64_t rows = w->shape[w->turned] - row, cols = w->shape[last] - col, dense[TD_MAX_RANK],
            n = 1;
    char *at[TD_FUSED_VALUES];
    rows = rows < b->rows ? rows : b->rows;
    cols = cols < b->cols ? cols : b->cols;
    for (int d = last; d >= 0; n *= w->shape[d--])
        dense[d] = n;
    int64_t begin = offset_of(w, dense, outer) + row * b->row_step + col;
    for (int k = 0; k < w->n_values; k++)
        if (w->value[k].turned)
            turn(b, &w->value[k], offset_of(w, w->value[k].step, outer) + row, col, rows, cols,
                 tile[k]);
    int64_t at_once = b->joins ? rows : 1;
    for (int64_t r = 0; r < rows; r += at_once, begin += b->row_step) {
        for (int k = 0; k < w->n_values; k++) {
            const struct td_point_value *v = &w->value[k];
            at[k] = v->turned ? tile[k] + (size_t)(r * b->cols) * v->size
                              : td_point_at(w, v, begin, cols, tile[k]);
        }
        for (int k = 0; k < w->n_ops; k++)
            if (!w->value[w->op[k].out].constant)
                td_point_run_op(&w->op[k], at_once * cols, at);
    }
}

static void run_blocks(void *arg, int64_t begin, int64_t end)
{
    const struct block_walk *b = arg;
    const struct td_point_walk *w = b->walk;
    char tiles[TD_POINT_ROOM] __attribute__((aligned(64))), *tile[TD_FUSED_VALUES];
    for (int k = 0; k < w->n_values; k++) {
        const struct td_point_value *v = &w->value[k];
        tile[k] = tiles + b->slot[k] * (size_t)b->cols;
        if (v->constant && !v->made)
            td_point_copy(tile[k], v->data, b->cols, 0, v->size);
    }
    for (int k = 0; k < w->n_ops; k++)
        if (w->value[w->op[k].out].constant)
            td_point_run_op(&w->op[k], b->cols, tile);
    for (; begin < end; begin++) {
        int64_t row = begin % b->down * b->rows, col = begin / b->down % b->across * b->cols;
        run_block(b, begin / b->down / b->across, row, col, tile);
    }
}

/* Of the level of the rows, which the width of their vectors tells. */
static td_point_turn *turn_of(const struct td_point_walk *w)
{
    int64_t bytes = 0;
    for (int k = 0; k < w->n_ops; k++) {
        int64_t own = w->op[k].unit * (int64_t)td_dtype_size(w->op[k].args.type);
        bytes = own > bytes ? own : bytes;
    }
    return bytes >= 64   ? td_point_turn_avx512
           : bytes >= 32 ? td_point_turn_avx2
                         : td_point_turn_default;
}

void td_point_run_turned(const struct td_point_walk *w, int threads, int64_t grain)
{
    struct block_walk b = {.walk = w, .row_step = 1, .rows = ROWS};
    b.turn = turn_of(w);
    size_blocks(&b);
    for (int d = w->turned + 1; d < w->rank; d++)
        b.row_step *= w->shape[d];
    b.joins = b.across == 1 && w->turned == w->rank - 2;
    for (int k = 0; k < w->n_values; k++)
        b.joins = b.joins && (w->value[k].turned || w->value[k].dense);
    int64_t outer = td_numel(w->out) / w->shape[w->turned] / w->shape[w->rank - 1];
    td_parallel_brief(threads, outer * b.down * b.across, grain / (b.rows * b.cols) + 1, run_blocks,
                      &b);
}
