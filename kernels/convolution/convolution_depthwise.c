/* The depthwise convolution in one and two dimensions, directly. With a small square kernel FP32 is
 * taken from where it lies (kernels/windows.h). Otherwise a strip of rows of one channel is laid
 * out with its padding, columns that are a stride apart next to each other, so that each position
 * of the kernel is a run of loads from one place. */
#include "kernels/convolution/convolution.h"
#include "kernels/reals.h"
#include "kernels/windows.h"

#include <string.h>

#define TILE (4 * L_LANES) /* results that are computed together */
_Static_assert(TD_DEPTHWISE_TILE % TILE == 0, "strips are filled up to whole tiles");

struct job {
    const struct td_conv *c;
    struct td_depthwise cut;
    char *scratch;
    int64_t items;         /* strips of all channels, or bands */
    int64_t bands;         /* of TD_WINDOWS_ROWS rows of one channel */
    td_windows_rows *rows; /* computes those; NULL: strips are laid out */
};

struct strip { /* of one channel's result */
    const struct job *job;
    float *rows, *line;
    int64_t channel; /* of the result, counted over all images */
    int64_t first, n;
    int64_t at[TD_DEPTHWISE_POSITIONS]; /* of each position of the kernel, its place in rows */
    float weight[TD_DEPTHWISE_POSITIONS];
    float bias;
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

/* Row y of the input, or padding. */
static void lay_row(const struct strip *s, int64_t y, float *to)
{
    const struct td_conv *c = s->job->c;
    const struct td_depthwise *cut = &s->job->cut;
    int w = cut->w, h = cut->h;
    int64_t stride = c->stride[w], before = c->padding[w];
    int64_t n = c->in[w] < cut->columns - before ? c->in[w] : cut->columns - before;
    memset(to, 0, (size_t)cut->row * sizeof *to);
    if (y < 0 || y >= c->in[h] || n <= 0)
        return;
    int64_t image = s->channel / (c->groups * c->out_channels);
    int64_t channel = s->channel % (c->groups * c->out_channels) / c->out_channels;
    int64_t from = ((image * c->groups + channel) * c->in[h] + y) * c->in[w];
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

/* count vectors from column x on of a row, over whose first position rows begins. */
TD_INLINE void compute(const struct strip *s, const float *rows, int64_t x, const int count,
                       float *to)
{
    const struct td_depthwise *cut = &s->job->cut;
    V sum[4] = {L_c(s->bias), L_c(s->bias), L_c(s->bias), L_c(s->bias)};
    for (int64_t p = 0; p < cut->positions; p++) {
        V weight = L_c(s->weight[p]);
        for (int k = 0; k < count; k++)
            sum[k] = L_fma(L_load(rows + s->at[p] + x + k * L_LANES), weight, sum[k]);
    }
    for (int k = 0; k < count; k++)
        L_store(to + k * L_LANES, sum[k]);
}

static void compute_row(const struct strip *s, int64_t y)
{
    const struct td_conv *c = s->job->c;
    const struct td_depthwise *cut = &s->job->cut;
    const float *rows = s->rows + (y - s->first) * c->stride[cut->h] * cut->row;
    int64_t width = c->size[cut->w], at = (s->channel * c->size[cut->h] + y) * width;
    float sums[TILE];
    for (int64_t x = 0; x < width; x += TILE) {
        int64_t n = width - x < TILE ? width - x : TILE;
        if (n > 2 * L_LANES)
            compute(s, rows, x, 4, sums);
        else if (n > L_LANES)
            compute(s, rows, x, 2, sums);
        else
            compute(s, rows, x, 1, sums);
        for (int64_t i = 0; i < n; i += L_LANES)
            L_put_next(c->out->data, at + x + i, n - i, c->out->dtype, L_load(sums + i));
    }
}

static void begin_strip(struct strip *s)
{
    const struct td_conv *c = s->job->c;
    const struct td_depthwise *cut = &s->job->cut;
    int w = cut->w, h = cut->h;
    int64_t own = s->channel % (c->groups * c->out_channels);
    for (int64_t i = 0; i < cut->positions; i++) {
        int64_t row = i / c->kernel[w] * c->dilation[h], column = i % c->kernel[w] * c->dilation[w];
        s->at[i] = row * cut->row + column % c->stride[w] * cut->wide + column / c->stride[w];
        s->weight[i] = number(c->weight, own * cut->positions + i);
    }
    s->bias = c->bias ? number(c->bias, own) : 0;
    int64_t n = (s->n - 1) * c->stride[h] + (c->kernel[h] - 1) * c->dilation[h] + 1;
    for (int64_t i = 0; i < n; i++)
        lay_row(s, s->first * c->stride[h] - c->padding[h] + i, s->rows + i * cut->row);
}

static void slots(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    const struct td_conv *c = job->c;
    for (int64_t slot = begin; slot < end; slot++) {
        struct strip s = {.job = job};
        s.line = (float *)(void *)(job->scratch + (size_t)slot * job->cut.slot);
        s.rows = s.line + job->cut.line;
        int64_t i = job->items * slot / job->cut.slots;
        for (; i < job->items * (slot + 1) / job->cut.slots && !td_stopped(); i++) {
            int64_t size = c->size[job->cut.h], n = job->cut.strip;
            s.channel = i / job->cut.strips;
            s.first = i % job->cut.strips * n;
            s.n = size - s.first < n ? size - s.first : n;
            begin_strip(&s);
            for (int64_t y = s.first; y < s.first + s.n; y++)
                compute_row(&s, y);
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
    bool square = c->dims == 2 && kernel == c->kernel[1] && stride == c->stride[1] &&
                  c->dilation[0] == 1 && c->dilation[1] == 1;
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

void TD_NAME(conv_depthwise)(const struct td_conv *c, const struct td_depthwise *cut, void *scratch)
{
    struct job job = {.c = c, .cut = *cut, .scratch = scratch, .rows = rows_of(c)};
    job.bands = (c->size[0] + TD_WINDOWS_ROWS - 1) / TD_WINDOWS_ROWS;
    job.items = c->images * c->groups * c->out_channels * (job.rows ? job.bands : cut->strips);
    if (job.rows)
        td_parallel(cut->slots, job.items, (job.items + cut->slots - 1) / cut->slots, bands, &job);
    else
        td_parallel(cut->slots, cut->slots, 1, slots, &job);
}
