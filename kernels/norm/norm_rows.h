/* The norms in lanes: read once for FP32, BF16 and FP16, and once for FP64. A first pass over a
 * group finds the mean roughly: in FP32 a mean of 1e6 may be off by a tenth. A second sums the
 * differences from it and their squares; the sum of differences says how far the mean was off, and
 * both variance and result are put right by it. So an offset in the input costs no digits (Chan,
 * Golub and LeVeque, "Algorithms for computing the sample variance", 1983, formula 1.7). The last
 * pass writes. A group whose sums are beyond the type is done in doubles.
 *
 * Elements of a group lie in runs: all in one, or, of a channel over all images, one an image; of
 * [images, channels] these have a single element, and channels lie in the lanes instead. Short rows
 * of FP32 lanes are one a lane (norm_short.def), longer ones four at a time (norm_four.def). */
#ifndef TD_KERNELS_NORM_ROWS_H
#define TD_KERNELS_NORM_ROWS_H

#include "kernels/elementwise.h"
#include "kernels/norm/norm.h"
#include "kernels/norm/norm_stats.h"
#include "kernels/reals.h"

#include <math.h>

struct norm_job {
    struct td_norm n;
    enum td_dtype type;
    const td_real *weight, *bias; /* of each channel; NULL: none */
    td_real *mean, *scale, *rest; /* of each channel, over all images: out = (x - mean) * scale +
                                     rest */
};

static void write_stats(const struct td_norm *n, int64_t k, const struct norm_stats *s)
{
    if (n->out_mean) {
        td_put_real(n->out_mean, k, s->mean);
        td_put_real(n->out_rstd, k, s->scale);
    }
}

/* The bias, and what the rough mean is off; an infinite scale would make NaN of it. */
static td_real rest_of(const struct norm_stats *s, double scale, double bias)
{
    double off = -s->delta * scale;
    return (td_real)(isfinite(off) ? bias + off : bias);
}

/* ---- groups within an image ---- */

static void wide_group(const struct norm_job *job, int64_t k, const struct norm_stats *s)
{
    const struct td_norm *n = &job->n;
    int64_t first = k * n->together % n->channels, from = td_norm_at(n, k);
    for (int64_t i = 0; i < n->n; i++) {
        int64_t channel = first + i / n->inner;
        double v = (td_get_real(n->x, from + i) - s->mean) * s->scale;
        v = v * (job->weight ? (double)job->weight[channel] : 1) +
            (job->bias ? (double)job->bias[channel] : 0);
        td_put_real(n->out, k * n->n + i, v);
    }
}

/* The channels of a group lie side by side: weight and bias are read along. */
TD_INLINE void write_across(const struct norm_job *job, int64_t k, const struct norm_stats *s,
                            const enum td_dtype type)
{
    const struct td_norm *n = &job->n;
    int64_t first = k * n->together % n->channels, at = k * n->n, from = td_norm_at(n, k);
    const td_real *weight = job->weight ? job->weight + first : NULL;
    const td_real *bias = job->bias ? job->bias + first : NULL;
    V mean = L_c((td_real)s->rough), scale = L_c((td_real)s->scale);
    V rest = L_c((td_real)(-s->delta * s->scale));
    for (int64_t i = 0; i < n->n; i += L_LANES) {
        int64_t left = n->n - i;
        V v = L_fma(L_next(n->x->data, from + i, left, type, 0) - mean, scale, rest);
        if (weight)
            v *= L_next(weight, i, left, TD_REAL_TYPE, 0);
        if (bias)
            v += L_next(bias, i, left, TD_REAL_TYPE, 0);
        L_put_next(n->out->data, at + i, left, type, v);
    }
}

/* out = (x - mean) * scale + rest over a run. */
TD_INLINE void write_run(const struct td_norm *n, int64_t at, td_real mean_, td_real scale_,
                         td_real rest_, const enum td_dtype type)
{
    V mean = L_c(mean_), scale = L_c(scale_), rest = L_c(rest_);
    int64_t i = 0;
    for (; i + L_LANES <= n->inner; i += L_LANES)
        L_put(n->out->data, at + i, type,
              L_fma(L_get(n->x->data, at + i, type) - mean, scale, rest));
    if (i < n->inner)
        L_put_n(n->out->data, at + i, n->inner - i, type,
                L_fma(L_get_n(n->x->data, at + i, n->inner - i, type, 0) - mean, scale, rest));
}

#if TD_REAL_BITS == 32
#include "kernels/norm/norm_short.def"

#include "kernels/norm/norm_four.def"
#endif

TD_INLINE void groups(const struct norm_job *job, int64_t begin, int64_t end,
                      const enum td_dtype type)
{
    const struct td_norm *n = &job->n;
#if TD_REAL_BITS == 32
    for (; begin < end && is_short(n) && !td_stopped(); begin += L_LANES)
        short_rows(job, begin, end - begin < L_LANES ? end - begin : L_LANES, type);
    const bool middling = is_middling(n);
#endif
    for (int64_t k = begin; k < end && !td_stopped(); k++) {
#if TD_REAL_BITS == 32
        if (middling && end - k >= 4 && four_rows(job, k, type)) {
            k += 3;
            continue;
        }
#endif
        struct norm_stats s = stats_of(n, k, type);
        int64_t first = k * n->together % n->channels;
        write_stats(n, k, &s);
        if (!n->n)
            continue;
        if (s.wide) {
            wide_group(job, k, &s);
            continue;
        }
        if (n->inner == 1) {
            write_across(job, k, &s, type);
            continue;
        }
        for (int64_t c = 0; c < n->together; c++) {
            double scale = s.scale * (job->weight ? (double)job->weight[first + c] : 1);
            double bias = job->bias ? (double)job->bias[first + c] : 0;
            write_run(n, k * n->n + c * n->inner, (td_real)s.rough, (td_real)scale,
                      rest_of(&s, scale, bias), type);
        }
    }
}

/* ---- channels over all images ---- */

static void keep_channel(const struct norm_job *job, int64_t c, struct norm_stats *s)
{
    double scale = s->scale * (job->weight ? (double)job->weight[c] : 1);
    if (s->wide)
        s->rough = (double)(td_real)s->mean;
    job->mean[c] = (td_real)s->rough;
    job->scale[c] = (td_real)scale;
    job->rest[c] = rest_of(s, scale, job->bias ? (double)job->bias[c] : 0);
    write_stats(&job->n, c, s);
}

/* Statistics of up to L_LANES channels that lie in the lanes. */
TD_INLINE void columns(const struct norm_job *job, int64_t c, int64_t some,
                       const enum td_dtype type)
{
    const struct td_norm *n = &job->n;
    struct norm_sum sum[2][L_LANES] = {{{0}}}, squares[L_LANES] = {{0}};
    td_real lane[L_LANES] = {0}, square[L_LANES];
    for (int pass = 0; pass < 2; pass++) {
        V rough = L_load(lane);
        for (int64_t i = 0; i < n->images && !td_stopped();) {
            int64_t end = n->images - i < RUN ? n->images : i + RUN;
            V a = L_c(0), b = a;
            for (; i < end; i++) {
                V d = L_next(n->x->data, i * n->channels + c, some, type, 0) - rough;
                a += d;
                b = L_fma(d, d, b);
            }
            L_store(lane, a);
            L_store(square, b);
            for (int k = 0; k < L_LANES; k++) {
                add_part(&sum[pass][k], (double)lane[k]);
                if (pass)
                    add_part(&squares[k], (double)square[k]);
            }
        }
        for (int k = 0; k < L_LANES && !pass; k++)
            lane[k] = (td_real)(total(&sum[0][k]) / (double)n->images);
    }
    for (int k = 0; k < some; k++) {
        double rough = (double)(td_real)(total(&sum[0][k]) / (double)n->images);
        struct norm_stats s = settled(n, rough, total(&sum[1][k]), total(&squares[k]));
        s = s.wide ? wide_stats(n, runs_of(n, c + k)) : s;
        keep_channel(job, c + k, &s);
    }
}

TD_INLINE void channels(const struct norm_job *job, int64_t begin, int64_t end,
                        const enum td_dtype type)
{
    const struct td_norm *n = &job->n;
    int64_t step = n->inner == 1 && n->n ? L_LANES : 1;
    for (int64_t c = begin; c < end && !td_stopped(); c += step) {
        if (step > 1) {
            columns(job, c, end - c < step ? end - c : step, type);
            continue;
        }
        struct norm_stats s = stats_of(n, c, type);
        keep_channel(job, c, &s);
    }
}

static void given(const struct norm_job *job)
{
    for (int64_t c = 0; c < job->n.channels; c++) {
        double mean = td_get_real(job->n.mean, c);
        struct norm_stats s = {.rough = mean, .mean = mean};
        s.scale = 1 / sqrt(td_get_real(job->n.var, c) + job->n.eps);
        keep_channel(job, c, &s);
    }
}

/* Rows of the input, which are one image's channel each; or, of single elements, one image. */
TD_INLINE void apply(const struct norm_job *job, int64_t begin, int64_t end,
                     const enum td_dtype type)
{
    const struct td_norm *n = &job->n;
    for (int64_t row = begin; row < end; row++) {
        if (n->inner > 1) {
            int64_t c = row % n->channels;
            write_run(n, row * n->inner, job->mean[c], job->scale[c], job->rest[c], type);
            continue;
        }
        for (int64_t c = 0, at = row * n->channels; c < n->channels; c += L_LANES) {
            int64_t left = n->channels - c;
            V v = L_next(n->x->data, at + c, left, type, 0);
            v = L_fma(v - L_next(job->mean, c, left, TD_REAL_TYPE, 0),
                      L_next(job->scale, c, left, TD_REAL_TYPE, 0),
                      L_next(job->rest, c, left, TD_REAL_TYPE, 0));
            L_put_next(n->out->data, at + c, left, type, v);
        }
    }
}

/* ---- each, of whatever type ---- */

#if TD_REAL_BITS == 64
#define EACH(what)                                                                                 \
    static void what##_range(void *arg, int64_t begin, int64_t end)                                \
    {                                                                                              \
        what(arg, begin, end, TD_f64);                                                             \
    }
#else
#define EACH(what)                                                                                 \
    static void what##_range(void *arg, int64_t begin, int64_t end)                                \
    {                                                                                              \
        const struct norm_job *job = arg;                                                          \
        if (job->type == TD_f32)                                                                   \
            what(job, begin, end, TD_f32);                                                         \
        else if (job->type == TD_bf16)                                                             \
            what(job, begin, end, TD_bf16);                                                        \
        else                                                                                       \
            what(job, begin, end, TD_f16);                                                         \
    }
#endif
EACH(groups)
EACH(channels)
EACH(apply)

/* A parameter as numbers of the lanes' type: where they lie, or converted into room. */
static const td_real *param(const struct td_tensor *t, td_real **room)
{
    if (!t || t->dtype == TD_REAL_TYPE)
        return t ? t->data : NULL;
    const td_real *to = *room;
    for (int64_t i = 0; i < td_numel(t); i++)
        (*room)[i] = (td_real)td_get_real(t, i);
    *room += td_numel(t);
    return to;
}

static inline void norm_run(const struct td_call *call)
{
    struct norm_job job = {.type = call->out[0].dtype};
    struct td_norm *n = &job.n;
    struct td_reduction walk;
    td_real *room = call->scratch;
    td_norm_of(call, n);
    if (n->x->stride && td_norm_walk(call, n, &walk))
        n->walk = &walk;
    job.weight = param(n->weight, &room);
    job.bias = param(n->bias, &room);
    int64_t grain = 1 + 16384 / (1 + n->n);
    if (n->together) {
        td_parallel(call->threads, n->groups, grain, groups_range, &job);
        return;
    }
    job.mean = room;
    job.scale = room + n->channels;
    job.rest = room + 2 * n->channels;
    if (n->mean)
        given(&job);
    else
        td_parallel(call->threads, n->channels, n->inner == 1 ? grain + L_LANES : grain,
                    channels_range, &job);
    bool rows = n->inner > 1;
    td_parallel(call->threads, td_numel(n->out) ? rows ? n->images * n->channels : n->images : 0,
                1 + 16384 / (1 + (rows ? n->inner : n->channels)), apply_range, &job);
}

#endif
