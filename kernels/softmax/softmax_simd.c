/* softmax, vector form, FP32: maximum, exponentials with their sum, scale. Along the last dimension
 * a row is walked three times while it is in cache; along another one, blocks of columns are, with
 * a maximum and a sum for each column. The maximum may lose a NaN: its exponential is NaN too, and
 * through the sum it reaches the whole row. */
#include "kernels/dims.h"
#include "kernels/elementwise.h"
#include "kernels/formulas.h"

#include <math.h>

#define COLUMNS 64 /* of a block: 4 vectors of 64 bytes; their maxima and sums stay in L1 */

struct job {
    struct td_span s;
    const float *x;
    float *y;
};

static td_vf top(td_vf a, td_vf b)
{
    return td_select((td_vi)(a > b), a, b);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void row(float *y, const float *x, int64_t n)
{
    td_vf max = td_set(-INFINITY), max1 = max, sum = td_set(0), lost = sum;
    int64_t i = 0;
    for (; i + 2 * TD_LANES <= n; i += 2 * TD_LANES) {
        max = top(td_load(x + i), max);
        max1 = top(td_load(x + i + TD_LANES), max1);
    }
    for (; i < n; i += TD_LANES)
        max = top(td_load_next(x + i, n - i, -INFINITY), max);
    max = td_set(td_hmax(top(max, max1)));
    for (i = 0; i < n; i += TD_LANES) {
        td_vf e = o_exp(td_load_next(x + i, n - i, -INFINITY) - max);
        td_sum_add(&sum, &lost, e);
        td_store_next(y + i, n - i, e);
    }
    td_vf scale = td_set(1 / td_hsum(sum));
    for (i = 0; i < n; i += TD_LANES)
        td_store_next(y + i, n - i, td_load_next(y + i, n - i, 0) * scale);
}

static void rows(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    for (int64_t r = begin; r < end; r++)
        row(job->y + r * job->s.size, job->x + r * job->s.size, job->s.size);
}

/* n columns, walked row by row, so that memory is read in its order. */
static void block(float *y, const float *x, int64_t n, int64_t size, int64_t stride)
{
    td_vf max[COLUMNS / TD_LANES], sum[COLUMNS / TD_LANES], lost[COLUMNS / TD_LANES];
    for (int64_t i = 0, v = 0; i < n; i += TD_LANES, v++) {
        max[v] = td_set(-INFINITY);
        sum[v] = lost[v] = td_set(0);
    }
    for (int64_t k = 0; k < size; k++)
        for (int64_t i = 0, v = 0; i < n; i += TD_LANES, v++)
            max[v] = top(td_load_next(x + k * stride + i, n - i, 0), max[v]);
    for (int64_t k = 0; k < size; k++) {
        for (int64_t i = 0, v = 0; i < n; i += TD_LANES, v++) {
            td_vf e = o_exp(td_load_next(x + k * stride + i, n - i, 0) - max[v]);
            td_sum_add(&sum[v], &lost[v], e);
            td_store_next(y + k * stride + i, n - i, e);
        }
    }
    for (int64_t k = 0; k < size; k++)
        for (int64_t i = 0, v = 0; i < n; i += TD_LANES, v++) {
            float *p = y + k * stride + i;
            td_store_next(p, n - i, td_load_next(p, n - i, 0) / sum[v]);
        }
}

static void blocks(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    int64_t inner = job->s.inner, count = (inner + COLUMNS - 1) / COLUMNS;
    for (int64_t i = begin; i < end; i++) {
        int64_t col = i % count * COLUMNS, at = i / count * job->s.size * inner + col;
        block(job->y + at, job->x + at, least(inner - col, COLUMNS), job->s.size, inner);
    }
}

TD_KERNEL(softmax)
{
    struct job job = {td_span(&call->out[0], (int)call->arg[1].i), call->arg[0].tensor.data,
                      call->out[0].data};
    struct td_span *s = &job.s;
    if (!td_numel(&call->out[0]))
        return;
    if (s->inner == 1)
        td_parallel(call->threads, s->outer, 1 + 8192 / s->size, rows, &job);
    else
        td_parallel(call->threads, s->outer * ((s->inner + COLUMNS - 1) / COLUMNS),
                    1 + 8192 / (s->size * COLUMNS), blocks, &job);
}
