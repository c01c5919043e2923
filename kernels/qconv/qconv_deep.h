/* Depthwise convolutions of 8 bits: vectors along the channels, which need no products of
 * neighbours. */
#ifndef TD_KERNELS_QCONV_DEEP_H
#define TD_KERNELS_QCONV_DEEP_H

#include "kernels/qconv/qconv_round.h"

/* The positions of the kernel, from *first to before *end, that lie on an image of so many elements
 * for one that begins at from. */
TD_INLINE void td_q_inside(int64_t from, int64_t kernel, int64_t gap, int64_t in, int64_t *first,
                           int64_t *end)
{
    *first = from < 0 ? (-from + gap - 1) / gap : 0;
    for (*end = kernel; *end > *first && from + (*end - 1) * gap >= in;)
        --*end;
}

/* Channels from ch on of a pixel: corner is where its kernel begins, and end where x ends. */
TD_INLINE td_vi td_q_deep_sum(const struct td_qjob *job, const int64_t at[4], const uint8_t *corner,
                              const uint8_t *end, int64_t ch)
{
    const struct td_qconv *c = &job->c;
    const int32_t *w = (const int32_t *)(const void *)((char *)job->call->scratch + job->cut.at_w);
    const int64_t channels = c->channels, left = channels - ch, width = c->kernel[1];
    const int64_t row = c->in[1] * channels * c->dilation[0], step = channels * c->dilation[1];
    const uint8_t flip = job->flip;
    const int32_t zero = job->zero;
    td_vi sum = {0};
    for (int64_t i = at[0]; i < at[1]; i++) {
        const uint8_t *from = corner + i * row + at[2] * step + ch;
        for (int64_t j = at[2]; j < at[3]; j++, from += step) {
            td_qbytes b = {0};
            td_vi v;
            if (left >= TD_LANES || end - from >= TD_LANES)
                memcpy(&b, from, sizeof b); /* of lanes beyond the last nothing is stored */
            else
                td_copy_few(&b, from, left, 1);
            memcpy(&v, w + (i * width + j) * channels + ch, sizeof v);
            td_vi x = __builtin_convertvector(b ^ flip, td_vi) - zero;
            sum = (td_vi)((td_vu)sum + (td_vu)x * (td_vu)v); /* which may wrap */
        }
    }
    return sum;
}

static void td_q_deep_rows(void *arg, int64_t begin, int64_t end)
{
    const struct td_qjob job = *(const struct td_qjob *)arg; /* which no store changes */
    const struct td_qconv *c = &job.c;
    const uint8_t *first = c->x->data, *last = first + td_numel(c->x);
    for (int64_t at = begin; at < end && !td_stopped(); at++) {
        int64_t y = at % c->size[0] * c->stride[0] - c->padding[0], inside[4];
        int64_t row = (at / c->size[0] * c->in[0] + y) * c->in[1];
        int64_t to = at * c->size[1] * c->outs;
        td_q_inside(y, c->kernel[0], c->dilation[0], c->in[0], &inside[0], &inside[1]);
        for (int64_t i = 0; i < c->size[1]; i++, to += c->outs) {
            int64_t x = i * c->stride[1] - c->padding[1];
            const uint8_t *corner = first + (row + x) * c->channels;
            td_q_inside(x, c->kernel[1], c->dilation[1], c->in[1], &inside[2], &inside[3]);
            for (int64_t ch = 0; ch < c->channels; ch += TD_LANES)
                td_q_give(&job, to + ch, c->channels - ch,
                          td_q_deep_sum(&job, inside, corner, last, ch), ch);
        }
    }
}

static void td_q_deep(struct td_qjob *job)
{
    const struct td_qconv *c = &job->c;
    int64_t positions = c->kernel[0] * c->kernel[1];
    int32_t *w = (int32_t *)(void *)((char *)job->call->scratch + job->cut.at_w);
    const struct td_tensor *zero = &job->call->arg[TD_QCONV_W_ZERO].tensor;
    int64_t step = td_numel(zero) > 1;
    for (int64_t ch = 0; ch < c->channels; ch++)
        for (int64_t at = 0; at < positions; at++)
            w[at * c->channels + ch] =
                td_q_element(c->w, ch * positions + at) - td_q_element(zero, ch * step);
    td_parallel(job->call->threads, c->images * c->size[0],
                1 + 65536 / (c->size[1] * c->outs * positions), td_q_deep_rows, job);
}

#endif
