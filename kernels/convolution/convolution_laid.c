/* Convolutions in one and two dimensions of what is laid out: a strip of rows of a group's channels
 * with its padding, columns that are a stride apart next to each other. Each position of the kernel
 * is a run of loads from one place then, and a block of output channels by neighbouring results is
 * summed in registers as a block of a product is (kernels/gemm). Depthwise ones are those of one
 * channel; small square kernels of these in FP32 are taken tile by tile (kernels/windows.h). */
#include "kernels/convolution/convolution.h"
#include "kernels/reals.h"
#include "kernels/windows.h"

#include <string.h>

#if TD_VBYTES == 64
#define MR 12 /* output channels of a block of two vectors */
#else
#define MR 6
#endif

struct job {
    const struct td_conv *c;
    struct td_laid cut;
    char *scratch;
    bool far;              /* of the result, as td_block has it */
    int64_t items;         /* strips of all groups of all images, or bands */
    int64_t bands;         /* of TD_WINDOWS_ROWS rows of one channel */
    td_windows_rows *rows; /* computes those; NULL: strips are laid out */
};

struct strip { /* of one group's result */
    const struct job *job;
    float *rows, *line;
    int64_t group;       /* counted over all images */
    int64_t first, n;    /* rows of the result */
    int32_t *at;         /* of each position of the kernel, its place in rows */
    const float *weight; /* of the group: [out_channels][positions] */
};

static float number(const struct td_tensor *t, int64_t at)
{
    return L_get_n(t->data, at, 1, t->dtype, 0)[0];
}

/* Column i of a row, which begins with the padding, goes to i / stride of part i % stride. */
static void deal(float *to, const float *line, int64_t wide, int64_t columns, int64_t stride)
{
    for (int64_t part = 0; part < stride; part++)
        for (int64_t i = 0; i * stride + part < columns; i++)
            to[part * wide + i] = line[i * stride + part];
}

/* n elements from number from on, side by side; zeros behind them to a whole vector. */
TD_INLINE void lay_one(float *to, const struct td_tensor *in, int64_t from, int64_t n)
{
    for (int64_t i = 0; i < n; i += L_LANES)
        L_store(to + i, L_next(in->data, from + i, n - i, in->dtype, 0));
}

/* The same for a stride of 2: every other one to even, those between to odd. */
TD_INLINE void lay_two(float *even, float *odd, const struct td_tensor *in, int64_t from, int64_t n)
{
    for (int64_t i = 0; i < n; i += 2 * L_LANES) {
        int64_t left = n - i - L_LANES;
        V a = L_next(in->data, from + i, n - i, in->dtype, 0);
        V b = left > 0 ? L_next(in->data, from + i + L_LANES, left, in->dtype, 0) : L_c(0);
        L_store(even + i / 2, td_every_other(a, b, 0));
        L_store(odd + i / 2, td_every_other(a, b, 1));
    }
}

/* Row y of a channel of the input, counted over all, or padding. */
static void lay_row(const struct strip *s, int64_t channel, int64_t y, float *to)
{
    const struct td_conv *c = s->job->c;
    const struct td_laid *cut = &s->job->cut;
    int w = cut->w, h = cut->h;
    int64_t stride = c->stride[w], before = c->padding[w];
    int64_t n = c->in[w] < cut->columns - before ? c->in[w] : cut->columns - before;
    memset(to, 0, (size_t)cut->row * sizeof *to);
    if (y < 0 || y >= c->in[h] || n <= 0)
        return;
    int64_t from = (channel * c->in[h] + y) * c->in[w];
    if (stride == 1)
        lay_one(to + before, c->input, from, n);
    else if (stride == 2)
        lay_two(to + before % 2 * cut->wide + before / 2,
                to + (before + 1) % 2 * cut->wide + (before + 1) / 2, c->input, from, n);
    else {
        memset(s->line, 0, (size_t)before * sizeof *s->line);
        lay_one(s->line + before, c->input, from, n);
        deal(to, s->line, cut->wide, before + n, stride);
    }
}

/* mr output channels from `out` on, of which bias is, nv vectors of results from column x on of row
 * y. */
TD_INLINE void block(const struct strip *s, int64_t y, int64_t x, int64_t out, const float *bias,
                     const int mr, const int nv)
{
    const struct td_conv *c = s->job->c;
    const struct td_laid *cut = &s->job->cut;
    const float *rows = s->rows + (y - s->first) * c->stride[cut->h] * cut->row + x;
    const float *weight = s->weight + out * cut->positions;
    int64_t width = c->size[cut->w], plane = c->size[cut->h] * width;
    int64_t at = (s->group * c->out_channels + out) * plane + y * width + x;
    V sum[MR][4], v[4];
    for (int i = 0; i < mr && s->job->far; i++)
        for (int k = 0; k < nv; k += 64 / TD_VBYTES)
            __builtin_prefetch((float *)c->out->data + at + i * plane + k * L_LANES, 1);
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int k = 0; k < nv; k++)
            sum[i][k] = L_c(bias[i]);
    for (int64_t p = 0; p < cut->positions; p++) {
#pragma GCC unroll 4
        for (int k = 0; k < nv; k++)
            v[k] = L_load(rows + s->at[p] + k * L_LANES);
#pragma GCC unroll 16
        for (int i = 0; i < mr; i++) {
            V w = L_c(weight[i * cut->positions + p]);
#pragma GCC unroll 4
            for (int k = 0; k < nv; k++)
                sum[i][k] = L_fma(v[k], w, sum[i][k]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int k = 0; k < nv; k++)
            if (x + k * L_LANES < width)
                L_put_next(c->out->data, at + i * plane + k * L_LANES, width - x - k * L_LANES,
                           c->out->dtype, sum[i][k]);
}

/* The results of mr output channels, a single one's in wider blocks. */
TD_INLINE void channels(const struct strip *s, int64_t out, const int mr)
{
    const struct td_conv *c = s->job->c;
    const int most = mr == 1 ? 4 : 2;
    int64_t width = c->size[s->job->cut.w], own = s->group % c->groups * c->out_channels + out;
    float bias[MR];
    for (int i = 0; i < mr; i++)
        bias[i] = c->bias ? number(c->bias, own + i) : 0;
    for (int64_t y = s->first; y < s->first + s->n; y++)
        for (int64_t x = 0; x < width; x += most * L_LANES)
            if (most == 4 && width - x > 2 * L_LANES)
                block(s, y, x, out, bias, mr, most);
            else if (width - x > L_LANES)
                block(s, y, x, out, bias, mr, 2);
            else
                block(s, y, x, out, bias, mr, 1);
}

static void compute(const struct strip *s)
{
    int64_t outs = s->job->c->out_channels;
    for (int64_t out = 0, left; (left = outs - out) > 0;) {
        if (left >= MR) {
            channels(s, out, MR);
            out += MR;
#if MR > 8
        } else if (left >= 8) {
            channels(s, out, 8);
            out += 8;
#endif
        } else if (left >= 4) {
            channels(s, out, 4);
            out += 4;
        } else {
            channels(s, out++, 1);
        }
    }
}

static void lay(const struct strip *s)
{
    const struct td_conv *c = s->job->c;
    const struct td_laid *cut = &s->job->cut;
    int h = cut->h;
    int64_t n = (s->n - 1) * c->stride[h] + (c->kernel[h] - 1) * c->dilation[h] + 1;
    for (int64_t i = 0; i < c->in_channels; i++)
        for (int64_t y = 0; y < n; y++)
            lay_row(s, s->group * c->in_channels + i, s->first * c->stride[h] - c->padding[h] + y,
                    s->rows + (i * cut->rows + y) * cut->row);
}

/* Where a slot's strips find each position, which is the same in all. */
static void place(const struct job *job, int32_t *at)
{
    const struct td_conv *c = job->c;
    const struct td_laid *cut = &job->cut;
    int64_t each = td_conv_positions(c);
    for (int64_t i = 0; i < cut->positions; i++) {
        int64_t row = i % each / c->kernel[cut->w] * c->dilation[cut->h] + i / each * cut->rows;
        int64_t column = i % c->kernel[cut->w] * c->dilation[cut->w], stride = c->stride[cut->w];
        at[i] = (int32_t)(row * cut->row + column % stride * cut->wide + column / stride);
    }
}

/* The weights of a group in FP32: where they are, or in the slot. */
static const float *weights_of(const struct strip *s, char *slot)
{
    const struct td_conv *c = s->job->c;
    int64_t n = c->out_channels * s->job->cut.positions, at = s->group % c->groups * n;
    float *to = (float *)(void *)(slot + s->job->cut.weight);
    if (c->weight->dtype == TD_f32)
        return (const float *)c->weight->data + at;
    lay_one(to, c->weight, at, n);
    return to;
}

static void slots(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    const struct td_conv *c = job->c;
    for (int64_t slot = begin; slot < end; slot++) {
        char *room = job->scratch + (size_t)slot * job->cut.slot;
        struct strip s = {.job = job, .at = (int32_t *)(void *)(room + job->cut.at)};
        s.line = (float *)(void *)room;
        s.rows = s.line + job->cut.line;
        place(job, s.at);
        int64_t i = job->items * slot / job->cut.slots;
        for (; i < job->items * (slot + 1) / job->cut.slots && !td_stopped(); i++) {
            int64_t size = c->size[job->cut.h], n = job->cut.strip;
            s.group = i / job->cut.strips;
            s.first = i % job->cut.strips * n;
            s.n = size - s.first < n ? size - s.first : n;
            s.weight = weights_of(&s, room);
            lay(&s);
            compute(&s);
        }
    }
}

/* ---- small square kernels of FP32, without a layout of their own ---- */

TD_WINDOWS(rows_3_1, TD_WINDOWS_products, 3, 1)
TD_WINDOWS(rows_3_2, TD_WINDOWS_products, 3, 2)
TD_WINDOWS(rows_5_1, TD_WINDOWS_products, 5, 1)
TD_WINDOWS(rows_5_2, TD_WINDOWS_products, 5, 2)
TD_WINDOWS(rows_7_1, TD_WINDOWS_products, 7, 1)
TD_WINDOWS(rows_7_2, TD_WINDOWS_products, 7, 2)

static td_windows_rows *rows_of(const struct td_conv *c)
{
    static td_windows_rows *const rows[][2] = {
        {rows_3_1, rows_3_2}, {rows_5_1, rows_5_2}, {rows_7_1, rows_7_2}};
    int64_t kernel = c->kernel[0], stride = c->stride[0];
    bool square = c->dims == 2 && c->in_channels == 1 && kernel == c->kernel[1] &&
                  stride == c->stride[1] && c->dilation[0] == 1 && c->dilation[1] == 1;
    bool real = c->input->dtype == TD_f32 && c->weight->dtype == TD_f32 && c->out->dtype == TD_f32;
    bool has = (kernel == 3 || kernel == 5 || kernel == 7) && stride <= 2;
    return TD_WINDOWS_WORTH && square && real && has ? rows[kernel / 2 - 1][stride - 1] : NULL;
}

static void bands(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    const struct td_conv *c = job->c;
    int64_t each = job->bands, n;
    for (int64_t i = begin; i < end && !td_stopped(); i += n) {
        int64_t channel = i / each, own = channel % (c->groups * c->out_channels);
        int64_t first = i % each, last;
        n = each - first < end - i ? each - first : end - i;
        last = (first + n) * TD_WINDOWS_ROWS;
        struct td_windows w = {
            .in = (const float *)c->input->data + channel / c->out_channels * c->in[0] * c->in[1],
            .out = (float *)c->out->data + channel * c->size[0] * c->size[1],
            .height = c->in[0],
            .width = c->in[1],
            .columns = c->size[1],
            .above = c->padding[0],
            .left = c->padding[1],
            .weight = (const float *)c->weight->data + own * c->kernel[0] * c->kernel[1],
            .bias = c->bias ? number(c->bias, own) : 0};
        job->rows(&w, first * TD_WINDOWS_ROWS, last < c->size[0] ? last : c->size[0]);
    }
}

void TD_NAME(conv_laid)(const struct td_conv *c, const struct td_laid *cut, void *scratch)
{
    struct job job = {.c = c, .cut = *cut, .scratch = scratch, .rows = rows_of(c)};
    job.far = c->out->dtype == TD_f32 && td_gemm_is_far((int64_t)td_nbytes(c->out));
    job.bands = (c->size[0] + TD_WINDOWS_ROWS - 1) / TD_WINDOWS_ROWS;
    job.items = c->images * c->groups * (job.rows ? c->out_channels * job.bands : cut->strips);
    if (job.rows)
        td_parallel(cut->slots, job.items, (job.items + cut->slots - 1) / cut->slots, bands, &job);
    else
        td_parallel(cut->slots, cut->slots, 1, slots, &job);
}
