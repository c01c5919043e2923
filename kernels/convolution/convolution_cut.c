/* How a convolution is cut into strips: as many rows of the result as what they take stays, laid
 * out, in a cache. */
#include "kernels/convolution/convolution.h"

#define FIRST 8192     /* floats of one channel's strip: most of a first-level cache */
#define SECOND 49152   /* of several channels': part of a second-level one */
#define MOST 131072    /* at most */
#define POSITIONS 8192 /* of a kernel over all channels */
#define VECTOR 16      /* floats that whole vectors may reach beyond a row */
#define GRAIN 262144   /* products that are worth a thread */

static int64_t fill(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Whether it is worth laying out, as a depthwise one always is: its rows fill vectors, more than
 * one, and are taken more than once. */
static bool pays(const struct td_conv *c, int w)
{
    bool depthwise = c->in_channels == 1 && c->groups > 1;
    int64_t n = c->size[w], filled = fill(n, VECTOR);
    return depthwise || (n > VECTOR && 4 * n >= 3 * filled && td_conv_positions(c) > 1);
}

/* Large strides, reaches and paddings, which hardly anybody has, would be laid out mostly in vain.
 */
bool td_conv_cut_laid(const struct td_conv *c, int threads, struct td_laid *cut)
{
    int w = c->dims - 1, h = c->dims > 1 ? 0 : 1;
    int64_t reach = (c->kernel[w] - 1) * c->dilation[w], n = c->in_channels;
    bool right = !c->transposed && !c->last && c->dims < 3 && !c->post.n &&
                 c->out->dtype & (TD_f32 | TD_bf16 | TD_f16);
    if (!right || n < 1 || td_conv_positions(c) > POSITIONS / n || c->stride[w] > 4 ||
        reach > 4096 || c->padding[w] > reach || c->padding[h] > 4096 || !pays(c, w))
        return false;
    *cut = (struct td_laid){.h = h, .w = w, .positions = n * td_conv_positions(c)};
    cut->columns = (c->size[w] - 1) * c->stride[w] + reach + 1;
    cut->wide = fill(fill(c->size[w], TD_LAID_TILE) + reach / c->stride[w] + 1 + VECTOR, 16);
    cut->row = cut->wide * c->stride[w];
    cut->line = c->stride[w] > 2 ? fill(cut->columns + VECTOR, 16) : 0;
    int64_t extent = (c->kernel[h] - 1) * c->dilation[h] + 1;
    if (extent > MOST / n / cut->row)
        return false;
    int64_t rows = (n == 1 ? FIRST : SECOND) / n / cut->row,
            most = (rows - extent) / c->stride[h] + 1;
    cut->strip = rows < extent ? 1 : most < c->size[h] ? most : c->size[h];
    cut->strips = (c->size[h] + cut->strip - 1) / cut->strip;
    cut->rows = (cut->strip - 1) * c->stride[h] + extent;
    double worth = (double)td_numel(c->out) * (double)cut->positions / GRAIN;
    cut->slots = threads < 1 ? 1 : worth < threads ? 1 + (int)worth : threads;
    cut->at = (size_t)fill(cut->line + n * cut->rows * cut->row, 16) * sizeof(float);
    cut->weight = cut->at + (size_t)fill(cut->positions, 16) * sizeof(int32_t);
    cut->slot = cut->weight;
    if (c->weight->dtype != TD_f32)
        cut->slot += (size_t)fill(cut->positions * c->out_channels, 16) * sizeof(float);
    return true;
}

bool td_conv_is_depth(const struct td_conv *c)
{
    bool depthwise = c->in_channels == 1 && c->out_channels == 1 && c->groups > 1;
    bool plain = c->last && !c->transposed && c->dims == 2 && c->input->dtype == TD_f32;
    int64_t n = c->kernel[1];
    return depthwise && plain && (n == 3 || n == 5 || n == 7) && c->stride[1] <= 2 &&
           c->dilation[1] == 1;
}

/* Weights and bias, in whole vectors at any level, and one between them. */
size_t td_conv_depth_scratch(const struct td_conv *c)
{
    return (size_t)((td_conv_positions(c) + 1) * fill(c->groups, VECTOR) + VECTOR) * sizeof(float);
}

const char *td_conv_ungathered(const struct td_conv *c)
{
    double holes = 1;
    for (int d = 0; d < c->dims; d++) {
        holes *= c->transposed ? (double)c->stride[d] : 1;
        if (c->kernel[d] > 64 + c->in[d])
            return "its kernel is much wider than its input";
    }
    bool some = td_numel(c->out) && td_numel(c->input) && td_numel(c->weight);
    return !some        ? "there is nothing to gather"
           : holes > 16 ? "its stride leaves too many holes"
                        : NULL;
}

bool td_conv_is_direct(const struct td_conv *c)
{
    bool plain = c->last && !c->transposed && c->dims == 2 && c->input->dtype == TD_f32;
    return plain && !td_conv_ungathered(c) && c->groups == 1 && td_conv_positions(c) > 1 &&
           c->dilation[1] == 1 && c->stride[1] <= c->kernel[1] && c->in_channels &&
           c->kernel[1] <= TD_CONV_RUN / c->in_channels;
}

bool td_conv_is_narrow(const struct td_conv *c)
{
    return td_conv_is_direct(c) && c->out_channels > TD_CONV_DOTS && c->out_channels <= 8;
}

size_t td_conv_direct_scratch(const struct td_conv *c)
{
    int64_t positions = td_conv_positions(c) * c->in_channels;
    return (size_t)((positions + 1) * fill(c->out_channels, VECTOR) + VECTOR) * sizeof(float);
}
