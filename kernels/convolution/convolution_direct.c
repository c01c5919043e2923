/* Convolutions of FP32 with channels last. The pixels that a row of the kernel takes lie in one run
 * of memory, so a result is a product of as many runs as the kernel has rows with the weights,
 * which are packed in panels of one or two vectors of output channels. Results next to each other
 * are summed in registers over all rows of the kernel: TILE of two vectors, or WIDE of one. */
#define TD_REAL_BITS 32
#include "kernels/convolution/convolution_last.h"

#define WIDE 12
#if TD_VBYTES == 64
#define TILE 12 /* 24 of 32 registers */
#else
#define TILE 6 /* 12 of 16 registers */
#endif
_Static_assert(2 * TILE >= WIDE && WIDE <= TD_CONV_TILE, "sums and lines have room for either");

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

/* Back again: panels are of two vectors of channels, the last one maybe of one. */
static void undo(const struct td_tensor *plain, const void *packed, const void *key)
{
    const struct conv_last_key *of = key;
    const int64_t area = of->positions / of->in_channels, width = 2 * TD_LANES;
    const int64_t filled = (of->channels + TD_LANES - 1) / TD_LANES * TD_LANES;
    float *to = plain->data;
    for (int64_t o = 0; o < of->channels; o++) {
        const int64_t first = o / width * width;
        const int64_t lanes = filled - first < width ? filled - first : width;
        const float *from = (const float *)packed + first * of->positions + (o - first);
        for (int64_t i = 0; i < of->in_channels; i++)
            for (int64_t p = 0; p < area; p++)
                *to++ = from[(p * of->in_channels + i) * lanes];
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
    const int64_t part = vectors * TD_LANES;
    int64_t run = c->kernel[1] * c->in_channels;
    const float *weight = job->weight + v * TD_LANES * job->positions + r->first * run * part;
    float *out = r->out + x * channels + v * TD_LANES;
    float line[TD_CONV_LINE];
    td_vf sum[2 * TILE];
#pragma GCC unroll 32
    for (int t = 0; t < n * vectors; t++)
        sum[t] = td_load(job->bias + (v + t % vectors) * TD_LANES);
    const bool inside = conv_is_inside(r, x, n);
    for (int64_t i = r->first; i < r->end && inside; i++, weight += run * part)
        add(conv_pixel(r, i, x), c->stride[1] * c->in_channels, weight, run, sum, n, vectors);
    for (int64_t i = r->first; i < r->end && !inside; i++)
        for (struct conv_run u = {.end = 0}; u.end < c->kernel[1]; weight += run * part) {
            conv_run_next(r, i, x, n, c->in_channels >= TD_LANES, line, &u);
            run = (u.end - u.from) * c->in_channels;
            if (!u.before && !u.after)
                add(u.in, u.step, weight, run, sum, n, vectors);
            else if (n > 1 && u.before)
                add(u.in, u.step, weight, run, sum + vectors, n - 1, vectors);
            else if (n > 1)
                add(u.in, u.step, weight, run, sum, n - 1, vectors);
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
#define LOW(does, vectors)                                                                         \
    does(1, vectors) does(2, vectors) does(3, vectors) does(4, vectors) does(5, vectors)           \
        does(6, vectors)
#define HIGH(does, vectors)                                                                        \
    does(7, vectors) does(8, vectors) does(9, vectors) does(10, vectors) does(11, vectors)         \
        does(12, vectors)
LOW(RESULTS, 1)
HIGH(RESULTS, 1)
LOW(RESULTS, 2)
#if TILE == 12
HIGH(RESULTS, 2)
#endif

#define WAY(n, vectors) results_##n##_##vectors,
static results_of *const ways[2][WIDE] = {
    {LOW(WAY, 1) HIGH(WAY, 1)},
#if TILE == 12
    {LOW(WAY, 2) HIGH(WAY, 2)},
#else
    {LOW(WAY, 2)},
#endif
};

/* ---- rows ---- */

/* A row's results from x to end of a panel, in tiles of about the same size. */
static void panel(const struct conv_row *r, int64_t v, int64_t x, int64_t end)
{
    const int way = v + 1 < r->job->vectors, most = way ? TILE : WIDE;
    for (int64_t n; x < end; x += n) {
        n = td_even_block(end - x, most);
        ways[way][n - 1](r, x, v);
    }
}

/* ---- all of it ---- */

struct job {
    struct conv_last last;
    int64_t rows, block, panels; /* of the result, images after each other; rows in a block */
    int64_t parts;               /* of a row, where there are few of them for the threads */
};

/* A part of the columns of a panel of a block of rows. */
static void compute(const struct job *job, int64_t item)
{
    const struct conv_last *last = &job->last;
    const int64_t channels = last->channels, size = last->c->size[1], width = 2 * TD_LANES;
    int64_t part = item % job->parts, at = item / job->parts % job->panels * width;
    int64_t x = size * part / job->parts, end = size * (part + 1) / job->parts;
    int64_t number = item / job->parts / job->panels * job->block, after = number + job->block;
    after = after < job->rows ? after : job->rows;
    for (; number < after && !td_stopped(); number++) {
        struct conv_row r = conv_row_of(last, number);
        panel(&r, at / TD_LANES, x, end);
        conv_posts_late(&last->posts, (number * size + x) * channels + at, end - x,
                        channels - at < width ? channels - at : width);
    }
}

static void items(void *arg, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end && !td_stopped(); i++)
        compute(arg, i);
}

#define NEAR (3 << 17) /* bytes that stay in a second-level cache, beside others */

/* Rows that a panel is used for before the next one's turn comes. One, where all panels stay in a
 * cache; else as many as have their input there, but no more than leave threads equal shares. */
static int64_t block_of(const struct td_conv *c, const struct job *job, int threads)
{
    int64_t down = c->stride[0] < c->in[0] ? c->stride[0] : c->in[0];
    int64_t row = c->in[1] * c->in_channels * down * (int64_t)sizeof(float);
    int64_t weights = job->last.channels * job->last.positions * (int64_t)sizeof(float);
    int64_t most = 1 + job->rows * job->panels / (4 * (threads < 1 ? 1 : threads));
    int64_t rows = weights > NEAR ? 1 + NEAR / row : 1;
    rows = rows < most ? rows : most;
    return rows < job->rows ? rows : job->rows;
}

/* Into how many parts rows are cut, so that each thread has several items: none has fewer than
 * 2 * TILE results, but for a row that has. */
static int64_t parts_of(const struct td_conv *c, int64_t n, int threads)
{
    int64_t wanted = threads > 1 ? (4 * threads + n - 1) / n : 1, most = c->size[1] / (2 * TILE);
    wanted = wanted < most ? wanted : most;
    return wanted < 1 ? 1 : wanted;
}

void TD_NAME(conv_direct)(const struct td_conv *c, int threads, void *scratch)
{
    static const char name[] = {'s', 'i', 'm', 'd', ' ', 'd', 'i', 'r', 'e', 'c', 't', 0};
    struct job job = {.rows = c->images * c->size[0]};
    struct conv_last *last = &job.last;
    conv_last_begin(c, td_conv_positions(c) * c->in_channels, true, last);
    conv_last_pack(last, lay_out, "dir", name, undo, scratch);
    job.panels = (last->vectors + 1) / 2;
    job.block = block_of(c, &job, threads);
    int64_t whole = (job.rows + job.block - 1) / job.block * job.panels;
    job.parts = parts_of(c, whole, threads);
    int64_t each = job.block * c->size[1] * last->positions * 2 * TD_LANES / job.parts;
    td_parallel(threads, whole * job.parts, 1 + (1 << 16) / each, items, &job);
}
