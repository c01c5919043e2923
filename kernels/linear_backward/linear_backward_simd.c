/* linear_backward, vector form, FP32: the level's products around a transposition and
 * sums of columns. Sums go on in doubles every RUN rows, so that long ones keep their digits.
 */
#include "kernels/backward.h"
#include "kernels/linear_backward/linear_backward.h"
#include "kernels/turn.h"
#include "kernels/vec.h"

#define BLOCK 64 /* elements a side: a multiple of any TD_LANES */
#define RUN 32

struct job {
    struct td_linear_backward l;
    const float *grad;
    float *turned, *bias;
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* turned[o, r] = grad[r, o] for one block, in tiles that turn in registers; the ragged rest one by
 * one. */
static void turn_block(const struct job *job, int64_t r0, int64_t o0)
{
    int64_t rows = job->l.rows, out = job->l.out;
    int64_t r1 = least(r0 + BLOCK, rows), o1 = least(o0 + BLOCK, out);
    for (int64_t o = o0; o < o1; o += TD_LANES)
        for (int64_t r = r0; r < r1; r += TD_LANES) {
            const float *from = job->grad + r * out + o;
            float *to = job->turned + o * rows + r;
            if (o + TD_LANES <= o1 && r + TD_LANES <= r1) {
                td_transpose((uint32_t *)to, rows, (const uint32_t *)from, out);
                continue;
            }
            for (int64_t i = 0; i < least(TD_LANES, o1 - o); i++)
                for (int64_t j = 0; j < least(TD_LANES, r1 - r); j++)
                    to[i * rows + j] = from[j * out + i];
        }
}

static void turn(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    int64_t across = (job->l.rows + BLOCK - 1) / BLOCK;
    for (int64_t i = begin; i < end; i++)
        turn_block(job, i % across * BLOCK, i / across * BLOCK);
}

/* Sums of BLOCK columns over count rows. The sums are vectors of a fixed number, so that they stay
 * in registers: in an array of any width they went through memory at each row. */
static void sum_rows(const float *from, int64_t stride, int64_t count, float *to)
{
    td_vf sum[BLOCK / TD_LANES];
    for (int k = 0; k < BLOCK / TD_LANES; k++)
        sum[k] = td_set(0);
    for (int64_t r = 0; r < count; r++)
        for (int k = 0; k < BLOCK / TD_LANES; k++)
            sum[k] += td_load(from + r * stride + k * TD_LANES);
    for (int k = 0; k < BLOCK / TD_LANES; k++)
        td_store(to + k * TD_LANES, sum[k]);
}

/* Blocks of columns of grad, summed row by row, so that memory is read in its order. */
static void columns(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    int64_t rows = job->l.rows, out = job->l.out;
    for (int64_t i = begin * BLOCK; i < out && i < end * BLOCK; i += BLOCK) {
        int64_t width = least(BLOCK, out - i);
        double total[BLOCK] = {0};
        for (int64_t r = 0; r < rows; r += RUN) {
            int64_t count = least(RUN, rows - r);
            const float *from = job->grad + r * out + i;
            float sum[BLOCK] = {0};
            if (width == BLOCK)
                sum_rows(from, out, count, sum);
            else
                for (int64_t k = 0; k < count; k++)
                    for (int64_t j = 0; j < width; j++)
                        sum[j] += from[k * out + j];
            for (int64_t j = 0; j < width; j++)
                total[j] += (double)sum[j];
        }
        for (int64_t j = 0; j < width; j++)
            job->bias[i + j] = (float)total[j];
    }
}

TD_KERNEL(linear_backward)
{
    struct job job = {.turned = call->scratch};
    struct td_gemm g;
    td_linear_backward_of(call, &job.l);
    int64_t down = (job.l.out + BLOCK - 1) / BLOCK, across = (job.l.rows + BLOCK - 1) / BLOCK;
    job.grad = job.l.grad->data;
    if (td_wants(call, 0)) {
        td_linear_backward_self(call, &g);
        TD_NAME(gemm)(&g, call->scratch);
    }
    if (td_wants(call, 1)) {
        struct td_tensor turned = *job.l.grad;
        turned.data = job.turned;
        td_parallel(call->threads, down * across, 4, turn, &job);
        td_linear_backward_weight(call, &turned, &g);
        TD_NAME(gemm)(&g, (char *)call->scratch + td_linear_backward_turned(call));
    }
    if (td_wants(call, 2)) {
        job.bias = call->out[2].data;
        td_parallel(call->threads, down, 1 + 16384 / (job.l.rows * BLOCK + 1), columns, &job);
    }
}
