/* How a transposed convolution is cut for convolution_col2im.c, and the packed form of its weight:
 * [groups][channels of the result][positions of the kernel][channels of the input]. */
#include "kernels/convolution/convolution.h"
#include "kernels/weight.h"

#include <string.h>

#define ROWS 128        /* of a product: a block's channels times positions of the kernel, */
#define FEW 32          /* or fewer where rows of the input are long, but not fewer than this */
#define POSITIONS 512   /* of a kernel, at most */
#define PANEL 32        /* columns of a product are filled up to whole panels of any level */
#define SUMS 65536      /* floats of a product: 256 KiB, */
#define MOST 524288     /* or up to this where the input that one stride takes needs it */
#define RESULTS 1048576 /* of a channel in a strip: it is stopped between channels */
#define AGAIN 4         /* times that the input may be multiplied, for strips that share it */
#define GRAIN 262144    /* products that are worth a thread */
#define SQUARE 16       /* rows of a weight that are read side by side */
#define VECTOR 16       /* floats that whole vectors may reach beyond a line */

static int64_t fill(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* ---- where results take their sums from ---- */

void td_col2im_range(const struct td_conv *c, int d, int64_t at, int64_t n, int64_t *begin,
                     int64_t *end)
{
    int64_t reach = (c->kernel[d] - 1) * c->dilation[d];
    int64_t low = at + c->padding[d] - reach, high = at + n - 1 + c->padding[d];
    *begin = low > 0 ? (low + c->stride[d] - 1) / c->stride[d] : 0;
    *end = high / c->stride[d] + 1;
    *end = *end < c->in[d] ? *end : c->in[d];
    *begin = *begin < *end ? *begin : *end;
}

/* Elements of the input, at most, that n results of dimension d take. */
static int64_t taken(const struct td_conv *c, int d, int64_t n)
{
    int64_t reach = (c->kernel[d] - 1) * c->dilation[d];
    int64_t most = (n - 1 + reach) / c->stride[d] + 1;
    return most < c->in[d] ? most : c->in[d];
}

static const char *objection(const struct td_conv *c)
{
    int w = c->dims - 1;
    bool right = c->transposed && !c->last && c->dims < 3 && !c->post.n;
    if (!right || c->out->dtype != TD_f32)
        return "it is no transposed one of FP32 in one or two dimensions";
    if (!td_numel(c->out) || !td_numel(c->input))
        return "there is nothing to multiply";
    if (td_conv_positions(c) > POSITIONS)
        return "its kernel is large";
    return c->stride[w] > 16 ? "its stride leaves columns far apart" : NULL;
}

/* Chooses channels and strips: each: elements of the input in a step of the dimension that is cut.
 * False: the strips would take too much of their input again. */
static bool cut_strips(const struct td_conv *c, int64_t each, struct td_col2im *cut)
{
    int d = cut->strips_of;
    int64_t stride = c->stride[d], least = taken(c, d, stride), room;
    cut->channels = ROWS / cut->positions < 1 ? 1 : ROWS / cut->positions;
    cut->channels = cut->channels < c->out_channels ? cut->channels : c->out_channels;
    while ((room = SUMS / (cut->channels * cut->positions) / each) < 2 * least &&
           cut->channels * cut->positions >= 2 * FEW && cut->channels > 1)
        cut->channels = (cut->channels + 1) / 2;
    int64_t strip = (room - 1) * stride - (c->kernel[d] - 1) * c->dilation[d];
    int64_t most = RESULTS / (d == cut->h ? c->size[cut->w] : 1);
    strip = strip < stride ? stride : strip / stride * stride;
    strip = strip > most && most > 0 ? most : strip;
    cut->strip = strip < c->size[d] ? strip : c->size[d];
    cut->columns = fill(taken(c, d, cut->strip) * each, PANEL);
    return cut->columns <= MOST / (cut->channels * cut->positions) &&
           taken(c, d, cut->strip) <= AGAIN * (cut->strip / stride + 1);
}

const char *td_conv_cut_col2im(const struct td_conv *c, int threads, struct td_col2im *cut)
{
    int w = c->dims - 1, h = c->dims > 1 ? 0 : 1;
    const char *no = objection(c);
    if (no)
        return no;
    bool one = c->in[h] == 1 && c->size[h] == 1 && c->kernel[h] == 1;
    int d = one ? w : h; /* which is cut into strips */
    *cut = (struct td_col2im){.h = h, .w = w, .strips_of = d, .positions = td_conv_positions(c)};
    if (!cut_strips(c, one ? 1 : c->in[w], cut))
        return "its kernel reaches far, or its rows are long";
    cut->blocks = (c->out_channels + cut->channels - 1) / cut->channels;
    double worth = (double)td_numel(c->input) * (double)(cut->positions * c->out_channels) / GRAIN;
    cut->slots = threads < 1 ? 1 : worth < threads ? 1 + (int)worth : threads;
    /* Strips of about one size, and one for each slot. */
    int64_t others = c->images * c->groups * cut->blocks;
    int64_t strips = (c->size[d] + cut->strip - 1) / cut->strip;
    int64_t wanted = (cut->slots + others - 1) / others;
    strips = strips < wanted ? wanted : strips;
    int64_t even = fill((c->size[d] + strips - 1) / strips, c->stride[d]);
    cut->strip = even < cut->strip ? even : cut->strip;
    cut->strips = (c->size[d] + cut->strip - 1) / cut->strip;
    cut->slots = others * cut->strips < cut->slots ? (int)(others * cut->strips) : cut->slots;
    int64_t width = one ? cut->strip : c->size[w];
    cut->line = fill(width / c->stride[w] + 1 + VECTOR, VECTOR);
    int64_t depth = c->in_channels < TD_GEMM_DEPTH ? c->in_channels : TD_GEMM_DEPTH;
    int64_t sums = cut->channels * cut->positions * cut->columns;
    cut->weight_bytes = (size_t)fill(td_numel(c->weight), VECTOR) * sizeof(float);
    cut->at_sums = (size_t)(depth * PANEL) * sizeof(float);
    cut->at_lines = cut->at_sums + (size_t)sums * sizeof(float);
    cut->at_runs = cut->at_lines + (size_t)(cut->line * c->stride[w] + VECTOR) * sizeof(float);
    cut->slot_bytes = cut->at_runs + (size_t)c->kernel[w] * sizeof(struct td_col2im_run);
    cut->slot_bytes = (cut->slot_bytes + 63) & ~(size_t)63;
    return NULL;
}

size_t td_col2im_scratch(const struct td_col2im *cut)
{
    return cut->weight_bytes + cut->slot_bytes * (size_t)cut->slots;
}

/* Kernel positions of neighbouring elements do not overlap, and there is more than one. */
static bool is_disjoint(const struct td_conv *c)
{
    bool disjoint = true, moves = false;
    for (int d = 0; d < c->dims; d++) {
        disjoint = disjoint && c->dilation[d] == 1 && c->kernel[d] <= c->stride[d];
        moves = moves || c->stride[d] > 1;
    }
    return disjoint && moves;
}

const char *td_col2im_prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_conv c;
    struct td_col2im cut;
    td_conv_of(call, &c);
    const char *no = td_conv_cut_col2im(&c, call->threads, &cut);
    if (!no && !is_disjoint(&c))
        no = "its kernel is wider than its stride, or has a stride of 1: others may be faster";
    prepared->leads = true;
    if (!no)
        prepared->scratch = td_col2im_scratch(&cut);
    return no;
}

/* ---- weights ---- */

/* Nothing but these, without padding: it is compared byte by byte. */
struct key {
    char what[8];
    int64_t groups, ins, rows;
};

struct transposing { /* from [groups][rows][columns] to [groups][columns][rows] */
    const float *from;
    float *to;
    int64_t rows, columns;
};

/* Columns of those of all groups, in squares that caches have room for. */
static void transpose(void *arg, int64_t begin, int64_t end)
{
    const struct transposing *t = arg;
    for (int64_t n; begin < end; begin += n) {
        int64_t group = begin / t->columns, first = begin % t->columns;
        n = end - begin < t->columns - first ? end - begin : t->columns - first;
        const float *from = t->from + group * t->rows * t->columns;
        float *to = t->to + group * t->rows * t->columns;
        for (int64_t i = 0; i < t->rows; i += SQUARE)
            for (int64_t j = first; j < first + n; j++)
                for (int64_t k = i; k < t->rows && k < i + SQUARE; k++)
                    to[j * t->rows + k] = from[k * t->columns + j];
    }
}

static int transpose_there(void *packed, const struct td_tensor *plain, void *arg)
{
    const struct key *key = arg;
    struct transposing t = {plain->data, packed, key->ins, key->rows};
    transpose(&t, 0, key->groups * key->rows);
    return 0;
}

static void transpose_back(const struct td_tensor *plain, const void *packed, const void *arg)
{
    const struct key *key = arg;
    struct transposing t = {packed, plain->data, key->rows, key->ins};
    transpose(&t, 0, key->groups * key->ins);
}

const float *td_col2im_weight(const struct td_conv *c, int threads, float *scratch)
{
    struct key key = {"col2im", c->groups, c->in_channels, c->out_channels * td_conv_positions(c)};
    struct td_weight *stored = td_weight_to_pack(c->weight);
    size_t bytes = td_nbytes(c->weight);
    const float *weight = stored ? td_weight_pack(stored, &key, sizeof key, "col2im", bytes,
                                                  transpose_there, &key, transpose_back)
                                 : NULL;
    struct transposing t = {c->weight->data, scratch, key.ins, key.rows};
    if (!weight)
        td_parallel(threads, key.groups * key.rows, 1 + GRAIN / key.ins, transpose, &t);
    return weight ? weight : scratch;
}
