/* _softmax_backward_data, vector form, FP32: a dot product, then the result. Along the last
 * dimension a row is walked twice while it is in cache; along another one, blocks of columns are,
 * with a sum for each column. The sum is made in doubles and taken off in two floats, since what is
 * left of grad_output may be little: all of it goes in a row of one element. */
#include "kernels/dims.h"
#include "kernels/vec.h"

#include <math.h>

#define COLUMNS 64 /* of a block: 4 vectors of 64 bytes; their sums stay in L1 */

struct job {
    struct td_span s;
    const float *grad, *y;
    float *out;
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What high, its value as a float, lacks of x. */
static float rest(double x, float high)
{
    return isfinite(high) ? (float)(x - (double)high) : 0;
}

static double dot(const float *a, const float *b, int64_t n)
{
    double lane[TD_LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + TD_LANES <= n; i += TD_LANES)
        for (int64_t l = 0; l < TD_LANES; l++)
            lane[l] += (double)a[i + l] * (double)b[i + l];
    for (; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    for (int64_t l = 0; l < TD_LANES; l++)
        sum += lane[l];
    return sum;
}

static void rows(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    int64_t n = job->s.size;
    for (int64_t r = begin; r < end; r++) {
        const float *grad = job->grad + r * n, *y = job->y + r * n;
        double sum = dot(grad, y, n);
        td_vf high = td_set((float)sum), low = td_set(rest(sum, (float)sum));
        for (int64_t i = 0; i < n; i += TD_LANES)
            td_store_next(job->out + r * n + i, n - i,
                          (td_load_next(grad + i, n - i, 0) - high - low) *
                              td_load_next(y + i, n - i, 0));
    }
}

/* n columns from an element on, walked row by row, so that memory is read in its order. */
static void block(const struct job *job, int64_t at, int64_t n)
{
    const float *grad = job->grad + at, *y = job->y + at;
    int64_t size = job->s.size, step = job->s.inner;
    double sum[COLUMNS] = {0};
    float high[COLUMNS], low[COLUMNS];
    for (int64_t k = 0; k < size; k++)
        for (int64_t i = 0; i < n; i++)
            sum[i] += (double)grad[k * step + i] * (double)y[k * step + i];
    for (int64_t i = 0; i < COLUMNS; i++) {
        high[i] = (float)sum[i];
        low[i] = rest(sum[i], high[i]);
    }
    for (int64_t k = 0; k < size; k++)
        for (int64_t i = 0; i < n; i += TD_LANES)
            td_store_next(job->out + at + k * step + i, n - i,
                          (td_load_next(grad + k * step + i, n - i, 0) - td_load(high + i) -
                           td_load(low + i)) *
                              td_load_next(y + k * step + i, n - i, 0));
}

static void blocks(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    int64_t inner = job->s.inner, count = (inner + COLUMNS - 1) / COLUMNS;
    for (int64_t i = begin; i < end; i++) {
        int64_t col = i % count * COLUMNS;
        block(job, i / count * job->s.size * inner + col, least(inner - col, COLUMNS));
    }
}

TD_KERNEL(softmax_backward_data)
{
    struct job job = {td_span(&call->out[0], (int)call->arg[2].i), call->arg[0].tensor.data,
                      call->arg[1].tensor.data, call->out[0].data};
    const struct td_span *s = &job.s;
    if (!td_numel(&call->out[0]))
        return;
    if (s->inner == 1)
        td_parallel(call->threads, s->outer, 1 + 8192 / s->size, rows, &job);
    else
        td_parallel(call->threads, s->outer * ((s->inner + COLUMNS - 1) / COLUMNS),
                    1 + 8192 / (s->size * COLUMNS), blocks, &job);
}
