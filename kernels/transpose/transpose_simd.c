/* transpose and permute, vector form, for every element size. The output's dimensions are folded
 * where the input walks them as one; then either the innermost runs are contiguous on both sides
 * and are copied, or there is a plane: the output's last dimension, which strides through the
 * input, and the one that is contiguous in the input. A plane is cut into blocks that stay in L1
 * with their pages in the TLB, a block into tiles of whole cache lines, and tiles of 4-byte
 * elements turn in registers. */
#include "kernels/kernels.h"
#include "kernels/vec.h"

#define BLOCK 64 /* elements a side: a multiple of any TD_LANES */

struct job {
    const char *in;
    char *out;
    int64_t size;               /* bytes an element */
    int rank;                   /* of the dimensions outside of the run or plane */
    int64_t shape[TD_MAX_RANK]; /* theirs, and their steps in elements */
    int64_t in_step[TD_MAX_RANK], out_step[TD_MAX_RANK];
    int64_t rows, cols; /* plane: out[r * out_row + c] = in[r + c * in_col] */
    int64_t out_row, in_col;
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

#define DEFINE_BLOCK(type)                                                                         \
    static void block_##type(type *out, int64_t out_row, const type *in, int64_t in_col,           \
                             int64_t rows, int64_t cols)                                           \
    {                                                                                              \
        for (int64_t r = 0; r < rows; r++)                                                         \
            for (int64_t c = 0; c < cols; c++)                                                     \
                out[r * out_row + c] = in[r + c * in_col];                                         \
    }
DEFINE_BLOCK(uint8_t)
DEFINE_BLOCK(uint16_t)
DEFINE_BLOCK(uint32_t)
DEFINE_BLOCK(uint64_t)

/* A block in squares of one cache line a side, in tiles; the ragged rest one by one. */
static void block_tiled(uint32_t *out, int64_t out_row, const uint32_t *in, int64_t in_col,
                        int64_t rows, int64_t cols)
{
    int64_t r = rows - rows % TD_LANES, c = cols - cols % TD_LANES;
    for (int64_t r0 = 0; r0 < r; r0 += 16)
        for (int64_t c0 = 0; c0 < c; c0 += 16)
            for (int64_t i = r0; i < r0 + 16 && i < r; i += TD_LANES)
                for (int64_t j = c0; j < c0 + 16 && j < c; j += TD_LANES)
                    td_transpose(out + i * out_row + j, out_row, in + i + j * in_col, in_col);
    if (c < cols)
        block_uint32_t(out + c, out_row, in + c * in_col, in_col, r, cols - c);
    if (r < rows)
        block_uint32_t(out + r * out_row, out_row, in + r, in_col, rows - r, cols);
}

static void planes(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    int64_t down = (job->rows + BLOCK - 1) / BLOCK, across = (job->cols + BLOCK - 1) / BLOCK;
    for (int64_t i = begin; i < end; i++) {
        int64_t at_in, at_out, r = i / across % down * BLOCK, c = i % across * BLOCK;
        place(job, i / across / down, &at_in, &at_out);
        int64_t rows = job->rows - r < BLOCK ? job->rows - r : BLOCK;
        int64_t cols = job->cols - c < BLOCK ? job->cols - c : BLOCK;
        const void *in = job->in + (at_in + r + c * job->in_col) * job->size;
        void *out = job->out + (at_out + r * job->out_row + c) * job->size;
        switch (job->size) {
        case 1:
            block_uint8_t(out, job->out_row, in, job->in_col, rows, cols);
            break;
        case 2:
            block_uint16_t(out, job->out_row, in, job->in_col, rows, cols);
            break;
        case 4:
            block_tiled(out, job->out_row, in, job->in_col, rows, cols);
            break;
        default:
            block_uint64_t(out, job->out_row, in, job->in_col, rows, cols);
        }
    }
}

static void runs(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t in, out;
        place(job, i, &in, &out);
        memcpy(job->out + out * job->size, job->in + in * job->size,
               (size_t)(job->cols * job->size));
    }
}

/* The output's dimensions in order, with their steps, folded. */
static void fold(struct job *job, const struct td_call *call, const int *dims)
{
    const struct td_tensor *t = &call->arg[0].tensor;
    int64_t step[TD_MAX_RANK], next = 1;
    for (int d = t->rank - 1; d >= 0; next *= t->shape[d--])
        step[d] = next;
    for (int d = 0; d < t->rank; d++) {
        int64_t n = t->shape[dims[d]], s = step[dims[d]];
        int last = job->rank - 1;
        if (n == 1)
            continue;
        if (last >= 0 && job->in_step[last] == s * n) {
            job->shape[last] *= n;
            job->in_step[last] = s;
        } else {
            job->shape[job->rank] = n;
            job->in_step[job->rank++] = s;
        }
    }
    next = 1;
    for (int d = job->rank - 1; d >= 0; next *= job->shape[d--])
        job->out_step[d] = next;
}

static void permute(const struct td_call *call, const int *dims)
{
    struct job job = {.in = call->arg[0].tensor.data,
                      .out = call->out[0].data,
                      .size = (int64_t)td_dtype_size(call->out[0].dtype),
                      .rows = 1,
                      .cols = 1};
    int64_t total = td_numel(&call->out[0]);
    if (!total)
        return;
    fold(&job, call, dims);
    if (job.rank) { /* the last dimension leaves the outer ones */
        job.cols = job.shape[--job.rank];
        job.in_col = job.in_step[job.rank];
    }
    if (job.in_col <= 1) {
        td_parallel(call->threads, total / job.cols, 1 + 65536 / (job.cols * job.size), runs, &job);
        return;
    }
    int d = 0; /* and so does the one that is contiguous in the input */
    while (job.in_step[d] != 1)
        d++;
    job.rows = job.shape[d];
    job.out_row = job.out_step[d];
    for (job.rank--; d < job.rank; d++) {
        job.shape[d] = job.shape[d + 1];
        job.in_step[d] = job.in_step[d + 1];
        job.out_step[d] = job.out_step[d + 1];
    }
    int64_t down = (job.rows + BLOCK - 1) / BLOCK, across = (job.cols + BLOCK - 1) / BLOCK;
    int64_t blocks = total / (job.rows * job.cols) * down * across;
    td_parallel(call->threads, blocks, 1 + 32768 * blocks / total, planes, &job);
}

TD_KERNEL(transpose)
{
    int dims[TD_MAX_RANK], dim0 = (int)call->arg[1].i, dim1 = (int)call->arg[2].i;
    for (int d = 0; d < TD_MAX_RANK; d++)
        dims[d] = d == dim0 ? dim1 : d == dim1 ? dim0 : d;
    permute(call, dims);
}

TD_KERNEL(permute)
{
    int dims[TD_MAX_RANK];
    for (int d = 0; d < call->arg[1].ints.n; d++)
        dims[d] = (int)call->arg[1].ints.v[d];
    permute(call, dims);
}
