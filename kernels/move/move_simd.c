/* Moves, vector form, for every element size. A box's dimensions are folded where both sides walk
 * them as one; then either the innermost run is copied, spread or picked, or there is a plane: the
 * result's last dimension, which strides through the input, and one that is contiguous there. A
 * plane is cut into blocks that stay in L1 with their pages in the TLB, and elements of 4 bytes
 * into larger ones, through which squares of whole cache lines go along the longer side: so there
 * are few pages and sets at a time, and the processor sees which lines come next. A square turns in
 * registers. */
#include "kernels/copy.h"
#include "kernels/move/move.h"
#include "kernels/move/move_few.h"
#include "kernels/move/move_reverse.h"
#include "kernels/move/move_run.h"
#include "kernels/planes.h"
#include "kernels/vec.h"

#include <string.h>

#define BLOCK 64 /* elements a side */
#define SIDE 16  /* of a square: a multiple of any TD_LANES */
#define LONG 256 /* rows, which squares go down; through fewer they go across, */
#define ALIAS                                                                                      \
    2048 /* and where lines that are written in parts lie so far apart: sets hold few of them */
#define FEW 8 /* columns, which go one after the other */

struct job {
    const char *in;
    char *out;
    int64_t size;               /* bytes an element */
    int rank;                   /* of the dimensions outside of the run or plane */
    int64_t shape[TD_BOX_RANK]; /* theirs, and their steps in elements */
    int64_t in_step[TD_BOX_RANK], out_step[TD_BOX_RANK];
    int64_t rows, cols; /* plane: out[r * out_row + c] = in[r + c * in_col] */
    int64_t out_row, in_col;
    int64_t block_rows, block_cols;
    bool down;       /* squares go down a block, else across it */
    int64_t out_col; /* of a run */
};

/* The input's and the output's position of the i-th outer combination, in elements. */
static void place(const struct job *job, int64_t i, int64_t *in, int64_t *out)
{
    *in = *out = 0;
    for (int d = job->rank - 1; d >= 0; d--) {
        int64_t k = d ? i % job->shape[d] : i;
        i /= job->shape[d];
        *in += k * job->in_step[d];
        *out += k * job->out_step[d];
    }
}

/* ---- planes ---- */

/* rows, cols: at most TD_LANES. */
TD_INLINE void turn_part(uint32_t *out, int64_t out_row, const uint32_t *in, int64_t in_col,
                         int64_t rows, int64_t cols)
{
    td_vu row[TD_LANES];
    if (TD_LANES < FEW && rows * cols < TD_LANES * TD_LANES) {
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < cols; c++)
                out[r * out_row + c] = in[r + c * in_col];
        return;
    }
    for (int i = 0; i < TD_LANES; i++)
        row[i] =
            i < cols ? (td_vu)td_load_next((const float *)in + i * in_col, rows, 0) : (td_vu){0};
    td_turn(row);
    for (int i = 0; i < TD_LANES; i++)
        if (i < rows)
            td_store_next((float *)out + i * out_row, cols, (td_vf)row[i]);
}

/* One that is narrower than a square. */
static void block_narrow(uint32_t *out, int64_t out_row, const uint32_t *in, int64_t in_col,
                         int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; r += TD_LANES)
        for (int64_t c = 0; c < cols; c += TD_LANES)
            turn_part(out + r * out_row + c, out_row, in + r + c * in_col, in_col,
                      rows - r < TD_LANES ? rows - r : TD_LANES,
                      cols - c < TD_LANES ? cols - c : TD_LANES);
}

/* In squares; those at the end take some elements once more. */
static void block_squares(uint32_t *out, int64_t out_row, const uint32_t *in, int64_t in_col,
                          int64_t rows, int64_t cols, bool down)
{
    for (int64_t a = 0; a < (down ? cols : rows); a += SIDE)
        for (int64_t b = 0; b < (down ? rows : cols); b += SIDE) {
            int64_t r = down ? b : a, c = down ? a : b;
            r = r < rows - SIDE ? r : rows - SIDE;
            c = c < cols - SIDE ? c : cols - SIDE;
#pragma GCC unroll 1
            for (int64_t p = 0; p < SIDE; p += TD_LANES)
#pragma GCC unroll 1
                for (int64_t q = 0; q < SIDE; q += TD_LANES) {
                    int64_t i = r + (down ? q : p), j = c + (down ? p : q);
                    td_transpose(out + i * out_row + j, out_row, in + i + j * in_col, in_col);
                }
        }
}

static void block_few(const struct job *job, char *out, const char *in, int64_t rows, int64_t cols)
{
    for (; cols > 0; cols--, out += job->size, in += job->in_col * job->size)
        td_move_run(job->size, out, job->out_row, in, 1, rows);
}

/* Of n elements those behind squares that are taken one by one: a square more would take longer. */
static int64_t few_behind(int64_t n)
{
    return n % SIDE <= FEW / 2 ? n % SIDE : 0;
}

static void block_words(const struct job *job, void *out, const void *in, int64_t rows,
                        int64_t cols)
{
    uint32_t *to = out;
    const uint32_t *from = in;
    if (rows + cols > 4 * SIDE && td_few_turn(to, job->out_row, from, job->in_col, rows, cols))
        return;
    if (cols < FEW) {
        block_few(job, out, in, rows, cols);
        return;
    }
    if (rows <= FEW / 2 && TD_LANES != FEW) {
        for (int64_t i = 0; i < rows; i++)
            td_move_run_uint32_t(to + i * job->out_row, 1, from + i, job->in_col, cols);
        return;
    }
    if (rows < SIDE || cols < SIDE) {
        block_narrow(to, job->out_row, from, job->in_col, rows, cols);
        return;
    }
    int64_t r = rows - few_behind(rows), c = cols - few_behind(cols);
    block_squares(to, job->out_row, from, job->in_col, r, c, job->down);
    for (int64_t i = r; i < rows; i++)
        td_move_run_uint32_t(to + i * job->out_row, 1, from + i, job->in_col, c);
    for (int64_t j = c; j < cols; j++)
        td_move_run_uint32_t(to + j, job->out_row, from + j * job->in_col, 1, rows);
}

/* Of n elements of a side; the last one has what is left, too. */
static int64_t count_blocks(int64_t n, int64_t block)
{
    return n < block ? 1 : n / block;
}

static void planes(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    int64_t down = count_blocks(job->rows, job->block_rows);
    int64_t across = count_blocks(job->cols, job->block_cols);
    for (int64_t i = begin; i < end; i++) {
        int64_t at_in, at_out, row = i / across % down, col = i % across;
        place(job, i / across / down, &at_in, &at_out);
        int64_t r = row * job->block_rows, c = col * job->block_cols;
        int64_t rows = row < down - 1 ? job->block_rows : job->rows - r;
        int64_t cols = col < across - 1 ? job->block_cols : job->cols - c;
        const void *in = job->in + (at_in + r + c * job->in_col) * job->size;
        void *out = job->out + (at_out + r * job->out_row + c) * job->size;
        if (cols < FEW && job->size != 4) {
            block_few(job, out, in, rows, cols);
            continue;
        }
        switch (job->size) {
        case 1:
            td_turn_plane_1(out, job->out_row, in, job->in_col, rows, cols, job->down);
            break;
        case 2:
            td_turn_plane_2(out, job->out_row, in, job->in_col, rows, cols, job->down);
            break;
        case 4:
            block_words(job, out, in, rows, cols);
            break;
        default:
            td_turn_plane_8(out, job->out_row, in, job->in_col, rows, cols, job->down);
        }
    }
}

/* ---- runs ---- */

/* Runs before looking whether to stop: AT_ONCE, and as many more as have BYTES together. */
#define AT_ONCE 64
#define BYTES 16384
#define GRAIN 65536 /* bytes that are worth a thread */

/* n runs along the last dimension. */
static void run(const struct job *job, int64_t in, int64_t out, int64_t n)
{
    const char *from = job->in + in * job->size;
    char *to = job->out + out * job->size;
    int last = job->rank - 1;
    int64_t in_step = last < 0 ? 0 : job->in_step[last] * job->size;
    int64_t out_step = last < 0 ? 0 : job->out_step[last] * job->size;
    bool dense = job->in_col == 1 && job->out_col == 1;
    if (dense && td_copy_brief(to, out_step, from, in_step, n, job->cols * job->size))
        return;
    int64_t i = 0;
    if (job->in_col == -1 && job->out_col == 1)
        i = td_reverse_runs(to, out_step, from - (job->cols - 1) * job->size, in_step, n,
                            job->cols * job->size, (int)job->size);
    from += i * in_step;
    to += i * out_step;
    for (; i < n; i++, from += in_step, to += out_step)
        if (dense)
            td_copy_run(to, from, job->cols * job->size);
        else
            td_move_run(job->size, to, job->out_col, from, job->in_col, job->cols);
}

/* Runs [begin, end), walking the outer dimensions like an odometer. */
static void runs(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    int64_t index[TD_BOX_RANK], in, out, rest = begin, since = 0;
    int last = job->rank - 1;
    const int64_t at_once = AT_ONCE + BYTES / (job->cols * job->size);
    for (int d = last; d >= 0; rest /= job->shape[d--])
        index[d] = rest % job->shape[d];
    place(job, begin, &in, &out);
    for (int64_t i = begin, n; i < end; i += n) {
        int64_t left = last < 0 ? 1 : job->shape[last] - index[last];
        n = left < end - i ? left : end - i;
        n = n < at_once ? n : at_once;
        if ((since += n) >= at_once && td_stopped())
            return;
        since = since < at_once ? since : 0;
        run(job, in, out, n);
        for (int64_t d = last, step = n; d >= 0; d--, step = 1) {
            in += step * job->in_step[d];
            out += step * job->out_step[d];
            index[d] += step;
            if (index[d] < job->shape[d])
                break;
            in -= job->shape[d] * job->in_step[d];
            out -= job->shape[d] * job->out_step[d];
            index[d] = 0;
        }
    }
}

/* Elements [begin, end) of runs that are side by side on both sides, and so long that threads share
 * one. */
static void long_runs(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    for (int64_t n; begin < end && !td_stopped(); begin += n) {
        int64_t at = begin % job->cols, in, out;
        n = job->cols - at < end - begin ? job->cols - at : end - begin;
        place(job, begin / job->cols, &in, &out);
        td_copy_run(job->out + (out + at) * job->size, job->in + (in + at) * job->size,
                    n * job->size);
    }
}

/* ---- a piece ---- */

/* Leaves out dimensions of one element and folds those that both sides walk as one; the number of
 * elements. */
static int64_t fold(struct job *job, const struct td_piece *p)
{
    int64_t all = 1;
    for (int d = 0; d < p->box.rank; d++) {
        int64_t n = p->box.shape[d];
        int last = job->rank - 1;
        all = n ? all * n : 0;
        if (!n)
            return 0;
        if (n == 1)
            continue;
        if (last >= 0 && job->in_step[last] == p->box.stride[d] * n &&
            job->out_step[last] == p->stride[d] * n) {
            job->shape[last] *= n;
        } else {
            job->shape[++last] = n;
            job->rank++;
        }
        job->in_step[last] = p->box.stride[d];
        job->out_step[last] = p->stride[d];
    }
    return all;
}

static void take_out(struct job *job, int d)
{
    for (job->rank--; d < job->rank; d++) {
        job->shape[d] = job->shape[d + 1];
        job->in_step[d] = job->in_step[d + 1];
        job->out_step[d] = job->out_step[d + 1];
    }
}

/* Runs are copied along the shorter of two dimensions: the last one, in which they lie side by side
 * in the output, or the one in which they do in the input. The other side then is as many streams
 * as that is long, and the fewer there are the more of their lines stay in the caches. */
static void go_along_the_shorter(struct job *job)
{
    int last = job->rank - 1, near = -1;
    for (int d = 0; d < last; d++)
        if (job->in_step[d] > 0 && (near < 0 || job->in_step[d] < job->in_step[near]))
            near = d;
    if (near < 0 || job->in_step[near] >= job->in_step[last] ||
        job->shape[near] >= job->shape[last])
        return;
    int64_t n = job->shape[near], in = job->in_step[near], out = job->out_step[near];
    take_out(job, near);
    job->shape[last] = n;
    job->in_step[last] = in;
    job->out_step[last] = out;
    job->rank++;
}

void TD_NAME(move_piece)(const struct td_piece *p, int threads)
{
    int64_t size = (int64_t)td_dtype_size(p->out->dtype);
    struct job job = {.in = (const char *)p->box.from->data + p->box.offset * size,
                      .out = (char *)p->out->data + p->offset * size,
                      .size = size,
                      .rows = 1,
                      .cols = 1,
                      .in_col = 1,
                      .out_col = 1};
    int64_t total = fold(&job, p);
    if (!total)
        return;
    if (job.rank) { /* the last dimension leaves the outer ones */
        job.cols = job.shape[--job.rank];
        job.in_col = job.in_step[job.rank];
        job.out_col = job.out_step[job.rank];
    }
    int d = job.rank - 1; /* and so does one that is contiguous in the input, where there is one */
    while (d >= 0 && job.in_step[d] != 1)
        d--;
    if (d < 0 || job.in_col <= 1 || job.out_col != 1) {
        go_along_the_shorter(&job);
        bool is_long = job.in_col == 1 && job.out_col == 1 && job.cols * size >= GRAIN;
        if (is_long)
            td_parallel(threads, total, GRAIN / size, long_runs, &job);
        else
            td_parallel(threads, total / job.cols, 1 + GRAIN / (job.cols * size), runs, &job);
        return;
    }
    job.rows = job.shape[d];
    job.out_row = job.out_step[d];
    take_out(&job, d);
    job.down =
        job.rows >= LONG && !((TD_LANES < SIDE || size != 4) && job.out_row * size % ALIAS == 0);
    job.block_rows = size == 4 && job.down ? 16 * BLOCK : BLOCK;
    job.block_cols = size == 4 && !job.down ? 8 * BLOCK : BLOCK;
    if (TD_LANES >= 8 && size == 4 && job.rows < FEW)
        job.block_cols = 64 * BLOCK;
    int64_t blocks = total / (job.rows * job.cols) * count_blocks(job.rows, job.block_rows) *
                     count_blocks(job.cols, job.block_cols);
    td_parallel(threads, blocks, 1 + 32768 * blocks / total, planes, &job);
}

TD_KERNEL(move)
{
    const struct td_move *move = call->op->family;
    struct td_piece p;
    for (int i = 0; move->piece_at(call, i, &p) && !td_stopped(); i++) {
        td_layout_through(&p.box); /* as prepare has seen, it lies so */
        TD_NAME(move_piece)(&p, call->threads);
    }
}
