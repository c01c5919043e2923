/* Post-ops of convolutions of FP32 with channels last that sum in registers. The first ones are
 * done there, as far as they take no other tensor but a single number, the rest behind pixels of
 * the result. Included by files that have TD_REAL_BITS and the level's lanes. */
#ifndef TD_KERNELS_CONVOLUTION_POSTS_H
#define TD_KERNELS_CONVOLUTION_POSTS_H

#include "kernels/convolution/convolution.h"
#include "kernels/formulas.h"
#include "kernels/reals.h"

struct conv_posts {
    const struct td_conv *c;
    int early;              /* post-ops that are done in registers, */
    float number[TD_POSTS]; /* what these take, */
    struct td_post rest;    /* and those that are not */
};

/* Whether it can be done in registers. */
static bool conv_post_is_early(const struct td_post_op *op)
{
    switch (op->point) {
    case TD_POINT_relu:
    case TD_POINT_hardswish:
        return true;
    case TD_POINT_plus:
    case TD_POINT_mul:
    case TD_POINT_fmax:
    case TD_POINT_fmin:
        return td_numel(op->other) == 1;
    default:
        return false;
    }
}

/* early: whether there are any that are done in registers. */
static void conv_posts_split(const struct td_conv *c, bool early, struct conv_posts *p)
{
    *p = (struct conv_posts){.c = c};
    while (early && p->early < c->post.n && conv_post_is_early(&c->post.op[p->early])) {
        const struct td_tensor *other = c->post.op[p->early].other;
        p->number[p->early++] = other ? *(const float *)other->data : 0;
    }
    for (int i = p->early; i < c->post.n; i++)
        p->rest.op[p->rest.n++] = c->post.op[i];
}

#define CONV_EACH_SUM(formula)                                                                     \
    {                                                                                              \
        _Pragma("GCC unroll 32") for (int t = 0; t < n; t++) sum[t] = formula;                     \
        continue;                                                                                  \
    }
/* Does the early ones to n vectors of sums. */
TD_INLINE void conv_posts_early(const struct conv_posts *p, td_vf *sum, const int n)
{
    for (int i = 0; i < p->early; i++) {
        enum td_point point = p->c->post.op[i].point;
        td_vf number = td_set(p->number[i]);
        if (point == TD_POINT_relu)
            CONV_EACH_SUM(o_relu(sum[t]))
        if (point == TD_POINT_fmax)
            CONV_EACH_SUM(o_fmax(sum[t], number))
        if (point == TD_POINT_fmin)
            CONV_EACH_SUM(o_fmin(sum[t], number))
        if (point == TD_POINT_hardswish)
            CONV_EACH_SUM(o_hardswish(sum[t]))
        if (point == TD_POINT_mul)
            CONV_EACH_SUM(sum[t] * number)
        CONV_EACH_SUM(sum[t] + number)
    }
}

/* The rest, of so many channels of pixels of the result from element number at on. */
static void conv_posts_late(const struct conv_posts *p, int64_t at, int64_t pixels,
                            int64_t channels)
{
    int64_t all = p->c->groups * p->c->out_channels;
    if (p->rest.n)
        TD_NAME(post_rows)
    (&p->rest, p->c->out, at, pixels, channels, all, (float *)p->c->out->data + at, all);
}

#endif
