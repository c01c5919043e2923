/* What the files of rotary_embedding share: its sizes, and where things lie. */
#ifndef TD_KERNELS_ROTARY_H
#define TD_KERNELS_ROTARY_H

#include "kernels/kernels.h"

struct td_rotary {
    const struct td_tensor *x, *cosine, *sine, *positions,
        *out;                           /* borrowed; positions NULL: none */
    int64_t batch, heads, steps, depth; /* depth: elements of a head */
    int64_t half;                       /* pairs of them that are turned, from the first on */
    bool paired;                        /* neighbours are a pair; else those half apart */
    bool steps_first;                   /* x is [batch, steps, heads, depth], not heads first */
};

struct td_rotary td_rotary_of(const struct td_call *call);

/* Row r of x, one head at one step: its first element's row in the caches. */
int64_t td_rotary_angle(const struct td_rotary *r, int64_t row);

#endif
