/* A convolution as a matrix product: weight times what lies under the kernel, a column an output
 * element. The columns are never there as a whole; td_gemm_any asks for those that it is about to
 * multiply. */
#include "kernels/convolution/convolution.h"
#include "kernels/elementwise.h"

#include <math.h>
#include <string.h>

void td_conv_squeeze(struct td_conv *c)
{
    int to = 0, last = c->dims - 1;
    for (int d = 0; d <= last; d++) {
        bool one =
            c->in[d] == 1 && c->kernel[d] == 1 && c->size[d] == 1 && !c->padding[d] && !c->after[d];
        if (one && (to || d < last))
            continue;
        c->in[to] = c->in[d];
        c->kernel[to] = c->kernel[d];
        c->size[to] = c->size[d];
        c->stride[to] = c->stride[d];
        c->dilation[to] = c->dilation[d];
        c->padding[to] = c->padding[d];
        c->after[to++] = c->after[d];
    }
    c->dims = to;
}

void td_conv_lie_down(struct td_conv *c)
{
    int64_t *const of[] = {c->in, c->kernel, c->size, c->stride, c->dilation, c->padding, c->after};
    if (c->dims != 2 || c->in[1] != 1 || c->kernel[1] != 1 || c->padding[1] || c->after[1] ||
        c->dilation[0] != 1) /* a row's kernel is a run */
        return;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        int64_t down = of[i][0];
        of[i][0] = of[i][1];
        of[i][1] = down;
    }
}

/* n elements of size bytes, those of one side step apart. */
#define COPY(type)                                                                                 \
    for (int64_t i = 0; i < n; i++)                                                                \
        ((type *)to)[i * step_to] = ((const type *)from)[i * step_from];
static void copy(void *to, int64_t step_to, const void *from, int64_t step_from, int64_t n,
                 int64_t size)
{
    if (step_to == 1 && step_from == 1)
        memcpy(to, from, (size_t)(n * size));
    else if (size == 1)
        COPY(uint8_t)
    else if (size == 2)
        COPY(uint16_t)
    else if (size == 4)
        COPY(uint32_t)
    else
        COPY(uint64_t)
}

static int64_t up(int64_t a, int64_t b) /* a / b, rounded up; 0 for negative a */
{
    return a > 0 ? (a + b - 1) / b : 0;
}

/* Position i of the kernel in dimension d over output at: the input element; -1: none. */
static int64_t under(const struct td_conv *c, int d, int64_t i, int64_t at)
{
    int64_t x = at * c->stride[d] - c->padding[d] + i * c->dilation[d];
    if (c->transposed) {
        x = at + c->padding[d] - i * c->dilation[d];
        if (x < 0 || x % c->stride[d])
            return -1;
        x /= c->stride[d];
    }
    return x >= 0 && x < c->in[d] ? x : -1;
}

/* Under position i of the innermost dimension, n outputs from at on: to is all zeros before. */
static void run(const struct td_conv *c, int64_t i, int64_t at, int64_t n, const char *line,
                char *to, int64_t size)
{
    int d = c->dims - 1;
    int64_t off = i * c->dilation[d] - c->padding[d], stride = c->stride[d];
    if (c->transposed) { /* input x goes to output x * stride + off */
        int64_t x = up(at - off, stride), end = up(at + n - off, stride);
        end = end < c->in[d] ? end : c->in[d];
        if (x < end)
            copy(to + (x * stride + off - at) * size, stride, line + x * size, 1, end - x, size);
        return;
    }
    int64_t y = up(-off, stride), end = up(c->in[d] - off, stride);
    y = y < at ? at : y;
    end = end < at + n ? end : at + n;
    if (y < end)
        copy(to + (y - at) * size, 1, line + (y * stride + off) * size, stride, end - y, size);
}

/* One row: of a channel, under one position of the kernel, outputs from j on. */
static void row(const struct td_conv *c, const char *channel, int64_t position, int64_t j,
                int64_t cols, char *to, int64_t size)
{
    int64_t at[TD_CONV_DIMS] = {0}, i[TD_CONV_DIMS] = {0};
    int last = c->dims - 1;
    for (int d = last; d >= 0; d--) {
        i[d] = position % c->kernel[d];
        position /= c->kernel[d];
        at[d] = j % c->size[d];
        j /= c->size[d];
    }
    memset(to, 0, (size_t)(cols * size));
    while (cols > 0) {
        int64_t n = c->size[last] - at[last] < cols ? c->size[last] - at[last] : cols, line = 0;
        for (int d = 0; d < last && line >= 0; d++) {
            int64_t x = under(c, d, i[d], at[d]);
            line = x < 0 ? -1 : line * c->in[d] + x;
        }
        if (line >= 0)
            run(c, i[last], at[last], n, channel + line * c->in[last] * size, to, size);
        to += n * size;
        cols -= n;
        at[last] = 0;
        for (int d = last - 1; d >= 0 && ++at[d] == c->size[d]; d--)
            at[d] = 0;
    }
}

static void gather(const struct td_gemm *g, int64_t batch, int64_t p, int64_t k, int64_t j,
                   int64_t cols, void *rows)
{
    const struct td_conv *c = g->context;
    int64_t size = (int64_t)td_dtype_size(c->input->dtype), positions = td_conv_positions(c);
    int64_t channel = td_conv_pixels(c, c->in) * size;
    const char *image = (const char *)c->input->data + batch * c->in_channels * channel;
    for (int64_t i = 0; i < k; i++)
        row(c, image + (p + i) / positions * channel, (p + i) % positions, j, cols,
            (char *)rows + i * cols * size, size);
}

bool td_conv_is_finite(const struct td_conv *c)
{
    bool finite = true, real = td_dtype_kind(c->weight->dtype) == 'f';
    for (int64_t i = 0; real && i < td_numel(c->weight) && finite; i++)
        finite = isfinite(td_get_real(c->weight, i));
    return finite;
}

/* One position of the kernel, over each element once. */
static bool is_plain(const struct td_conv *c)
{
    bool plain = td_conv_positions(c) == 1;
    for (int d = 0; d < c->dims; d++)
        plain = plain && c->stride[d] == 1 && !c->padding[d] && c->size[d] == c->in[d];
    return plain;
}

bool td_conv_pick(struct td_conv *c, struct td_tensor *picked, struct td_piece *piece)
{
    int first = c->last ? 1 : 2; /* of the sizes; images, and channels, are the others */
    bool picks = !c->transposed && c->groups == 1 && td_conv_positions(c) == 1, all = true;
    for (int d = 0; d < c->dims; d++) {
        picks = picks && !c->padding[d] && !c->after[d];
        all = all && c->stride[d] == 1;
    }
    if (!picks || all)
        return false;
    *picked = (struct td_tensor){.dtype = c->input->dtype, .rank = c->dims + 2};
    picked->shape[0] = c->images;
    picked->shape[c->last ? picked->rank - 1 : 1] = c->in_channels;
    *piece = (struct td_piece){.box = {.from = c->input, .rank = picked->rank}, .out = picked};
    for (int d = 0; d < c->dims; d++)
        picked->shape[first + d] = c->size[d];
    int64_t in = 1, out = 1;
    for (int i = picked->rank - 1; i >= 0; i--) {
        bool spatial = i >= first && i < first + c->dims;
        piece->box.shape[i] = picked->shape[i];
        piece->box.stride[i] = spatial ? in * c->stride[i - first] : in;
        piece->stride[i] = out;
        in *= spatial ? c->in[i - first] : picked->shape[i];
        out *= picked->shape[i];
    }
    for (int d = 0; d < c->dims; d++) {
        c->in[d] = c->size[d];
        c->stride[d] = 1;
    }
    c->input = picked;
    return true;
}

bool td_conv_linear(const struct td_conv *c, int threads, struct td_gemm *g)
{
    *g = (struct td_gemm){.a = c->input,
                          .b = c->weight,
                          .bias = c->bias,
                          .out = c->out,
                          .m = c->images * td_conv_pixels(c, c->size),
                          .k = c->in_channels,
                          .n = c->out_channels,
                          .step_k = 1,
                          .step_n = c->in_channels,
                          .bias_j = 1,
                          .post = c->post,
                          .threads = threads};
    return c->last && c->groups == 1 && !c->transposed && is_plain(c) &&
           c->out->dtype & (TD_f32 | TD_bf16 | TD_f16);
}

void td_conv_gemm(const struct td_conv *c, const struct td_tensor *weight, int threads,
                  struct td_gemm *g)
{
    int64_t positions = td_conv_positions(c);
    bool plain = is_plain(c);
    *g = (struct td_gemm){.a = weight,
                          .b = c->input,
                          .bias = c->bias,
                          .out = c->out,
                          .m = c->out_channels,
                          .k = c->in_channels * positions,
                          .n = td_conv_pixels(c, c->size),
                          .step_n = 1,
                          .rank = 2,
                          .batch = {c->images, c->groups},
                          .has_a = {false, true},
                          .has_b = {true, true},
                          .bias_i = 1,
                          .bias_batch = c->out_channels,
                          .has_bias = {false, true},
                          .threads = threads,
                          .gather = plain ? NULL : gather,
                          .context = c};
    g->step_k = g->n;
}

bool td_conv_is_matmul(const struct td_conv *c, const struct td_gemm *g)
{
    return !g->gather && !c->transposed && !c->last && c->out->dtype & (TD_f32 | TD_bf16 | TD_f16);
}

void td_conv_turn_weight(const struct td_conv *c, void *to)
{
    int64_t run = td_conv_positions(c) * (int64_t)td_dtype_size(c->weight->dtype);
    const char *from = c->weight->data;
    for (int64_t group = 0; group < c->groups; group++)
        for (int64_t i = 0; i < c->in_channels; i++)
            for (int64_t o = 0; o < c->out_channels; o++, from += run)
                memcpy((char *)to + ((group * c->out_channels + o) * c->in_channels + i) * run,
                       from, (size_t)run);
}
