/* Depthwise convolutions of FP32 with channels last. Neighbouring channels are the lanes of a
 * vector, so a vector of a pixel is one load. TILE results next to each other are summed in
 * registers: a vector of the input is loaded once for all of them that it enters. */
#define TD_REAL_BITS 32
#include "kernels/convolution/convolution_last.h"

#define TILE 8   /* results that are summed at a time */
#define WIDEST 7 /* kernel */
#define REACH (2 * (TILE - 1) + WIDEST)

/* ---- weights ---- */

/* [channel][positions] to [vector][positions][lanes]. */
static void lay_out(const struct conv_last *job, const float *weight, float *to)
{
    for (int64_t v = 0; v < job->vectors; v++)
        for (int64_t p = 0; p < job->positions; p++)
            for (int64_t l = 0; l < TD_LANES; l++) {
                int64_t channel = v * TD_LANES + l;
                *to++ = channel < job->channels ? weight[channel * job->positions + p] : 0;
            }
}

/* ---- sums ---- */

/* Pixels of the input that a tile loads: bit x is that x behind the first. */
static uint32_t inside_of(const struct td_conv *c, int64_t first)
{
    uint32_t inside = 0;
    if (first >= 0 && first + REACH <= c->in[1])
        return UINT32_MAX;
    for (int x = 0; x < REACH; x++)
        inside |= (uint32_t)(first + x >= 0 && first + x < c->in[1]) << x;
    return inside;
}

/* TILE results' vectors, of n lanes each, from element at of the input's row on. step: pixels of
 * the input from one result to the next. */
TD_INLINE void tile(const struct conv_row *r, int64_t first, uint32_t inside, int64_t n,
                    const float *weight, const int kernel, const int step, const bool whole,
                    td_vf *sum)
{
    const int64_t channels = r->job->channels;
    const float *in = r->in + first + r->first * r->down;
    weight += r->first * kernel * TD_LANES;
    for (int64_t i = r->first; i < r->end; i++, in += r->down, weight += kernel * TD_LANES) {
        const uint32_t here = i >= r->low && i < r->high ? inside : 0;
        const float *at = in;
        td_vf w[WIDEST], v;
#pragma GCC unroll 7
        for (int k = 0; k < kernel; k++)
            w[k] = td_load(weight + k * TD_LANES);
#pragma GCC unroll 32
        for (int x = 0; x < (TILE - 1) * step + kernel; x++, at += channels) {
            __asm__("" : "+r"(at)); /* else all places are computed ahead, for want of registers */
            if (here & 1u << x)
                v = whole ? td_load(at) : td_load_n(at, n, 0);
            else if (r->job->zeros)
                v = td_set(0);
            else
                continue;
#pragma GCC unroll 7
            for (int k = 0; k < kernel; k++)
                if (x >= k && (x - k) % step == 0 && (x - k) / step < TILE)
                    sum[(x - k) / step] = td_fma(v, w[k], sum[(x - k) / step]);
        }
    }
}

/* count results' vectors v, of n lanes, from pixel x of the result on. */
TD_INLINE void vectors(const struct conv_row *r, int64_t x, int64_t count, uint32_t inside,
                       int64_t v, int64_t n, const int kernel, const int step, const bool whole)
{
    const struct conv_last *job = r->job;
    int64_t lane = v * TD_LANES, at = (x * step - job->c->padding[1]) * job->channels + lane;
    float *out = r->out + x * job->channels + lane;
    td_vf sum[TILE];
#pragma GCC unroll 8
    for (int t = 0; t < TILE; t++)
        sum[t] = td_load(job->bias + lane);
    tile(r, at, inside, n, job->weight + lane * job->positions, kernel, step, whole, sum);
    conv_posts_early(&job->posts, sum, TILE);
#pragma GCC unroll 8
    for (int t = 0; t < TILE; t++, out += job->channels)
        if (t < count && whole)
            td_store(out, sum[t]);
        else if (t < count)
            td_store_n(out, n, sum[t]);
}

TD_INLINE void pixels(const struct conv_row *r, int64_t x, int64_t count, const int kernel,
                      const int step)
{
    const struct conv_last *job = r->job;
    uint32_t inside = inside_of(job->c, x * step - job->c->padding[1]);
    for (int64_t v = 0; v < job->vectors; v++) {
        int64_t n = job->channels - v * TD_LANES;
        if (n >= TD_LANES)
            vectors(r, x, count, inside, v, n, kernel, step, true);
        else
            vectors(r, x, count, inside, v, n, kernel, step, false);
    }
}

typedef void pixels_of(const struct conv_row *r, int64_t x, int64_t count);
#define PIXELS(kernel, step)                                                                       \
    static __attribute__((noinline)) void pixels_##kernel##_##step(const struct conv_row *r,       \
                                                                   int64_t x, int64_t count)       \
    {                                                                                              \
        pixels(r, x, count, kernel, step);                                                         \
    }
PIXELS(3, 1)
PIXELS(3, 2)
PIXELS(5, 1)
PIXELS(5, 2)
PIXELS(7, 1)
PIXELS(7, 2)

/* ---- rows ---- */

static void rows(void *arg, int64_t begin, int64_t end)
{
    static pixels_of *const ways[][2] = {
        {pixels_3_1, pixels_3_2}, {pixels_5_1, pixels_5_2}, {pixels_7_1, pixels_7_2}};
    const struct conv_last *job = arg;
    const struct td_conv *c = job->c;
    int64_t out = c->size[1] * job->channels;
    int64_t tiles = (c->size[1] + TILE - 1) / TILE, count = (c->size[1] + tiles - 1) / tiles;
    pixels_of *way = ways[c->kernel[1] / 2 - 1][c->stride[1] - 1];
    for (int64_t number = begin; number < end && !td_stopped(); number++) {
        struct conv_row r = conv_row_of(job, number);
        for (int64_t x = 0, n; x < c->size[1]; x += n) {
            n = c->size[1] - x < count ? c->size[1] - x : count;
            way(&r, x, n);
            conv_posts_late(&job->posts, number * out + x * job->channels, n, job->channels);
        }
    }
}

void TD_NAME(conv_depth)(const struct td_conv *c, int threads, void *scratch)
{
    static const char name[] = {'s', 'i', 'm', 'd', ' ', 'd', 'e', 'p', 't', 'h', 0};
    struct conv_last job;
    conv_last_begin(c, td_conv_positions(c), true, &job);
    conv_last_pack(&job, lay_out, "dwc", name, NULL, scratch);
    int64_t each = c->size[1] * job.channels * job.positions;
    td_parallel(threads, c->images * c->size[0], 1 + (1 << 16) / each, rows, &job);
}
