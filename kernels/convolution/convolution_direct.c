/* Convolutions of FP32 with channels last and few channels: the first ones of a network. The pixels
 * that a row of the kernel takes lie in one run of memory, so a result is a product of as many runs
 * as the kernel has rows with the weights, which are packed in panels of one or two vectors of
 * output channels. Results next to each other are summed in registers over all rows of the kernel:
 * TILE of two vectors, or WIDE of one. */
#define TD_REAL_BITS 32
#include "kernels/convolution/convolution_last.h"

#define WIDE 12
#if TD_VBYTES == 64
#define TILE 12 /* 24 of 32 registers */
#else
#define TILE 6 /* 12 of 16 registers */
#endif
_Static_assert(2 * TILE >= WIDE, "sums have room for either");

/* ---- weights ---- */

/* [out, in, rows, columns] to [panel][rows][columns][in][lanes]. */
static void lay_out(const struct conv_last *job, const float *weight, float *to)
{
    const struct td_conv *c = job->c;
    int64_t area = td_conv_positions(c), n = c->out_channels;
    for (int64_t v = 0; v < job->vectors; v += 2) {
        int64_t lanes = v + 1 < job->vectors ? 2 * TD_LANES : TD_LANES;
        for (int64_t p = 0; p < area; p++)
            for (int64_t i = 0; i < c->in_channels; i++)
                for (int64_t l = 0; l < lanes; l++) {
                    int64_t o = v * TD_LANES + l;
                    *to++ = o < n ? weight[(o * c->in_channels + i) * area + p] : 0;
                }
    }
}

/* ---- sums ---- */

/* sum[n][vectors] += in[n][run] * weight[run][vectors], rows of in that are step apart */
TD_INLINE void add(const float *in, int64_t step, const float *weight, int64_t run, td_vf *sum,
                   const int n, const int vectors)
{
    for (int64_t k = 0; k < run; k++, weight += vectors * TD_LANES) {
        td_vf w[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            w[v] = td_load(weight + v * TD_LANES);
#pragma GCC unroll 16
        for (int t = 0; t < n; t++) {
            td_vf x = td_set(in[t * step + k]);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++)
                sum[t * vectors + v] = td_fma(x, w[v], sum[t * vectors + v]);
        }
    }
}

/* n results next to each other from x on, of the panel whose first vector is v. */
TD_INLINE void results(const struct conv_row *r, int64_t x, int64_t v, const int n,
                       const int vectors)
{
    const struct conv_last *job = r->job;
    const struct td_conv *c = job->c;
    const int64_t channels = c->out_channels;
    const int64_t run = c->kernel[1] * c->in_channels, size = run * vectors * TD_LANES;
    const float *weight = job->weight + v * TD_LANES * job->positions + r->first * size;
    float *out = r->out + x * channels + v * TD_LANES;
    float line[WIDE * TD_CONV_RUN];
    td_vf sum[2 * TILE];
#pragma GCC unroll 32
    for (int t = 0; t < n * vectors; t++)
        sum[t] = td_load(job->bias + (v + t % vectors) * TD_LANES);
    for (int64_t i = r->first; i < r->end; i++, weight += size) {
        int64_t step;
        const float *in = conv_run(r, i, x, n, line, &step);
        add(in, step, weight, run, sum, n, vectors);
    }
    conv_posts_early(&job->posts, sum, n * vectors);
#pragma GCC unroll 16
    for (int t = 0; t < n; t++, out += channels)
#pragma GCC unroll 2
        for (int i = 0; i < vectors; i++)
            td_store_next(out + i * TD_LANES, channels - (v + i) * TD_LANES, sum[t * vectors + i]);
}

typedef void results_of(const struct conv_row *r, int64_t x, int64_t v);
#define RESULTS(n, vectors)                                                                        \
    static __attribute__((noinline)) void results_##n##_##vectors(const struct conv_row *r,        \
                                                                  int64_t x, int64_t v)            \
    {                                                                                              \
        results(r, x, v, n, vectors);                                                              \
    }
#if TD_VBYTES == 64
#define EACH_TILE(does) does(12) does(8) does(4) does(2) does(1)
#else
#define EACH_TILE(does) does(6) does(4) does(2) does(1)
#endif
#define BOTH(n) RESULTS(n, 1) RESULTS(n, 2)
EACH_TILE(BOTH)
#if WIDE > TILE
RESULTS(12, 1)
#endif

static const struct {
    int n;
    results_of *way[2];
} tiles[] = {
#if WIDE > TILE
    {WIDE, {results_12_1}}, /* more than any tile of two vectors has to be */
#endif
#define WAY(n) {n, {results_##n##_1, results_##n##_2}},
    EACH_TILE(WAY)};

/* ---- rows ---- */

/* A row's results of a panel, in tiles of about the same size. A tile that is wider than what is
 * left begins earlier, and computes some results again. */
static void panel(const struct conv_row *r, int64_t v)
{
    const int64_t size = r->job->c->size[1];
    const int way = v + 1 < r->job->vectors, most = way ? TILE : WIDE;
    for (int64_t x = 0, n; x < size; x += n) {
        int64_t left = size - x, count = (left + most - 1) / most,
                each = (left + count - 1) / count;
        int i = 0;
        while (tiles[i].n > size || (tiles[i].n > each && tiles[i + 1].n >= each))
            i++;
        n = tiles[i].n;
        x = n > left ? size - n : x;
        tiles[i].way[way](r, x, v);
    }
}

static void rows(void *arg, int64_t begin, int64_t end)
{
    const struct conv_last *job = arg;
    const struct td_conv *c = job->c;
    int64_t out = c->size[1] * job->channels;
    for (int64_t number = begin; number < end && !td_stopped(); number++) {
        struct conv_row r = conv_row_of(job, number);
        for (int64_t v = 0; v < job->vectors; v += 2)
            panel(&r, v);
        if (job->posts.rest.n)
            conv_posts_late(&job->posts, number * out, out);
    }
}

void TD_NAME(conv_direct)(const struct td_conv *c, int threads, void *scratch)
{
    static const char name[] = {'s', 'i', 'm', 'd', ' ', 'd', 'i', 'r', 'e', 'c', 't', 0};
    struct conv_last job;
    conv_last_begin(c, td_conv_positions(c) * c->in_channels, true, &job);
    conv_last_pack(&job, lay_out, "dir", name, scratch);
    int64_t each = c->size[1] * c->out_channels * job.positions;
    td_parallel(threads, c->images * c->size[0], 1 + (1 << 16) / each, rows, &job);
}
