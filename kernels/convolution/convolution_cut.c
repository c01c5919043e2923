/* How a depthwise convolution is cut into strips: as many rows of a channel as stay, laid out, in a
 * first-level cache. */
#include "kernels/convolution/convolution.h"

#define STRIP_BYTES 32768 /* of what is laid out, most of a first-level cache */
#define LAID 262144       /* floats of one strip, at most */
#define VECTOR 16         /* floats that whole vectors may reach beyond a row */
#define GRAIN 262144      /* products that are worth a thread */

static int64_t fill(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Large strides, reaches and paddings, which hardly anybody has, would be laid out mostly in vain.
 */
bool td_conv_cut_depthwise(const struct td_conv *c, int threads, struct td_depthwise *cut)
{
    int w = c->dims - 1, h = c->dims > 1 ? 0 : 1;
    int64_t reach = (c->kernel[w] - 1) * c->dilation[w], n = td_conv_positions(c);
    bool is_one = c->in_channels == 1 && c->groups > 1 && !c->transposed && !c->last &&
                  c->dims < 3 && !c->post.n;
    if (!is_one || !(c->out->dtype & (TD_f32 | TD_bf16 | TD_f16)) || n > TD_DEPTHWISE_POSITIONS ||
        c->stride[w] > 4 || reach > 4096 || c->padding[w] > reach || c->padding[h] > 4096)
        return false;
    *cut = (struct td_depthwise){.h = h, .w = w, .positions = n};
    cut->columns = (c->size[w] - 1) * c->stride[w] + reach + 1;
    cut->wide = fill(fill(c->size[w], TD_DEPTHWISE_TILE) + reach / c->stride[w] + 1 + VECTOR, 16);
    cut->row = cut->wide * c->stride[w];
    cut->line = c->stride[w] > 2 ? fill(cut->columns + VECTOR, 16) : 0;
    int64_t extent = (c->kernel[h] - 1) * c->dilation[h] + 1;
    if (extent > LAID / cut->row)
        return false;
    int64_t rows = STRIP_BYTES / 4 / cut->row, most = (rows - extent) / c->stride[h] + 1;
    cut->strip = rows < extent ? 1 : most < c->size[h] ? most : c->size[h];
    cut->strips = (c->size[h] + cut->strip - 1) / cut->strip;
    int64_t laid = (cut->strip - 1) * c->stride[h] + extent;
    double worth = (double)td_numel(c->out) * (double)n / GRAIN;
    cut->slots = threads < 1 ? 1 : worth < threads ? 1 + (int)worth : threads;
    cut->slot = (size_t)fill(cut->line + laid * cut->row, 16) * sizeof(float);
    return true;
}
