/* native_layer_norm_backward, vector form, FP32. A row is walked twice: for its two means, then,
 * while it is in cache, for its result and for what it adds to the gradients of weight and bias,
 * which lie in the part's own sums. A part has few rows, so floats do for these; the parts are
 * added in doubles. */
#include "kernels/layer_norm_backward/layer_norm_backward.h"

#include "kernels/backward.h"
#include "kernels/vec.h"

#define RUN 32
#define COLUMNS 64

struct job {
    struct td_layer_norm_cut cut;
    const float *grad, *x, *mean, *rstd, *weight; /* weight may be NULL */
    float *out, *to_weight, *to_bias;             /* NULL: not wanted */
    float *parts;                                 /* [part][2][n]: sums for weight, for bias */
};

struct row {
    int64_t n;
    const float *grad, *x, *weight;
    td_vf mean, rstd;
};

/* One vector of a row: grad_out, the same times weight, and the normalized input; 0 beyond its end.
 */
struct point {
    td_vf grad, g, x;
};

TD_INLINE struct point load(const struct row *row, int64_t i)
{
    int64_t left = row->n - i;
    struct point p = {.grad = td_load_next(row->grad + i, left, 0)};
    p.g = row->weight ? p.grad * td_load_next(row->weight + i, left, 0) : p.grad;
    p.x = (td_load_next(row->x + i, left, 0) - row->mean) * row->rstd;
    if (left < TD_LANES)
        p.x = td_select(td_first(left), p.x, td_set(0));
    return p;
}

static void means(const struct row *row, double *mean_g, double *mean_gx)
{
    int64_t n = row->n;
    double sum = 0, slope = 0;
    for (int64_t i = 0; i < n;) {
        int64_t end = n - i < RUN * TD_LANES ? n : i + RUN * TD_LANES;
        td_vf a = td_set(0), b = a;
        for (; i < end; i += TD_LANES) {
            struct point p = load(row, i);
            a += p.g;
            b = td_fma(p.g, p.x, b);
        }
        sum += (double)td_hsum(a);
        slope += (double)td_hsum(b);
    }
    *mean_g = sum / (double)n;
    *mean_gx = slope / (double)n;
}

static void write_row(const struct row *row, float *out)
{
    double mean_g, mean_gx;
    means(row, &mean_g, &mean_gx);
    td_vf level = td_set((float)mean_g), slope = td_set((float)mean_gx);
    for (int64_t i = 0; i < row->n; i += TD_LANES) {
        struct point p = load(row, i);
        td_store_next(out + i, row->n - i, row->rstd * (p.g - level - p.x * slope));
    }
}

static void add_row(const struct row *row, float *to_weight, float *to_bias)
{
    for (int64_t i = 0; i < row->n; i += TD_LANES) {
        int64_t left = row->n - i;
        struct point p = load(row, i);
        td_store_next(to_weight + i, left,
                      td_fma(p.grad, p.x, td_load_next(to_weight + i, left, 0)));
        td_store_next(to_bias + i, left, p.grad + td_load_next(to_bias + i, left, 0));
    }
}

static void rows(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    const struct td_layer_norm_cut *cut = &job->cut;
    int64_t n = cut->rows.n;
    for (int64_t part = begin; part < end; part++) {
        float *sums = job->parts + part * 2 * n;
        if (job->parts)
            memset(sums, 0, (size_t)n * 2 * sizeof *sums);
        for (int64_t r = part * cut->length; r < cut->rows.count && r < (part + 1) * cut->length;
             r++) {
            struct row row = {n,           job->grad + r * n,    job->x + r * n,
                              job->weight, td_set(job->mean[r]), td_set(job->rstd[r])};
            if (job->out)
                write_row(&row, job->out + r * n);
            if (job->parts)
                add_row(&row, sums, sums + n);
        }
    }
}

/* Adds the parts up, for blocks of columns. */
static void columns(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    int64_t n = job->cut.rows.n;
    for (int64_t i = begin * COLUMNS; i < n && i < end * COLUMNS; i += COLUMNS) {
        int64_t width = n - i < COLUMNS ? n - i : COLUMNS;
        for (int which = 0; which < 2; which++) {
            float *out = which ? job->to_bias : job->to_weight;
            double sum[COLUMNS] = {0};
            for (int64_t part = 0; out && part < job->cut.parts; part++)
                for (int64_t j = 0; j < width; j++)
                    sum[j] += (double)job->parts[(part * 2 + which) * n + i + j];
            for (int64_t j = 0; out && j < width; j++)
                out[i + j] = (float)sum[j];
        }
    }
}

static float *data(const struct td_tensor *t, bool wanted)
{
    return t && wanted ? t->data : NULL;
}

TD_KERNEL(layer_norm_backward)
{
    bool sums = td_wants(call, 1) || td_wants(call, 2);
    struct job job = {.cut = td_layer_norm_cut(call),
                      .grad = data(td_arg(call, 0), true),
                      .x = data(td_arg(call, 1), true),
                      .mean = data(td_arg(call, 3), true),
                      .rstd = data(td_arg(call, 4), true),
                      .weight = data(td_arg(call, 5), true),
                      .out = data(&call->out[0], td_wants(call, 0)),
                      .to_weight = data(&call->out[1], td_wants(call, 1)),
                      .to_bias = data(&call->out[2], td_wants(call, 2)),
                      .parts = sums ? call->scratch : NULL};
    int64_t n = job.cut.rows.n, parts = job.cut.parts;
    if (!n)
        return;
    td_parallel(call->threads, parts, 1 + 8192 / (job.cut.length * n), rows, &job);
    if (sums)
        td_parallel(call->threads, (n + COLUMNS - 1) / COLUMNS, 1 + 16384 / (parts * COLUMNS + 1),
                    columns, &job);
}
