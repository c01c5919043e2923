/* Convolutions of FP32 with channels last and few channels: the first ones of a network. The pixels
 * that a row of the kernel takes lie in one run of memory, so a result is a product of as many runs
 * as the kernel has rows with the weights, which are packed in panels of one or two vectors of
 * output channels. TILE results next to each other are summed in registers over all rows of the
 * kernel. */
#define TD_REAL_BITS 32
#include "kernels/convolution/convolution_posts.h"
#include "kernels/weight.h"

#include <string.h>

#if TD_VBYTES == 64
#define TILE 12 /* results of two vectors, in 32 registers */
#else
#define TILE 6 /* in 16 */
#endif

struct job {
    const struct td_conv *c;
    int64_t run, positions; /* elements of a row of the kernel, and of all its rows */
    int64_t vectors;        /* of output channels */
    const float *weight;    /* panels of two vectors: [positions][2 lanes]; the last may have one */
    bool zeros;             /* padding is multiplied, too: some weight is not finite */
    const float *bias;      /* [vectors][lanes] */
    struct conv_posts posts;
};

struct row { /* of the result */
    const struct job *job;
    const float *in; /* of its image, where the kernel's first row is, which may be padding */
    float *out;
    int64_t down;       /* elements to the next row of the kernel */
    int64_t first, end; /* rows of the kernel that are taken, */
    int64_t low, high;  /* and those of them that lie inside */
};

static const float padding[TD_CONV_RUN];

/* ---- weights ---- */

struct key {
    int64_t channels, positions, out_channels;
    int32_t lanes;
    char owner[4];
};

/* [out, in, rows, columns] to [panel][rows][columns][in][lanes]; the number behind them is not 0 if
 * some weights are not finite. */
static int fill(void *packed, const struct td_tensor *plain, void *arg)
{
    const struct job *job = arg;
    const struct td_conv *c = job->c;
    const float *weight = plain->data;
    int64_t area = td_conv_positions(c), n = c->out_channels;
    float *to = packed, odd = 0;
    for (int64_t i = 0; i < td_numel(plain); i++)
        odd = isfinite(weight[i]) ? odd : 1;
    for (int64_t v = 0; v < job->vectors; v += 2) {
        int64_t lanes = v + 1 < job->vectors ? 2 * TD_LANES : TD_LANES;
        for (int64_t p = 0; p < area; p++)
            for (int64_t i = 0; i < c->in_channels; i++)
                for (int64_t l = 0; l < lanes; l++) {
                    int64_t o = v * TD_LANES + l;
                    *to++ = o < n ? weight[(o * c->in_channels + i) * area + p] : 0;
                }
    }
    *to = odd;
    return 0;
}

/* The weights, kept with a stored one or in the scratch, and behind these the bias. */
static void pack(struct job *job, float *scratch)
{
    static const char name[] = {'s', 'i', 'm', 'd', ' ', 'd', 'i', 'r', 'e', 'c', 't', 0};
    const struct td_conv *c = job->c;
    int64_t lanes = job->vectors * TD_LANES;
    size_t bytes = (size_t)(lanes * job->positions + 1) * sizeof(float);
    struct key key = {c->in_channels, job->positions, c->out_channels, TD_LANES, "dir"};
    struct td_weight *stored = td_weight_to_pack(c->weight);
    float *bias = scratch + lanes * job->positions + TD_LANES;
    job->weight =
        stored ? td_weight_pack(stored, &key, sizeof key, name, bytes, fill, job, NULL) : NULL;
    if (!job->weight) {
        fill(scratch, c->weight, job);
        job->weight = scratch;
    }
    job->zeros = job->weight[lanes * job->positions] != 0;
    for (int64_t l = 0; l < lanes; l++)
        bias[l] = c->bias && l < c->out_channels ? ((const float *)c->bias->data)[l] : 0;
    job->bias = bias;
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

/* Copies what n results take of a row of the input, from column at on, with zeros for padding. */
static void copy_padded(const struct td_conv *c, const float *in, int64_t at, int64_t n, float *to)
{
    int64_t columns = (n - 1) * c->stride[1] + c->kernel[1], channels = c->in_channels;
    int64_t before = at < 0 ? -at : 0, inside = c->in[1] - at - before;
    before = before < columns ? before : columns;
    inside = inside < columns - before ? inside : columns - before;
    inside = inside > 0 ? inside : 0;
    memset(to, 0, (size_t)(before * channels) * sizeof *to);
    memcpy(to + before * channels, in + (at + before) * channels,
           (size_t)(inside * channels) * sizeof *to);
    memset(to + (before + inside) * channels, 0,
           (size_t)((columns - before - inside) * channels) * sizeof *to);
}

/* n results next to each other from x on, of the panel whose first vector is v. */
TD_INLINE void results(const struct row *r, int64_t x, int64_t v, const int n, const int vectors)
{
    const struct job *job = r->job;
    const struct td_conv *c = job->c;
    const int64_t channels = c->out_channels, at = x * c->stride[1] - c->padding[1];
    const int64_t size = job->run * vectors * TD_LANES; /* of weights of a row of the kernel */
    const float *weight = job->weight + v * TD_LANES * job->positions + r->first * size;
    float *out = r->out + x * channels + v * TD_LANES;
    bool whole = at >= 0 && at + (n - 1) * c->stride[1] + c->kernel[1] <= c->in[1];
    float line[TILE * TD_CONV_RUN]; /* as the stride is no wider than the kernel, it has room */
    td_vf sum[2 * TILE];
#pragma GCC unroll 32
    for (int t = 0; t < n * vectors; t++)
        sum[t] = td_load(job->bias + (v + t % vectors) * TD_LANES);
    for (int64_t i = r->first; i < r->end; i++, weight += size) {
        const float *in = r->in + i * r->down;
        bool inside = i >= r->low && i < r->high;
        if (inside && !whole)
            copy_padded(c, in, at, n, line);
        in = !inside ? padding : whole ? in + at * c->in_channels : line;
        add(in, inside ? c->stride[1] * c->in_channels : 0, weight, job->run, sum, n, vectors);
    }
    conv_posts_early(&job->posts, sum, n * vectors);
#pragma GCC unroll 16
    for (int t = 0; t < n; t++, out += channels)
#pragma GCC unroll 2
        for (int i = 0; i < vectors; i++)
            td_store_next(out + i * TD_LANES, channels - (v + i) * TD_LANES, sum[t * vectors + i]);
}

typedef void results_of(const struct row *r, int64_t x, int64_t v);
#define RESULTS(n, vectors)                                                                        \
    static __attribute__((noinline)) void results_##n##_##vectors(const struct row *r, int64_t x,  \
                                                                  int64_t v)                       \
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

static const struct {
    int n;
    results_of *way[2];
} tiles[] = {
#define WAY(n) {n, {results_##n##_1, results_##n##_2}},
    EACH_TILE(WAY)};

/* ---- rows ---- */

/* A row's results of a panel, in tiles of about the same size. A tile that is wider than what is
 * left begins earlier, and computes some results again. */
static void panel(const struct row *r, int64_t v)
{
    const int64_t size = r->job->c->size[1];
    const int way = v + 1 < r->job->vectors;
    for (int64_t x = 0, n; x < size; x += n) {
        int64_t left = size - x, count = (left + TILE - 1) / TILE,
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
    const struct job *job = arg;
    const struct td_conv *c = job->c;
    int64_t width = c->in[1] * c->in_channels, out = c->size[1] * c->out_channels;
    for (int64_t number = begin; number < end && !td_stopped(); number++) {
        int64_t at = number % c->size[0] * c->stride[0] - c->padding[0], d = c->dilation[0];
        int64_t first = at < 0 ? (d - 1 - at) / d : 0, inside = (c->in[0] - at + d - 1) / d;
        int64_t last = inside < c->kernel[0] ? inside : c->kernel[0];
        struct row r = {.job = job, .down = d * width, .low = first, .high = last};
        r.first = job->zeros ? 0 : first;
        r.end = job->zeros ? c->kernel[0] : last;
        r.in = (const float *)c->input->data + (number / c->size[0] * c->in[0] + at) * width;
        r.out = (float *)c->out->data + number * out;
        for (int64_t v = 0; v < job->vectors; v += 2)
            panel(&r, v);
        if (job->posts.rest.n)
            conv_posts_late(&job->posts, c->out_channels, number * out, out);
    }
}

void TD_NAME(conv_direct)(const struct td_conv *c, int threads, void *scratch)
{
    struct job job = {.c = c, .run = c->kernel[1] * c->in_channels};
    job.positions = job.run * c->kernel[0];
    job.vectors = (c->out_channels + TD_LANES - 1) / TD_LANES;
    conv_posts_split(c, &job.posts);
    pack(&job, scratch);
    int64_t each = c->size[1] * c->out_channels * job.positions;
    td_parallel(threads, c->images * c->size[0], 1 + (1 << 16) / each, rows, &job);
}
