/* sum, vector form, FP32 and INT64. Along the innermost dimension a row is added in four vectors;
 * along others, rows are added to a block of columns, four rows at a time, so that memory is read
 * in its order. FP32 runs end in a double every RUN additions, so that long sums keep their
 * digits. INT64 wraps. */
#include "kernels/elementwise.h"
#include "kernels/sum/sum.h"
#include "kernels/vec.h"

#define RUN 64

union total {
    double f;
    uint64_t i;
};

struct job {
    struct td_reduction r;
    struct td_sum_cut cut;
    const void *x;
    void *y;
    union total *parts; /* [part][output]; NULL where there is one part */
    int64_t outputs;
    bool whole;
};

static double row_f32(const float *x, int64_t n)
{
    double total = 0;
    while (n > 0) {
        td_vf a = td_set(0), b = a, c = a, d = a;
        const float *end = x + (n < 4 * RUN * TD_LANES ? n : 4 * RUN * TD_LANES);
        n -= end - x;
        for (; end - x >= 4 * TD_LANES; x += 4 * TD_LANES) {
            a += td_load(x);
            b += td_load(x + TD_LANES);
            c += td_load(x + 2 * TD_LANES);
            d += td_load(x + 3 * TD_LANES);
        }
        for (; x < end; x += TD_LANES)
            a += td_load_next(x, end - x, 0);
        x = end;
        total += (double)td_hsum((a + b) + (c + d));
    }
    return total;
}

static uint64_t row_i64(const uint64_t *x, int64_t n)
{
    uint64_t total = 0;
    for (int64_t i = 0; i < n; i++)
        total += x[i];
    return total;
}

/* Elements [begin, end) of one output's reduction, counted through its runs. */
static void along(const struct job *job, int64_t base, int64_t begin, int64_t end,
                  union total *total)
{
    while (begin < end) {
        int64_t run = job->r.reduced > 1 ? begin / job->r.inner : 0;
        int64_t col = begin - run * job->r.inner, n = job->r.inner - col;
        int64_t at = base + td_reduction_at(&job->r, 1, run) + col;
        n = n < end - begin ? n : end - begin;
        if (job->whole)
            total->i += row_i64((const uint64_t *)job->x + at, n);
        else
            total->f += row_f32((const float *)job->x + at, n);
        begin += n;
    }
}

/* Rows [begin, end) of n columns. */
static void down_f32(const struct job *job, int64_t base, int64_t n, int64_t begin, int64_t end,
                     union total *total)
{
    const float *x = (const float *)job->x + base;
    for (int64_t r = begin; r < end;) {
        float sum[TD_SUM_COLUMNS] = {0};
        int64_t stop = end - r < 4 * RUN ? end : r + 4 * RUN;
        for (; r + 4 <= stop; r += 4) {
            const float *a = x + td_reduction_at(&job->r, 1, r);
            const float *b = x + td_reduction_at(&job->r, 1, r + 1);
            const float *c = x + td_reduction_at(&job->r, 1, r + 2);
            const float *d = x + td_reduction_at(&job->r, 1, r + 3);
            for (int64_t i = 0; i < n; i++)
                sum[i] += (a[i] + b[i]) + (c[i] + d[i]);
        }
        for (; r < stop; r++) {
            const float *a = x + td_reduction_at(&job->r, 1, r);
            for (int64_t i = 0; i < n; i++)
                sum[i] += a[i];
        }
        for (int64_t i = 0; i < n; i++)
            total[i].f += (double)sum[i];
    }
}

static void down_i64(const struct job *job, int64_t base, int64_t n, int64_t begin, int64_t end,
                     union total *total)
{
    for (int64_t r = begin; r < end; r++) {
        const uint64_t *x = (const uint64_t *)job->x + base + td_reduction_at(&job->r, 1, r);
        for (int64_t i = 0; i < n; i++)
            total[i].i += x[i];
    }
}

static void put(const struct job *job, int64_t at, int64_t n, const union total *total)
{
    for (int64_t i = 0; i < n; i++)
        if (job->whole)
            ((uint64_t *)job->y)[at + i] = total[i].i;
        else
            ((float *)job->y)[at + i] = (float)total[i].f;
}

/* Outputs with one part and the innermost dimension reduced: often many and short. */
static void rows(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    int64_t all = job->r.reduced * job->r.inner;
    for (int64_t i = begin; i < end; i++) {
        union total total = {0};
        along(job, td_reduction_at(&job->r, 0, i), 0, all, &total);
        put(job, i, 1, &total);
    }
}

static void pieces(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    const struct td_reduction *r = &job->r;
    int64_t all = r->along ? r->reduced * r->inner : r->reduced;
    for (int64_t i = begin; i < end; i++) {
        int64_t part = i % job->cut.parts, block = i / job->cut.parts % job->cut.blocks;
        int64_t out = i / job->cut.parts / job->cut.blocks, from = part * job->cut.length;
        int64_t to = all - from < job->cut.length ? all : from + job->cut.length;
        int64_t col = block * TD_SUM_COLUMNS, n = 1, base = td_reduction_at(r, 0, out);
        union total total[TD_SUM_COLUMNS];
        if (!r->along) {
            n = r->inner - col < TD_SUM_COLUMNS ? r->inner - col : TD_SUM_COLUMNS;
            out = out * r->inner + col;
        }
        memset(total, 0, (size_t)n * sizeof *total);
        if (r->along)
            along(job, base, from, to, total);
        else
            (job->whole ? down_i64 : down_f32)(job, base + col, n, from, to, total);
        if (job->parts)
            memcpy(job->parts + part * job->outputs + out, total, (size_t)n * sizeof *total);
        else
            put(job, out, n, total);
    }
}

TD_KERNEL(sum)
{
    const struct td_tensor *x = &call->arg[0].tensor, *out = &call->out[0];
    struct job job = {
        .x = x->data, .y = out->data, .outputs = td_numel(out), .whole = out->dtype == TD_i64};
    if (!job.outputs)
        return;
    if (!td_numel(x)) {
        memset(out->data, 0, td_nbytes(out));
        return;
    }
    job.r = td_reduction(x, td_sum_dims(call));
    job.cut = td_sum_cut(&job.r);
    job.parts = job.cut.parts > 1 ? call->scratch : NULL;
    int64_t n = job.r.kept * job.cut.blocks * job.cut.parts;
    td_parallel(call->threads, n, 1 + 16384 * n / td_numel(x),
                job.r.along && !job.parts ? rows : pieces, &job);
    for (int64_t i = 0; job.parts && i < job.outputs; i++) {
        union total total = {0};
        for (int64_t part = 0; part < job.cut.parts; part++) {
            const union total *t = &job.parts[part * job.outputs + i];
            if (job.whole)
                total.i += t->i;
            else
                total.f += t->f;
        }
        put(&job, i, 1, &total);
    }
}
