/* How a convolution is cut into strips: as many rows of the result as what they take stays, laid
 * out, in a cache; and, for Winograd's algorithm, into blocks of rows of tiles. */
#include "kernels/convolution/convolution.h"

#include "kernels/weight.h"

#define TILES 8192     /* of a block, times channels: its 16 matrices take 512 KiB */
#define READING 8      /* tiles that are computed in the time of reading all weights */
#define FIRST 8192     /* floats of one channel's strip: most of a first-level cache */
#define SECOND 49152   /* of several channels': part of a second-level one */
#define MOST 131072    /* at most */
#define POSITIONS 8192 /* of a kernel over all channels */
#define VECTOR 16      /* floats that whole vectors may reach beyond a row */
#define GRAIN 262144   /* products that are worth a thread */
#define MOST_TURNED ((size_t)32 << 20) /* bytes: larger calls are not timed (docs/dispatch.md) */

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

/* Raises the number of an image's strips until the strips of all images divide evenly among the
 * slots, or each slot has several. Strips only get smaller. */
static void share_strips(struct td_laid *cut, int64_t images, int64_t rows)
{
    int64_t strips = (rows + cut->strip - 1) / cut->strip;
    while (strips < rows && images * strips < 4 * cut->slots && images * strips % cut->slots)
        strips++;
    cut->strip = (rows + strips - 1) / strips;
    cut->strips = (rows + cut->strip - 1) / cut->strip;
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
    double worth = (double)td_numel(c->out) * (double)cut->positions / GRAIN;
    cut->slots = threads < 1 ? 1 : worth < threads ? 1 + (int)worth : threads;
    cut->strip = rows < extent ? 1 : most < c->size[h] ? most : c->size[h];
    share_strips(cut, c->images * c->groups, c->size[h]);
    cut->rows = (cut->strip - 1) * c->stride[h] + extent;
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
           c->dilation[1] == 1 && c->in_channels &&
           c->stride[1] <= (TD_CONV_LINE / c->in_channels - 1) / (TD_CONV_TILE - 1);
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

/* Bytes, up to whole lines and one more, which vectors may reach beyond. */
static size_t room_of(int64_t floats)
{
    return ((size_t)floats * sizeof(float) + 191) & ~(size_t)63;
}

/* Whether a call does too little for a trial of the library to pay, and does not lay out many
 * weights each time. */
static bool is_brief(const struct td_call *call, const struct td_conv *c)
{
    bool kept = td_weight_to_pack(c->weight) || td_numel(c->weight) <= 1 << 14;
    return kept && call->op->flops(call) <= TD_BRIEF_FLOPS;
}

/* In 80 layers of models and as many that were drawn the library took 0.85 to 2 times what our rows
 * take. Depthwise ones are faster in ours at AVX512 whatever their size. */
static const char *last_prepare(const struct td_call *call, enum td_isa isa,
                                struct td_prepared *prepared)
{
    struct td_conv c;
    struct td_gemm g;
    struct td_tensor picked;
    struct td_piece piece;
    td_conv_of(call, &c);
    const char *no = td_conv_ungathered(&c);
    if (no)
        return no;
    prepared->leads = is_brief(call, &c);
    if (td_conv_is_depth(&c)) {
        prepared->leads = isa >= TD_ISA_avx512;
        prepared->scratch = td_conv_depth_scratch(&c);
        return NULL;
    }
    if (td_conv_is_direct(&c)) {
        prepared->scratch = td_conv_direct_scratch(&c);
        return isa >= TD_ISA_avx512 && (TD_IF_avx2(td_conv_is_narrow(&c) ||) false)
                   ? "it sums up to 8 channels in half its vectors; AVX2 fills them"
                   : NULL;
    }
    if (td_conv_pick(&c, &picked, &piece))
        prepared->scratch = td_conv_turned(&picked);
    if (!td_conv_linear(&c, call->threads, &g))
        return "it cannot be computed where it lies";
    prepared->scratch += td_gemm_scratch(&g);
    return NULL;
}

void td_conv_turn(const struct td_conv *c, struct td_conv *last)
{
    *last = *c;
    last->last = true;
    td_conv_lie_down(last);
    if (c->dims == 2)
        return;
    int64_t *const of[] = {last->in,       last->kernel,  last->size, last->stride,
                           last->dilation, last->padding, last->after};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        of[i][1] = of[i][0];
        of[i][0] = i < 5; /* a single row, without padding */
    }
    last->dims = 2;
}

/* Whether the input has at least one vector of channels, and the output's fill their vectors to
 * seven eighths. In 20 shapes the direct kernel then saved more time than transposing the input and
 * the output took. */
static bool fill_vectors(const struct td_conv *c)
{
    return c->in_channels >= VECTOR && 8 * c->out_channels >= 7 * fill(c->out_channels, VECTOR);
}

const char *td_conv_turned_prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_conv c, last;
    struct td_laid laid;
    td_conv_of(call, &c);
    if (c.last || c.transposed || c.dims > 2 || c.groups != 1)
        return "it is not a plain one with channels first, in one or two dimensions";
    const char *no = td_conv_ungathered(&c);
    if (no)
        return no;
    td_conv_turn(&c, &last);
    if (!td_conv_is_direct(&last))
        return "it cannot be computed with channels last where it lies";
    const bool laid_out = td_conv_cut_laid(&c, call->threads, &laid);
    if (laid_out && !fill_vectors(&c))
        return "its rows fill vectors, and its channels do not";
    const size_t turned = td_conv_turned(c.input) + td_conv_turned(c.out);
    if (laid_out && turned > MOST_TURNED)
        return "its rows fill vectors, and to turn it takes much memory";
    prepared->leads = !laid_out && !td_conv_is_narrow(&last) && is_brief(call, &c);
    prepared->scratch = td_conv_direct_scratch(&last) + turned;
    return NULL;
}

const char *td_conv_last_prepare_avx512(const struct td_call *call, struct td_prepared *prepared)
{
    return last_prepare(call, TD_ISA_avx512, prepared);
}

const char *td_conv_last_prepare(const struct td_call *call, struct td_prepared *prepared)
{
    return last_prepare(call, TD_ISA_default, prepared);
}

static const char *objection(const struct td_conv *c)
{
    if (c->dims != 2 || c->transposed || c->groups != 1)
        return "it is not a plain one in two dimensions";
    for (int d = 0; d < 2; d++)
        if (c->kernel[d] != 3 || c->stride[d] != 1 || c->dilation[d] != 1)
            return "it is not one of 3x3 with a stride of 1";
    for (int d = 0; d < 2; d++)
        if (c->size[d] < 4)
            return "its images are small";
    if (c->size[1] > 4096)
        return "its images are too wide";
    /* Tiles are transformed for each channel of both, multiplied for each pair of them. */
    if (c->in_channels * c->out_channels < 10 * (c->in_channels + c->out_channels))
        return "it has few channels";
    if (c->images * c->size[0] * c->size[1] < 100) /* 25 tiles, for which weights are transformed */
        return "its images are small";
    if (td_weight_of(c->weight) && !td_weight_to_pack(c->weight))
        return "weights are not packed";
    return NULL;
}

/* Chooses how many rows of tiles a block has: the most that a cache has room for, or fewer, so that
 * they fill vectors and the slots have equal shares. Each block reads all weights, which takes as
 * long as READING tiles. */
static void cut_rows(struct td_winograd *w, int64_t images, int threads)
{
    int64_t most = TILES / (w->ins + w->outs), best = INT64_MAX;
    most = (most < 32 ? 32 : most) / w->across;
    for (int64_t rows = 1; rows == 1 || (rows <= most && rows <= w->down); rows++) {
        int64_t blocks = (w->down + rows - 1) / rows;
        int64_t shares = (images * blocks + threads - 1) / threads;
        int64_t cost = shares * (fill(rows * w->across, VECTOR) + READING);
        if (cost <= best) {
            best = cost;
            w->rows = rows;
            w->blocks = blocks;
        }
    }
}

const char *td_conv_cut_winograd(const struct td_conv *c, int64_t width, int threads,
                                 struct td_winograd *w)
{
    const char *no = objection(c);
    *w = (struct td_winograd){.outs = c->out_channels,
                              .ins = c->in_channels,
                              .width = c->last ? width : 0,
                              .down = (c->size[0] + 1) / 2,
                              .across = (c->size[1] + 1) / 2};
    if (no)
        return no;
    threads = threads < 1 ? 1 : threads;
    cut_rows(w, c->images, threads);
    int64_t items = c->images * w->blocks;
    w->slots = items < threads ? (int)items : threads;
    w->ld = fill(w->rows * w->across, 2 * VECTOR);
    w->ldc = fill(w->outs, 2 * VECTOR);
    /* An odd number of cache lines: planes begin in different sets of a first-level cache. */
    w->plane = fill((w->width ? fill(w->outs, w->width) : w->outs) * w->ins, VECTOR) | VECTOR;
    w->taps = (size_t)(9 * w->plane) * sizeof(float);
    w->weights = (size_t)(16 * w->plane) * sizeof(float);
    w->inputs = room_of(16 * w->ins * w->ld);
    w->products = room_of(16 * w->ldc * w->ld);
    w->line = room_of((w->rows + 1) * w->across + 3 * VECTOR);
    w->slot = w->inputs + w->products + 24 * w->line + 24 * 128 + room_of(w->ins + VECTOR);
    return NULL;
}
