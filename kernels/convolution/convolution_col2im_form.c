/* How a transposed convolution is cut for convolution_col2im.c, and the packed form of its weight:
 * [groups][channels of the result][positions of the kernel][channels of the input]. */
#include "kernels/convolution/convolution.h"
#include "kernels/weight.h"

#include <string.h>

#define ROWS 128     /* of a product: a block's channels times positions, about */
#define PANEL 32     /* columns of a product are filled up to whole panels of any level */
#define SUMS 65536   /* floats of a product: 256 KiB */
#define MOST 524288  /* where a single row of the input takes more than SUMS */
#define GRAIN 262144 /* products that are worth a thread */
#define SQUARE 16    /* rows of a weight that are read side by side */
#define VECTOR 16    /* floats that whole vectors may reach beyond a line */

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

bool td_conv_cut_col2im(const struct td_conv *c, int threads, struct td_col2im *cut)
{
    int w = c->dims - 1, h = c->dims > 1 ? 0 : 1;
    int64_t positions = td_conv_positions(c);
    bool right = c->transposed && !c->last && c->dims < 3 && !c->post.n &&
                 c->out->dtype == TD_f32 && td_numel(c->out) && td_numel(c->input);
    if (!right || c->in_channels < 1 || positions > 4 * ROWS || c->stride[w] > 16)
        return false;
    bool one = c->in[h] == 1 && c->size[h] == 1 && c->kernel[h] == 1;
    int d = one ? w : h; /* which is cut into strips */
    *cut = (struct td_col2im){.h = h, .w = w, .strips_of = d, .positions = positions};
    cut->channels = ROWS / positions < 1 ? 1 : ROWS / positions;
    cut->channels = cut->channels < c->out_channels ? cut->channels : c->out_channels;
    cut->blocks = (c->out_channels + cut->channels - 1) / cut->channels;
    int64_t each = one ? 1 : c->in[w], room = SUMS / (cut->channels * positions) / each;
    int64_t strip = (room - 1) * c->stride[d] - (c->kernel[d] - 1) * c->dilation[d];
    strip = strip < c->stride[d] ? c->stride[d] : strip / c->stride[d] * c->stride[d];
    cut->strip = strip < c->size[d] ? strip : c->size[d];
    cut->strips = (c->size[d] + cut->strip - 1) / cut->strip;
    cut->columns = fill(taken(c, d, cut->strip) * each, PANEL);
    if (cut->columns > MOST / (cut->channels * positions))
        return false;
    int64_t width = one ? cut->strip : c->size[w];
    cut->line = fill(width / c->stride[w] + 1 + VECTOR, VECTOR);
    int64_t items = c->images * c->groups * cut->blocks * cut->strips;
    double worth = (double)td_numel(c->input) * (double)(positions * c->out_channels) / GRAIN;
    cut->slots = threads < 1 ? 1 : worth < threads ? 1 + (int)worth : threads;
    cut->slots = items < cut->slots ? (int)items : cut->slots;
    int64_t all = td_numel(c->weight);
    cut->weight = (size_t)fill(all, VECTOR) * sizeof(float);
    int64_t depth = c->in_channels < TD_GEMM_DEPTH ? c->in_channels : TD_GEMM_DEPTH;
    cut->panel = (size_t)(depth * PANEL) * sizeof(float);
    cut->lines = cut->panel + (size_t)(cut->channels * positions * cut->columns) * sizeof(float);
    cut->runs = cut->lines + (size_t)(cut->line * c->stride[w] + VECTOR) * sizeof(float);
    cut->slot = cut->runs + (size_t)c->kernel[w] * sizeof(struct td_col2im_run);
    cut->slot = (cut->slot + 63) & ~(size_t)63;
    return true;
}

/* Whether each result is of one position of the kernel at most: nothing is added up. */
static bool is_apart(const struct td_conv *c)
{
    bool apart = true;
    for (int d = 0; d < c->dims; d++)
        apart = apart && c->dilation[d] == 1 && c->kernel[d] <= c->stride[d];
    return apart;
}

const char *td_col2im_prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_conv c;
    struct td_col2im cut;
    td_conv_of(call, &c);
    if (!td_conv_cut_col2im(&c, call->threads, &cut) || !is_apart(&c))
        return "it is no transposed one of FP32 whose kernel is within its stride";
    prepared->scratch = cut.weight + cut.slot * (size_t)cut.slots;
    return NULL;
}

/* ---- weights ---- */

/* Nothing but these, without padding: it is compared byte by byte. */
struct key {
    char what[8];
    int64_t groups, ins, rows;
};

struct turning { /* from [groups][rows][columns] to [groups][columns][rows] */
    const float *from;
    float *to;
    int64_t rows, columns;
};

/* Columns of those of all groups, in squares that caches have room for. */
static void turn(void *arg, int64_t begin, int64_t end)
{
    const struct turning *t = arg;
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

static int turn_there(void *packed, const struct td_tensor *plain, void *arg)
{
    const struct key *key = arg;
    struct turning t = {plain->data, packed, key->ins, key->rows};
    turn(&t, 0, key->groups * key->rows);
    return 0;
}

static void turn_back(const struct td_tensor *plain, const void *packed, const void *arg)
{
    const struct key *key = arg;
    struct turning t = {packed, plain->data, key->rows, key->ins};
    turn(&t, 0, key->groups * key->ins);
}

const float *td_col2im_weight(const struct td_conv *c, int threads, float *scratch)
{
    struct key key = {"col2im", c->groups, c->in_channels, c->out_channels * td_conv_positions(c)};
    struct td_weight *stored = td_weight_to_pack(c->weight);
    size_t bytes = td_nbytes(c->weight);
    const float *weight = stored ? td_weight_pack(stored, &key, sizeof key, "col2im", bytes,
                                                  turn_there, &key, turn_back)
                                 : NULL;
    struct turning t = {c->weight->data, scratch, key.ins, key.rows};
    if (!weight)
        td_parallel(threads, key.groups * key.rows, 1 + GRAIN / key.ins, turn, &t);
    return weight ? weight : scratch;
}
