/* Transposed convolutions of FP32 with channels first, in one or two dimensions. For a block of
 * channels of the result, the product of the weight [channels * positions][in] with pixels of the
 * input [in][pixels] has what each pixel gives at each position of the kernel. These rows are then
 * added up where they belong (col2im, the way back of im2col). Nothing is multiplied by the zeros
 * that a stride puts between pixels.
 *
 * Columns of the result with the same remainder modulo the stride are summed in one contiguous
 * line, so that the additions are vectors; the lines are interleaved at the end. */
#include "kernels/convolution/convolution.h"
#include "kernels/gemm/gemm_block.h"

struct job {
    const struct td_conv *c;
    struct td_col2im cut;
    const float *weight;
    char *scratch;
};

struct strip { /* of the results of a block of channels of one image */
    const struct job *job;
    int64_t group;                           /* counted over all images */
    int64_t channel, n;                      /* of the group: the first, and how many */
    int64_t y, rows, x, columns;             /* the results */
    int64_t in_y, in_rows, in_x, in_columns; /* what they take of the input */
    float *panel, *sums, *lines;
    struct td_col2im_run *run; /* by position of the kernel's row */
};

/* ins channels of the input, whose elements j to n are wanted, as a panel. */
static void pack(float *panel, const float *in, int64_t plane, int64_t ins, int64_t j, int64_t n)
{
    for (int64_t i = 0; i < ins; i++, in += plane, panel += TD_NR)
#pragma GCC unroll 2
        for (int v = 0; v < TD_NR; v += TD_LANES)
            td_store(panel + v, j + v < n ? td_load_next(in + j + v, n - j - v, 0) : td_set(0));
}

static void multiply(const struct strip *s)
{
    const struct td_conv *c = s->job->c;
    const struct td_col2im *cut = &s->job->cut;
    int64_t width = c->in[cut->w], plane = c->in[cut->h] * width, ins = c->in_channels;
    int64_t n = s->in_rows == 1 ? s->in_columns : s->in_rows * width;
    int64_t rows = (s->group % c->groups * c->out_channels + s->channel) * cut->positions;
    const float *in = c->input->data;
    in += s->group * ins * plane + s->in_y * width + s->in_x;
    for (int64_t j = 0; j < n; j += TD_NR)
        for (int64_t i = 0; i < ins; i += TD_GEMM_DEPTH) {
            struct td_block t = {.k = ins - i < TD_GEMM_DEPTH ? ins - i : TD_GEMM_DEPTH,
                                 .a = s->job->weight + rows * ins + i,
                                 .lda = ins,
                                 .b = s->panel,
                                 .ldb = TD_NR,
                                 .c = s->sums + j,
                                 .ldc = cut->columns,
                                 .add = i > 0};
            pack(s->panel, in + i * plane, plane, t.k, j, n);
            td_block_column(t, s->n * cut->positions, TD_NR, TD_STEP_f32);
        }
}

/* Adds what n pixels give to a line. */
static void add(float *line, const float *sums, int64_t n)
{
    for (int64_t i = 0; i < n; i += TD_LANES) {
        td_vf sum = td_load_next(line + i, n - i, 0) + td_load_next(sums + i, n - i, 0);
        td_store_next(line + i, n - i, sum);
    }
}

/* Where what a row of pixels gives at position j of the kernel's row is added: n of them. */
static struct td_col2im_run run_of(const struct strip *s, int64_t j)
{
    const struct td_conv *c = s->job->c;
    const struct td_col2im *cut = &s->job->cut;
    int64_t stride = c->stride[cut->w];
    /* Pixel x goes to column x * stride + off of the strip, which is number x + shift of its line.
     */
    int64_t off = j * c->dilation[cut->w] - c->padding[cut->w] - s->x;
    int64_t part = off % stride + (off % stride < 0 ? stride : 0), shift = (off - part) / stride;
    int64_t size = (s->columns - part + stride - 1) / stride;
    int64_t begin = s->in_x < -shift ? -shift : s->in_x, end = s->in_x + s->in_columns;
    end = end < size - shift ? end : size - shift;
    return begin < end ? (struct td_col2im_run){.from = begin - s->in_x,
                                                .to = part * cut->line + begin + shift,
                                                .n = end - begin}
                       : (struct td_col2im_run){0};
}

/* The vectors' elements in turns: the first of the pair, or the second. */
TD_INLINE td_vf alternate(td_vf a, td_vf b, const int second)
{
    td_vi place;
    for (int i = 0; i < TD_LANES; i++)
        place[i] = (i + second * TD_LANES) / 2 + i % 2 * TD_LANES;
    return __builtin_shuffle(a, b, place);
}

static void interleave(float *to, const float *lines, int64_t line, int64_t n, int64_t stride)
{
    if (stride == 1)
        memcpy(to, lines, (size_t)n * sizeof *to);
    else if (stride == 2)
        for (int64_t i = 0; i < n; i += 2 * TD_LANES) {
            td_vf a = td_load(lines + i / 2), b = td_load(lines + line + i / 2);
            td_store_next(to + i, n - i, alternate(a, b, 0));
            if (n - i > TD_LANES)
                td_store_next(to + i + TD_LANES, n - i - TD_LANES, alternate(a, b, 1));
        }
    else
        for (int64_t part = 0; part < stride; part++)
            for (int64_t i = part, k = part * line; i < n; i += stride, k++)
                to[i] = lines[k];
}

/* Row y of a channel, counted in the block. */
static void row(const struct strip *s, int64_t channel, int64_t y, float bias, float *to)
{
    const struct td_conv *c = s->job->c;
    const struct td_col2im *cut = &s->job->cut;
    int64_t kernel = c->kernel[cut->w];
    const uint32_t stride = (uint32_t)c->stride[cut->h];
    for (int64_t i = 0; i < c->stride[cut->w] * cut->line; i += TD_LANES)
        td_store(s->lines + i, td_set(bias));
    for (int64_t i = 0; i < c->kernel[cut->h]; i++) {
        int64_t at = y + c->padding[cut->h] - i * c->dilation[cut->h];
        int64_t pixel = at < 0             ? -1
                        : at <= UINT32_MAX ? (uint32_t)at / stride /* a third of 64 bits' time */
                                           : at / stride;
        if (pixel < s->in_y || pixel >= s->in_y + s->in_rows || pixel * stride != at)
            continue;
        const float *sums = s->sums + (pixel - s->in_y) * s->in_columns +
                            (channel * cut->positions + i * kernel) * cut->columns;
        for (int64_t j = 0; j < kernel; j++, sums += cut->columns)
            add(s->lines + s->run[j].to, sums + s->run[j].from, s->run[j].n);
    }
    interleave(to, s->lines, cut->line, s->columns, c->stride[cut->w]);
}

static void compute(const struct strip *s)
{
    const struct td_conv *c = s->job->c;
    const struct td_col2im *cut = &s->job->cut;
    int64_t width = c->size[cut->w], plane = c->size[cut->h] * width;
    int64_t own = s->group % c->groups * c->out_channels + s->channel;
    float *out = (float *)c->out->data + (s->group * c->out_channels + s->channel) * plane;
    multiply(s);
    for (int64_t j = 0; j < c->kernel[cut->w]; j++)
        s->run[j] = run_of(s, j);
    for (int64_t o = 0; o < s->n && !td_stopped(); o++)
        for (int64_t y = s->y; y < s->y + s->rows; y++)
            row(s, o, y, c->bias ? ((const float *)c->bias->data)[own + o] : 0,
                out + o * plane + y * width + s->x);
}

static struct strip strip_of(const struct job *job, int64_t item, int64_t slot)
{
    const struct td_conv *c = job->c;
    const struct td_col2im *cut = &job->cut;
    int64_t block = item / cut->strips % cut->blocks, at = item % cut->strips * cut->strip;
    char *room = job->scratch + cut->weight_bytes + (size_t)slot * cut->slot_bytes;
    struct strip s = {.job = job,
                      .group = item / cut->strips / cut->blocks,
                      .channel = block * cut->channels,
                      .rows = c->size[cut->h],
                      .columns = c->size[cut->w],
                      .panel = (float *)room,
                      .sums = (float *)(room + cut->at_sums),
                      .lines = (float *)(room + cut->at_lines),
                      .run = (struct td_col2im_run *)(room + cut->at_runs)};
    int64_t left = c->out_channels - s.channel, size = c->size[cut->strips_of];
    s.n = left < cut->channels ? left : cut->channels;
    bool down = cut->strips_of == cut->h;
    *(down ? &s.y : &s.x) = at;
    *(down ? &s.rows : &s.columns) = size - at < cut->strip ? size - at : cut->strip;
    td_col2im_range(c, cut->h, s.y, s.rows, &s.in_y, &s.in_rows);
    td_col2im_range(c, cut->w, s.x, s.columns, &s.in_x, &s.in_columns);
    s.in_rows -= s.in_y;
    s.in_columns -= s.in_x;
    if (down) { /* whole rows, which follow on each other */
        s.in_x = 0;
        s.in_columns = c->in[cut->w];
    }
    return s;
}

static void slots(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    const struct td_conv *c = job->c;
    int64_t items = c->images * c->groups * job->cut.blocks * job->cut.strips;
    for (int64_t slot = begin; slot < end; slot++) {
        int64_t last = items * (slot + 1) / job->cut.slots;
        for (int64_t i = items * slot / job->cut.slots; i < last && !td_stopped(); i++) {
            struct strip s = strip_of(job, i, slot);
            compute(&s);
        }
    }
}

void TD_NAME(conv_col2im)(const struct td_conv *c, const struct td_col2im *cut, void *scratch)
{
    struct job job = {.c = c, .cut = *cut, .scratch = scratch};
    job.weight = td_col2im_weight(c, cut->slots, scratch);
    td_parallel(cut->slots, cut->slots, 1, slots, &job);
}

TD_KERNEL(convolution_col2im)
{
    struct td_conv c;
    struct td_col2im cut;
    td_conv_of(call, &c);
    td_conv_cut_col2im(&c, call->threads, &cut);
    TD_NAME(conv_col2im)(&c, &cut, call->scratch);
}
