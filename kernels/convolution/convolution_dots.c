/* Convolutions of FP32 with channels last and up to DOTS channels of the result: of those a vector
 * would be mostly empty. So the lanes are elements of the runs (convolution_direct.c), which
 * lie next to each other in the weights, too: a result is a dot product. */
#define TD_REAL_BITS 32
#include "kernels/convolution/convolution_last.h"

#define DOTS TD_CONV_DOTS
#if TD_VBYTES == 64
#define TILE 8 /* results of up to DOTS channels, in 32 registers */
#else
#define TILE 4 /* in 16 */
#endif

/* [out, in, rows, columns] to [out][rows][columns][in], and zeros in place of further channels. */
static void lay_out(const struct conv_last *job, const float *weight, float *to)
{
    const struct td_conv *c = job->c;
    int64_t area = td_conv_positions(c);
    for (int64_t o = 0; o < c->out_channels; o++)
        for (int64_t p = 0; p < area; p++)
            for (int64_t i = 0; i < c->in_channels; i++)
                *to++ = weight[(o * c->in_channels + i) * area + p];
    size_t rest = (size_t)((job->vectors * TD_LANES - c->out_channels) * job->positions);
    memset(to, 0, rest * sizeof *to);
}

/* sum[n][outs] += in[n][lanes] * weight[outs][lanes], of the first `left` lanes */
TD_INLINE void add(const float *in, int64_t step, const float *weight, int64_t next, int64_t left,
                   td_vf *sum, const int n, const int outs)
{
    const bool whole = left >= TD_LANES;
    td_vf w[DOTS];
#pragma GCC unroll 4
    for (int o = 0; o < outs; o++)
        w[o] = whole ? td_load(weight + o * next) : td_load_n(weight + o * next, left, 0);
#pragma GCC unroll 8
    for (int t = 0; t < n; t++) {
        td_vf v = whole ? td_load(in + t * step) : td_load_n(in + t * step, left, 0);
#pragma GCC unroll 4
        for (int o = 0; o < outs; o++)
            sum[t * outs + o] = td_fma(v, w[o], sum[t * outs + o]);
    }
}

/* The same of a whole run. */
TD_INLINE void add_run(const struct conv_last *job, const float *in, int64_t step,
                       const float *weight, int64_t run, td_vf *sum, const int n, const int outs)
{
    int64_t k = 0;
    for (; k + TD_LANES <= run; k += TD_LANES)
        add(in + k, step, weight + k, job->positions, TD_LANES, sum, n, outs);
    if (k < run)
        add(in + k, step, weight + k, job->positions, run - k, sum, n, outs);
}

/* n results next to each other from x on. */
TD_INLINE void results(const struct conv_row *r, int64_t x, const int n, const int outs)
{
    const struct conv_last *job = r->job;
    const struct td_conv *c = job->c;
    const int64_t channels = c->in_channels, run = c->kernel[1] * channels;
    const bool inside = conv_is_inside(r, x, n);
    float line[TD_CONV_LINE], *out = r->out + x * outs;
    td_vf sum[TILE * DOTS];
#pragma GCC unroll 32
    for (int t = 0; t < n * outs; t++)
        sum[t] = td_set(0);
    for (int64_t i = r->first; i < r->end && inside; i++)
        add_run(job, conv_pixel(r, i, x), c->stride[1] * channels, job->weight + i * run, run, sum,
                n, outs);
    for (int64_t i = r->first; i < r->end && !inside; i++)
        for (struct conv_run u = {.end = 0}; u.end < c->kernel[1];) {
            conv_run_next(r, i, x, n, false, line, &u);
            add_run(job, u.in, u.step, job->weight + i * run + u.from * channels,
                    (u.end - u.from) * channels, sum, n, outs);
        }
#pragma GCC unroll 32
    for (int t = 0; t < n * outs; t++)
        out[t] = td_hsum(sum[t]) + job->bias[t % outs];
}

typedef void results_of(const struct conv_row *r, int64_t x);
#define RESULTS(n, outs)                                                                           \
    static                                                                                         \
        __attribute__((noinline)) void results_##n##_##outs(const struct conv_row *r, int64_t x)   \
    {                                                                                              \
        results(r, x, n, outs);                                                                    \
    }
#define EACH_OUTS(does, n) does(n, 1) does(n, 2) does(n, 3)
#if TD_VBYTES == 64
EACH_OUTS(RESULTS, 8)
#else
EACH_OUTS(RESULTS, 4)
#endif
EACH_OUTS(RESULTS, 1)
#define WAY(n, outs) results_##n##_##outs,
static results_of *const tiles[DOTS] = {
#if TD_VBYTES == 64
    EACH_OUTS(WAY, 8)
#else
    EACH_OUTS(WAY, 4)
#endif
};
static results_of *const single[DOTS] = {EACH_OUTS(WAY, 1)};

static void rows(void *arg, int64_t begin, int64_t end)
{
    const struct conv_last *job = arg;
    const int64_t size = job->c->size[1], n = size < TILE ? 1 : TILE, out = size * job->channels;
    results_of *way = n < TILE ? single[job->channels - 1] : tiles[job->channels - 1];
    for (int64_t number = begin; number < end && !td_stopped(); number++) {
        struct conv_row r = conv_row_of(job, number);
        for (int64_t x = 0; x < size; x += n) {
            x = x < size - n ? x : size - n; /* the last tile may compute some results again */
            way(&r, x);
        }
        conv_posts_late(&job->posts, number * out, size, job->channels);
    }
}

void TD_NAME(conv_dots)(const struct td_conv *c, int threads, void *scratch)
{
    static const char name[] = {'s', 'i', 'm', 'd', ' ', 'd', 'o', 't', 's', 0};
    struct conv_last job;
    conv_last_begin(c, td_conv_positions(c) * c->in_channels, false, &job);
    conv_last_pack(&job, lay_out, "dot", name, NULL, scratch);
    int64_t each = c->size[1] * job.channels * job.positions;
    td_parallel(threads, c->images * c->size[0], 1 + (1 << 16) / each, rows, &job);
}
