/* layer_norm and native_layer_norm, vector form, FP32. A first pass finds the mean roughly: in FP32
 * a mean of 1e6 may be off by a tenth. A second sums the differences from it and their squares; the
 * sum of differences says how far the mean was off, and both variance and result are put right by
 * it. So an offset in the input costs no digits (Chan, Golub and LeVeque, "Algorithms for computing
 * the sample variance", 1983, formula 1.7). The third pass writes. A row whose sums are beyond FP32
 * is done in doubles. */
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/vec.h"

#include <math.h>

#define RUN 128 /* an even number */

struct job {
    int64_t n;
    const float *x, *weight, *bias; /* the latter two may be NULL */
    float *y, *mean, *scale;        /* the latter two NULL but for native_layer_norm */
    double eps;
};

static float rough_mean(const float *x, int64_t n)
{
    td_vf a = td_set(0), b = a;
    int64_t i = 0;
    for (; i + 2 * TD_LANES <= n; i += 2 * TD_LANES) {
        a += td_load(x + i);
        b += td_load(x + i + TD_LANES);
    }
    for (; i < n; i += TD_LANES)
        a += td_load_next(x + i, n - i, 0);
    return n ? td_hsum(a + b) / (float)n : 0;
}

/* Sums of the differences from the rough mean and of their squares, in doubles every RUN vectors.
 */
static void moments(const float *x, int64_t n, float rough, double *sum, double *squares)
{
    td_vf mean = td_set(rough);
    *sum = *squares = 0;
    for (int64_t i = 0; i < n;) {
        int64_t end = n - i < RUN * TD_LANES ? n : i + RUN * TD_LANES;
        td_vf a = td_set(0), a1 = a, b = a, b1 = a;
        for (; i + 2 * TD_LANES <= end; i += 2 * TD_LANES) {
            td_vf d = td_load(x + i) - mean, d1 = td_load(x + i + TD_LANES) - mean;
            a += d;
            a1 += d1;
            b = td_fma(d, d, b);
            b1 = td_fma(d1, d1, b1);
        }
        for (; i < end; i += TD_LANES) {
            td_vf d = td_load_next(x + i, end - i, rough) - mean;
            a += d;
            b = td_fma(d, d, b);
        }
        *sum += (double)td_hsum(a + a1);
        *squares += (double)td_hsum(b + b1);
    }
}

static void write_stats(const struct job *job, int64_t r, double mean, double scale)
{
    if (job->mean) {
        job->mean[r] = (float)mean;
        job->scale[r] = (float)scale;
    }
}

/* Numbers near FP32's greatest, of which neither sums nor squares fit; NaN and infinities too. */
static void wide_row(const struct job *job, int64_t r)
{
    int64_t n = job->n;
    const float *x = job->x + r * n;
    double mean = 0, var = 0;
    for (int64_t i = 0; i < n; i++)
        mean += (double)x[i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        var += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
    double scale = 1 / sqrt(var + job->eps);
    write_stats(job, r, mean, scale);
    for (int64_t i = 0; i < n; i++) {
        float v = (float)(((double)x[i] - mean) * scale);
        job->y[r * n + i] = v * (job->weight ? job->weight[i] : 1) + (job->bias ? job->bias[i] : 0);
    }
}

static void row(const struct job *job, int64_t r)
{
    int64_t n = job->n;
    const float *x = job->x + r * n;
    float *y = job->y + r * n;
    float rough = rough_mean(x, n);
    double sum, squares;
    moments(x, n, rough, &sum, &squares);
    if (!isfinite(sum) || !isfinite(squares)) {
        wide_row(job, r);
        return;
    }
    double delta = n ? sum / (double)n : 0, var = squares / (double)n - delta * delta;
    td_vf mean = td_set(rough), rest = td_set((float)delta);
    td_vf scale = td_set((float)(1 / sqrt((var < 0 ? 0 : var) + job->eps)));
    write_stats(job, r, (double)rough + delta, (double)scale[0]);
    for (int64_t i = 0; i < n; i += TD_LANES) {
        td_vf v = (td_load_next(x + i, n - i, 0) - mean - rest) * scale;
        if (job->weight)
            v *= td_load_next(job->weight + i, n - i, 0);
        if (job->bias)
            v += td_load_next(job->bias + i, n - i, 0);
        td_store_next(y + i, n - i, v);
    }
}

static void rows(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    for (int64_t r = begin; r < end; r++)
        row(job, r);
}

TD_KERNEL(layer_norm)
{
    const struct td_tensor *x = &call->arg[0].tensor, *weight = td_arg(call, 2);
    const struct td_tensor *bias = td_arg(call, 3);
    struct td_rows all = td_normalized_rows(x, &call->arg[1]);
    bool native = call->n_out == 3;
    struct job job = {.n = all.n,
                      .x = x->data,
                      .weight = weight ? weight->data : NULL,
                      .bias = bias ? bias->data : NULL,
                      .y = call->out[0].data,
                      .mean = native ? call->out[1].data : NULL,
                      .scale = native ? call->out[2].data : NULL,
                      .eps = td_scalar(&call->arg[4])};
    if (all.n || native)
        td_parallel(call->threads, all.count, 1 + 8192 / (all.n + 1), rows, &job);
}
