/* What the files of the window family share: the geometry of pools. A pool goes over planes of up
 * to three dimensions, depth, height and width; those that an operator lacks are of one element. */
#ifndef TD_KERNELS_WINDOW_H
#define TD_KERNELS_WINDOW_H

#include "kernels/kernels.h"

enum td_window_kind { TD_WINDOW_max, TD_WINDOW_mean };

/* td_op.family of a pool. */
struct td_window {
    enum td_window_kind kind;
    int dims;      /* that windows have */
    bool adaptive; /* windows are what it takes for a result of output_size */
    bool indices;  /* the second result says where each maximum was found */
    bool backward; /* the first argument is the gradient, and the second what was pooled */
};

struct td_axis { /* one dimension of the windows; sizes and steps in elements */
    int64_t in, out, kernel, stride, padding, dilation;
    bool adaptive;
};

struct td_taps {      /* one window along one dimension */
    int64_t first, n; /* its elements inside: first, first + dilation, ... */
    int64_t full;     /* how many there are with the padding */
};

struct td_pool {
    struct td_axis axis[3]; /* depth, height, width */
    int64_t planes;         /* that share these sizes */
    bool include_pad;
    int64_t divisor; /* 0: the window's size */
};

/* The geometry of a call that the rule has judged. */
struct td_pool td_pool_of(const struct td_call *call);

/* The window of result o. One that lies in the padding altogether has n = 0, and a first all the
 * same. */
static inline struct td_taps td_axis_at(const struct td_axis *a, int64_t o)
{
    if (a->adaptive) { /* from the floor of o * in / out to the ceiling of (o + 1) * in / out */
        int64_t first, end;
        if (a->in < INT32_MAX && a->out < INT32_MAX) {
            first = o * a->in / a->out;
            end = ((o + 1) * a->in + a->out - 1) / a->out;
        } else {
            first = (int64_t)((__int128)o * a->in / a->out);
            end = (int64_t)(((__int128)(o + 1) * a->in + a->out - 1) / a->out);
        }
        return (struct td_taps){first, end - first, end - first};
    }
    int64_t begin = o * a->stride - a->padding, k = a->kernel, d = a->dilation;
    if (d == 1) { /* without divisions */
        int64_t first = begin < 0 ? 0 : begin, end = begin + k, most = a->in + a->padding;
        int64_t n = (end < a->in ? end : a->in) - first;
        return (struct td_taps){first, n < 0 ? 0 : n, (end < most ? end : most) - begin};
    }
    int64_t skipped = begin < 0 ? (d - 1 - begin) / d : 0;
    int64_t inside = begin < a->in ? (a->in - begin + d - 1) / d : 0;
    int64_t n = (inside < k ? inside : k) - skipped, most = a->in + a->padding - begin;
    return (struct td_taps){begin + skipped * d, n < 0 ? 0 : n, most < k ? most : k};
}

/* The elements of a window along one dimension that its mean counts. */
static inline int64_t td_pool_part(const struct td_pool *pool, const struct td_taps *taps)
{
    return pool->include_pad ? taps->full : taps->n;
}

/* What a window's sum is divided by for its mean: its elements, which the rule has counted. */
static inline int64_t td_pool_count(const struct td_pool *pool, const struct td_taps *d,
                                    const struct td_taps *h, const struct td_taps *w)
{
    return pool->divisor ? pool->divisor
                         : td_pool_part(pool, d) * td_pool_part(pool, h) * td_pool_part(pool, w);
}

/* The windows [*low, *high) that element i is in. Those have no gaps. */
static inline void td_axis_around(const struct td_axis *a, int64_t i, int64_t *low, int64_t *high)
{
    if (a->adaptive) {
        *low = (int64_t)((__int128)i * a->out / a->in);
        *high = (int64_t)(((__int128)(i + 1) * a->out - 1) / a->in) + 1;
        return;
    }
    int64_t first = i + a->padding - a->kernel + 1, last = (i + a->padding) / a->stride + 1;
    *low = first < 0 ? 0 : (first + a->stride - 1) / a->stride;
    *high = last < a->out ? last : a->out;
}

#endif
