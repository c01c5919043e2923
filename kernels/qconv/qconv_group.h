/* Convolutions of 8 bits by the products of gemm_group.h: what lies under the kernel is gathered as
 * rows of bytes are copied for them, and sums become results while they are in a cache. Signed x
 * becomes unsigned by its sign bit, which moves its zero point by 128 as well. Zero points are
 * taken into account by the sums of the weight's channels, and of what was gathered where w has
 * one. */
#ifndef TD_KERNELS_QCONV_GROUP_H
#define TD_KERNELS_QCONV_GROUP_H

#define TD_INT_MM
#include "kernels/gemm/gemm_group.h"
#include "kernels/qconv/qconv_deep.h"
#include "kernels/qconv/qconv_round.h"

#include <stdlib.h>

#ifdef TD_TILES
#define TD_QCONV_PAD TD_TILES_DEPTH
#else
#define TD_QCONV_PAD 1
#endif

/* ---- rows of what lies under the kernel ---- */

typedef uint8_t td_q16 __attribute__((vector_size(16)));

/* over: up to 15 more may be read and written. */
static inline void td_q_copy(uint8_t *to, const uint8_t *from, int64_t n, uint8_t flip, bool over)
{
    for (; n >= 16 || (over && n > 0); n -= 16, to += 16, from += 16) {
        td_q16 v;
        memcpy(&v, from, 16);
        v ^= flip;
        memcpy(to, &v, 16);
    }
    for (; n > 0; n--)
        *to++ = *from++ ^ flip;
}

static inline void td_q_fill(uint8_t *to, int64_t n, uint8_t with)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = with;
}

/* One row: n elements from position (i, j) of the kernel and channel ch on, for a kernel that
 * begins at (row, col) of the image. over: what lies behind to is written later. */
static inline void td_q_row(const struct td_qjob *job, const uint8_t *image, int64_t row,
                            int64_t col, int64_t i, int64_t j, int64_t ch, int64_t n, uint8_t *to,
                            bool over)
{
    const struct td_qconv *c = &job->c;
    const uint8_t *last = (const uint8_t *)c->x->data + td_numel(c->x) - 16;
    while (n > 0) {
        int64_t y = row + i * c->dilation[0], x = col + j * c->dilation[1], take = 1;
        bool out = y < 0 || y >= c->in[0];
        if (out)
            take = c->kernel[1] - j;
        else if (x < 0 || x >= c->in[1])
            out = true;
        else if (c->dilation[1] == 1)
            take = c->kernel[1] - j < c->in[1] - x ? c->kernel[1] - j : c->in[1] - x;
        const uint8_t *from = image + (y * c->in[1] + x) * c->channels + ch;
        int64_t bytes = take * c->channels - ch;
        bytes = bytes < n ? bytes : n;
        if (out)
            td_q_fill(to, bytes, (uint8_t)job->zero);
        else
            td_q_copy(to, from, bytes, job->flip, over && from + bytes <= last);
        to += bytes;
        n -= bytes;
        ch = 0;
        j += take;
        i += j == c->kernel[1];
        j = j == c->kernel[1] ? 0 : j;
    }
}

/* So many whole rows, of pixels side by side from column x on whose kernels leave the image neither
 * to the left nor to the right. Behind the last one 16 bytes may be written. */
static inline void td_q_inner(const struct td_qjob *job, const uint8_t *image, int64_t y, int64_t x,
                              int64_t rows, uint8_t *to, int64_t ld)
{
    const struct td_qconv *c = &job->c;
    const int64_t run = c->kernel[1] * c->channels, step = c->stride[1] * c->channels;
    const int64_t line = c->in[1] * c->channels, first = y * c->stride[0] - c->padding[0];
    const uint8_t *last = (const uint8_t *)c->x->data + td_numel(c->x) - 16;
    const uint8_t *corner = image + first * line + (x * c->stride[1] - c->padding[1]) * c->channels;
    for (int64_t row = 0; row < rows; row++, corner += step, to += ld)
        for (int64_t i = 0; i < c->kernel[0]; i++) {
            int64_t at = first + i * c->dilation[0];
            const uint8_t *from = corner + i * c->dilation[0] * line;
            if (at < 0 || at >= c->in[0])
                td_q_fill(to + i * run, run, (uint8_t)job->zero);
            else
                td_q_copy(to + i * run, from, run, job->flip, from + run <= last);
        }
}

/* How many of so many pixels from column x on td_q_inner may take. */
static inline int64_t td_q_inners(const struct td_qconv *c, int64_t x, int64_t rows)
{
    int64_t left = x * c->stride[1] - c->padding[1], room = c->in[1] - c->kernel[1] - left;
    int64_t n = room < 0 || left < 0 || c->dilation[1] > 1 ? 0 : room / c->stride[1] + 1;
    n = n < c->size[1] - x ? n : c->size[1] - x;
    return n < rows ? n : rows;
}

static void td_q_gather(const struct td_gemm *g, int64_t at, int64_t rows, int64_t p, int64_t n,
                        uint8_t *to, int64_t ld)
{
    const struct td_qjob *job = g->context;
    const struct td_qconv *c = &job->c;
    int64_t pixel = job->first + at, x = pixel % c->size[1], y = pixel / c->size[1] % c->size[0];
    int64_t bytes = c->in[0] * c->in[1] * c->channels;
    const uint8_t *image = (const uint8_t *)c->x->data + pixel / c->size[1] / c->size[0] * bytes;
    int64_t position = p / c->channels, i = position / c->kernel[1], j = position % c->kernel[1];
    int64_t last = (15 + ld) / ld; /* rows behind which there may not be 16 bytes */
    for (int64_t take; rows > 0; rows -= take, to += take * ld) {
        take = n == g->k ? td_q_inners(c, x, rows - last) : 0;
        if (take > 0)
            td_q_inner(job, image, y, x, take, to, ld);
        else
            td_q_row(job, image, y * c->stride[0] - c->padding[0], x * c->stride[1] - c->padding[1],
                     i, j, p % c->channels, n, to, rows > last);
        take = take > 0 ? take : 1;
        x += take;
        if (x < c->size[1])
            continue;
        x = 0;
        if (++y < c->size[0])
            continue;
        y = 0;
        image += bytes;
    }
}

/* ---- sums ---- */

/* Takes from a row's sums what w's zero points have added. */
static void td_q_take_zeros(const struct td_rect *r, int64_t i, int32_t *sum)
{
    const struct td_qjob *job = r->g->context;
    uint32_t all = 0;
    uint8_t some[256];
    for (int64_t p = 0; p < r->g->k; p += 256) {
        int64_t n = r->g->k - p < 256 ? r->g->k - p : 256;
        td_q_gather(r->g, r->i + i, 1, p, n, some, 256);
        for (int64_t x = 0; x < n; x++)
            all += (uint32_t)some[x] - (uint32_t)job->zero;
    }
    for (int64_t j = 0; j < r->cols; j++)
        sum[j] = (int32_t)((uint32_t)sum[j] - all * (uint32_t)(int32_t)td_qconv_number(
                                                        job->call, TD_QCONV_W_ZERO, r->j + j));
}

static void td_q_rect(struct td_rect *r)
{
    const struct td_qjob job = *(const struct td_qjob *)r->g->context; /* which no store changes */
    td_group_rect(r);
    for (int64_t i = 0; i < r->rows; i++) {
        int32_t *sum = (int32_t *)(void *)r->c + i * r->ldc;
        int64_t at = (job.first + r->i + i) * job.c.outs + r->j;
        if (job.w_zero)
            td_q_take_zeros(r, i, sum);
        for (int64_t j = 0; j < r->cols; j += TD_LANES) {
            td_vi v;
            memcpy(&v, sum + j, sizeof v);
            td_q_give(&job, at + j, r->cols - j, v, r->j + j);
        }
    }
}

/* ---- the weight ---- */

/* In the order of what is gathered: [out, h, w, in]. */
static void td_q_turn(const struct td_qconv *c, const uint8_t *w, uint8_t *to)
{
    int64_t positions = c->kernel[0] * c->kernel[1];
    for (int64_t o = 0; o < c->outs; o++, w += c->each * positions)
        for (int64_t at = 0; at < positions; at++)
            for (int64_t p = 0; p < c->each; p++)
                *to++ = w[p * positions + at];
}

/* td_weight_fill: the panels of a product whose context is the job. */
static int td_q_pack(void *packed, const struct td_tensor *plain, void *arg)
{
    const struct td_gemm *g = arg;
    const struct td_qjob *job = g->context;
    struct td_tensor turned = *plain;
    turned.data = malloc(td_nbytes(plain));
    if (!turned.data)
        return -1;
    td_q_turn(&job->c, plain->data, turned.data);
    td_group_fill(packed, &turned, arg);
    free(turned.data);
    return 0;
}

static const float *td_q_panels(const struct td_qjob *job, struct td_gemm *g)
{
    struct td_weight *weight = td_weight_to_pack(job->c.w);
    struct {
        int64_t k, n, positions;
        int32_t width, group, pad;
        char owner[4];
    } key;
    if (!weight)
        return NULL;
    memset(&key, 0, sizeof key);
    key.k = g->k;
    key.n = g->n;
    key.positions = job->c.kernel[0] * job->c.kernel[1];
    key.width = TD_PANEL;
    key.group = g->group;
    key.pad = g->pad;
    memcpy(key.owner, "qcnv", 4);
    int64_t panels = (g->n + TD_PANEL - 1) / TD_PANEL;
    return td_weight_pack(weight, &key, sizeof key, "simd qconv",
                          (size_t)(panels * td_gemm_lanes(g) * TD_PANEL) * 4, td_q_pack, g, NULL);
}

/* td_weight_fill: the sum of each output channel's elements. */
static int td_q_sums(void *sums, const struct td_tensor *w, void *arg)
{
    int64_t outs = w->shape[0], each = td_numel(w) / outs;
    (void)arg;
    for (int64_t o = 0; o < outs; o++) {
        int32_t sum = 0;
        for (int64_t i = 0; i < each; i++)
            sum += td_q_element(w, o * each + i);
        ((int32_t *)sums)[o] = sum;
    }
    return 0;
}

/* ---- all of it ---- */

/* What is added to the sums of each output channel, and its scale; zeros beyond the last. */
static void td_q_channels(struct td_qjob *job)
{
    const struct td_qconv *c = &job->c;
    const struct td_value *arg = job->call->arg;
    const struct td_tensor *w_scale = &arg[TD_QCONV_W_SCALE].tensor,
                           *w_zero = &arg[TD_QCONV_W_ZERO].tensor;
    float x_scale = *(const float *)arg[TD_QCONV_X_SCALE].tensor.data;
    float y_scale = job->bits ? *(const float *)arg[TD_QCONV_Y_SCALE].tensor.data : 1;
    int64_t room = (c->outs + TD_LANES - 1) / TD_LANES * TD_LANES, step = td_numel(w_scale) > 1;
    memset(job->add, 0, (size_t)room * 4);
    memset(job->scale, 0, (size_t)room * 4);
    if (c->bias && job->bits)
        memcpy(job->add, c->bias->data, (size_t)c->outs * 4);
    else if (c->bias)
        job->bias = c->bias->data;
    for (int64_t o = 0; o < c->outs; o++)
        job->scale[o] = x_scale * ((const float *)w_scale->data)[o * step] / y_scale;
    for (int64_t i = 0; i < td_numel(w_zero); i++)
        job->w_zero = job->w_zero || ((const uint8_t *)w_zero->data)[i];
}

static void td_q_begin(struct td_qjob *job, const struct td_call *call)
{
    enum td_dtype type = call->out[0].dtype;
    td_qconv_of(call, &job->c);
    td_qconv_cut(call, TD_QUADS, TD_QCONV_PAD, &job->cut);
    job->call = call;
    job->flip = job->c.x->dtype == TD_i8 ? 128 : 0;
    job->zero = (int32_t)td_qconv_number(call, TD_QCONV_X_ZERO, 0) + job->flip;
    if (td_qconv_rounds(call)) {
        job->bits = call->out[0].data;
        job->range = td_q_range_of(type, (int32_t)td_qconv_number(call, TD_QCONV_Y_ZERO, 0));
    } else {
        job->reals = call->out[0].data;
    }
    job->add = (int32_t *)(void *)((char *)call->scratch + job->cut.at_add);
    job->scale = (float *)(void *)((char *)call->scratch + job->cut.at_scale);
    td_q_channels(job);
}

/* Takes from what is added what x's zero point adds to each sum. */
static void td_q_take_x_zero(struct td_qjob *job)
{
    const struct td_qconv *c = &job->c;
    struct td_weight *weight = td_weight_of(c->w);
    int32_t *own = (int32_t *)(void *)((char *)job->call->scratch + job->cut.at_sum);
    const int32_t *sum = weight ? td_weight_pack(weight, "qconv sums", 10, "sums of channels",
                                                 (size_t)c->outs * 4, td_q_sums, NULL, NULL)
                                : NULL;
    if (!sum)
        td_q_sums(own, c->w, NULL);
    sum = sum ? sum : own;
    for (int64_t o = 0; o < c->outs; o++)
        job->add[o] = (int32_t)((uint32_t)job->add[o] - (uint32_t)job->zero * (uint32_t)sum[o]);
}

static inline void td_qconv_simd(const struct td_call *call)
{
    struct td_qjob job = {0};
    td_q_begin(&job, call);
    if (td_qconv_is_depthwise(&job.c)) {
        td_q_deep(&job);
        return;
    }
    td_q_take_x_zero(&job);
    const struct td_qconv *c = &job.c;
    struct td_tensor rows = {.dtype = TD_u8, .data = c->x->data}, sums = {.dtype = TD_i32},
                     w = *c->w;
    char *scratch = call->scratch;
    struct td_gemm g;
    td_qconv_gemm(c, job.cut.band, call->threads, TD_QUADS, TD_QCONV_PAD, &g);
    sums.data = scratch + job.cut.at_sum;
    g.a = &rows;
    g.b = c->w;
    g.out = &sums;
    g.gather_a = td_q_gather;
    g.context = &job;
    struct td_gemm_job product = {.g = &g, .scratch = scratch, .run = td_q_rect};
    product.panels = td_q_panels(&job, &g);
    if (!product.panels) {
        w.data = scratch + job.cut.at_w;
        w.weight = NULL;
        td_q_turn(c, c->w->data, w.data);
        g.b = &w;
    }
    int64_t pixels = c->images * c->size[0] * c->size[1];
    for (; job.first < pixels && !td_stopped(); job.first += job.cut.band) {
        g.m = pixels - job.first < job.cut.band ? pixels - job.first : job.cut.band;
        td_gemm_plan(&g, false, &product.plan);
        td_gemm_share(&product);
    }
}

#endif
