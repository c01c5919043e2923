/* What the files of im2col and col2im share. An image has channels of rows; its columns are blocks,
 * one for each channel and place within a window, of one element for each window. */
#ifndef TD_KERNELS_UNFOLD_H
#define TD_KERNELS_UNFOLD_H

#include "kernels/kernels.h"

struct td_unfold_axis {
    int64_t size, windows; /* elements; windows that fit */
    int64_t kernel, dilation, padding, stride;
};

struct td_unfold {
    int64_t channels; /* of all images */
    struct td_unfold_axis h, w;
};

struct td_unfold td_unfold_of(const struct td_call *call);

/* The windows [*low, *high) whose element k lies inside. */
static inline void td_unfold_inside(const struct td_unfold_axis *a, int64_t k, int64_t *low,
                                    int64_t *high)
{
    int64_t first = k * a->dilation - a->padding, left = a->size - first;
    *low = first < 0 ? (a->stride - 1 - first) / a->stride : 0;
    *high = left > 0 ? (left + a->stride - 1) / a->stride : 0;
    *high = *high < a->windows ? *high : a->windows;
    *low = *low < *high ? *low : *high;
}

#endif
