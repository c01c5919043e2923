/* What the rows of FP32 with channels last share that sum in registers: weights in whole vectors of
 * the result's channels, rows of the result, and post-ops. Included by files that have TD_REAL_BITS
 * and the level's lanes. */
#ifndef TD_KERNELS_CONVOLUTION_LAST_H
#define TD_KERNELS_CONVOLUTION_LAST_H

#include "kernels/convolution/convolution_posts.h"
#include "kernels/weight.h"

#include <string.h>

/* ---- weights ---- */

struct conv_last;
/* Lays weights out as a row wants them, in vectors * lanes * positions numbers. */
typedef void conv_lay_out(const struct conv_last *l, const float *weight, float *to);

struct conv_last {
    const struct td_conv *c;
    conv_lay_out *lay_out;
    int64_t channels;    /* of the result */
    int64_t positions;   /* weights of one of them */
    int64_t vectors;     /* of channels */
    const float *weight; /* as lay_out leaves them */
    bool zeros;          /* padding counts: some weight is not finite */
    const float *bias;   /* [vectors][lanes] */
    struct conv_posts posts;
};

static void conv_last_begin(const struct td_conv *c, int64_t positions, bool early,
                            struct conv_last *l)
{
    *l = (struct conv_last){.c = c, .positions = positions};
    l->channels = c->groups * c->out_channels;
    l->vectors = (l->channels + TD_LANES - 1) / TD_LANES;
    conv_posts_split(c, early, &l->posts);
}

/* Behind the weights stands a number that is not 0 if some are not finite. */
static int conv_last_fill(void *packed, const struct td_tensor *plain, void *arg)
{
    const struct conv_last *l = arg;
    const float *weight = plain->data;
    float *to = packed, odd = 0;
    for (int64_t i = 0; i < l->channels * l->positions; i++)
        odd = isfinite(weight[i]) ? odd : 1;
    l->lay_out(l, weight, to);
    to[l->vectors * TD_LANES * l->positions] = odd;
    return 0;
}

struct conv_last_key { /* of a form that is kept; compared as bytes */
    int64_t positions, in_channels, channels;
    int32_t lanes;
    char way[4];
};

/* Lays the weights out, kept with a stored one or in the scratch, and behind these the bias. way:
 * the row's, in the key; name: of the form, which lives on; undo: NULL, or lays them back. */
static void conv_last_pack(struct conv_last *l, conv_lay_out *lay_out, const char way[4],
                           const char *name, td_weight_undo *undo, float *scratch)
{
    struct conv_last_key key = {l->positions, l->c->in_channels, l->channels, TD_LANES, ""};
    const int64_t lanes = l->vectors * TD_LANES;
    size_t bytes = (size_t)(lanes * l->positions + 1) * sizeof(float);
    struct td_weight *stored = td_weight_to_pack(l->c->weight);
    float *bias = scratch + lanes * l->positions + TD_LANES;
    memcpy(key.way, way, sizeof key.way);
    l->lay_out = lay_out;
    l->weight = stored
                    ? td_weight_pack(stored, &key, sizeof key, name, bytes, conv_last_fill, l, undo)
                    : NULL;
    if (!l->weight) {
        conv_last_fill(scratch, l->c->weight, l);
        l->weight = scratch;
    }
    l->zeros = l->weight[lanes * l->positions] != 0;
    for (int64_t i = 0; i < lanes; i++)
        bias[i] = l->c->bias && i < l->channels ? ((const float *)l->c->bias->data)[i] : 0;
    l->bias = bias;
}

/* ---- rows ---- */

struct conv_row { /* of the result */
    const struct conv_last *job;
    const float *in; /* of its image, where the kernel's first row is, which may be padding */
    float *out;
    int64_t down;       /* elements to the next row of the kernel */
    int64_t first, end; /* rows of the kernel that are taken, */
    int64_t low, high;  /* and those of them that lie inside */
};

/* The result's row of that number, over all images. */
static struct conv_row conv_row_of(const struct conv_last *l, int64_t number)
{
    const struct td_conv *c = l->c;
    int64_t width = c->in[1] * c->groups * c->in_channels, d = c->dilation[0];
    int64_t at = number % c->size[0] * c->stride[0] - c->padding[0];
    int64_t first = at < 0 ? (d - 1 - at) / d : 0, inside = (c->in[0] - at + d - 1) / d;
    int64_t last = inside < c->kernel[0] ? inside : c->kernel[0];
    return (struct conv_row){
        .job = l,
        .in = (const float *)c->input->data + (number / c->size[0] * c->in[0] + at) * width,
        .out = (float *)c->out->data + number * c->size[1] * l->channels,
        .down = d * width,
        .first = l->zeros ? 0 : first,
        .end = l->zeros ? c->kernel[0] : last,
        .low = first,
        .high = last,
    };
}

/* ---- runs ---- */

/* What results take of a row of the input lies next to each other: columns of the kernel times
 * channels. Where padding is among it, the result that would take it is left out, if it is the
 * first or the last one; else what they take is copied, some of the kernel's columns at a time. */
struct conv_run {
    const float *in;    /* of the first result that takes it; */
    int64_t step;       /* each next one's is so many elements behind */
    int64_t from, end;  /* columns of the kernel */
    bool before, after; /* the first one, or the last one, is left out */
};

/* Copies columns from number at on of a row, those outside of it as zeros. */
static void conv_copy_padded(const struct td_conv *c, const float *in, int64_t at, int64_t columns,
                             float *to)
{
    int64_t before = at < 0 ? -at : 0, inside = c->in[1] - at - before, channels = c->in_channels;
    before = before < columns ? before : columns;
    inside = inside < columns - before ? inside : columns - before;
    inside = inside > 0 ? inside : 0;
    memset(to, 0, (size_t)(before * channels) * sizeof *to);
    memcpy(to + before * channels, in + (at + before) * channels,
           (size_t)(inside * channels) * sizeof *to);
    memset(to + (before + inside) * channels, 0,
           (size_t)((columns - before - inside) * channels) * sizeof *to);
}

/* Where the kernel's row i begins for result x. */
TD_INLINE const float *conv_pixel(const struct conv_row *r, int64_t i, int64_t x)
{
    const struct td_conv *c = r->job->c;
    return r->in + i * r->down + (x * c->stride[1] - c->padding[1]) * c->in_channels;
}

/* Whether n results from x on take no padding. */
TD_INLINE bool conv_is_inside(const struct conv_row *r, int64_t x, int64_t n)
{
    const struct td_conv *c = r->job->c;
    int64_t start = x * c->stride[1] - c->padding[1], reach = (n - 1) * c->stride[1];
    return start >= 0 && start + reach + c->kernel[1] <= c->in[1] && r->first >= r->low &&
           r->end <= r->high;
}

/* The columns from u->from on that meet the same kind of padding; false: they are to be copied. */
TD_INLINE bool conv_run_there(const struct conv_row *r, int64_t start, int64_t reach,
                              struct conv_run *u)
{
    const struct td_conv *c = r->job->c;
    const int64_t stride = c->stride[1], at = start + u->from, behind = at + reach - c->in[1];
    /* The end of the columns of which the last result's lies inside. */
    const int64_t inside = c->in[1] - reach - start;
    u->before = at < 0;
    u->after = behind >= 0;
    u->end = u->before ? -start : u->after ? inside + stride : inside;
    u->end = u->before && inside < u->end ? inside : u->end;
    u->end = u->end < c->kernel[1] ? u->end : c->kernel[1];
    if (!u->before && !u->after)
        return true;
    return !r->job->zeros && at >= -stride && behind < stride && u->before != u->after &&
           u->end > u->from;
}

/* What n results from x on take of the kernel's row i, from column u->end of it on. line has room
 * for TD_CONV_LINE elements. leaves: results may be left out. */
TD_INLINE void conv_run_next(const struct conv_row *r, int64_t i, int64_t x, int64_t n,
                             const bool leaves, float *line, struct conv_run *u)
{
    const struct td_conv *c = r->job->c;
    const int64_t reach = (n - 1) * c->stride[1], start = x * c->stride[1] - c->padding[1];
    const float *in = r->in + i * r->down;
    const bool is_row = i >= r->low && i < r->high;
    u->from = u->end;
    u->step = c->stride[1] * c->in_channels;
    int64_t at = start + u->from;
    if (is_row && conv_run_there(r, start, reach, u) && (leaves || !(u->before || u->after))) {
        u->in = in + (u->before ? at + c->stride[1] : at) * c->in_channels;
        return;
    }
    int64_t most = u->from + TD_CONV_LINE / c->in_channels - reach;
    u->end = c->kernel[1] < most ? c->kernel[1] : most;
    u->before = u->after = false;
    u->in = line;
    if (is_row)
        conv_copy_padded(c, in, at, reach + u->end - u->from, line);
    else
        memset(line, 0, (size_t)((reach + u->end - u->from) * c->in_channels) * sizeof *line);
}

#endif
