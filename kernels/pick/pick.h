/* What the files of the pick family share. Each element of a result is one of self's, or a number
 * that fills: which one is told dimension by dimension, by a struct td_pick_axis. */
#ifndef TD_KERNELS_PICK_H
#define TD_KERNELS_PICK_H

#include "kernels/elementwise.h"
#include "kernels/sizes.h"

#include <math.h>

enum td_pick_how {
    TD_PICK_constant, /* outside of self is the number */
    TD_PICK_reflect,
    TD_PICK_replicate,
    TD_PICK_circular,
    TD_PICK_by_mode, /* as the call's argument mode says */
    TD_PICK_nearest,
    TD_PICK_exact, /* the nearest to the middle of what a result stands for */
};

/* td_op.family of a picking operator. */
struct td_pick {
    enum td_pick_how how;
    int dims; /* that it picks in, the last ones; 0: as the padding says */
    bool vec; /* the size may be given by factors */
};

struct td_pick_axis {
    enum td_pick_how how;
    int64_t in, out;
    int64_t before;    /* elements of padding */
    int64_t low, size; /* circular: what comes around is [low, low + size) of self */
    double scale;      /* nearest: elements of self for one of the result */
    bool wide;         /* computed in FP64, else in FP32 */
};

/* The dimensions of a call that the rule has judged. */
void td_pick_axes(const struct td_call *call, struct td_pick_axis axis[TD_MAX_RANK]);

/* Bytes of scratch that a row of so many looked up elements needs: their places, and those within
 * vectors, of which the last may reach beyond the row. */
static inline size_t td_pick_scratch(int64_t out)
{
    return (size_t)out * sizeof(int64_t) + ((size_t)out + 64) * sizeof(uint32_t);
}

/* The element that fills, as bits of the result's type. */
uint64_t td_pick_filling(const struct td_call *call);

/* The nearest element, rounded step by step as in ATen: whoever is at a tie comes out the same. A
 * factor near 0 leads to infinity, which is behind the last, or to NaN, which is the first. */
static inline int64_t td_pick_nearest(const struct td_pick_axis *a, int64_t o)
{
    float scale = (float)a->scale, narrow = scale * ((float)o + 0.5f) - 0.5f;
    double x = a->wide ? a->scale * ((double)o + 0.5) - 0.5 : (double)narrow;
    if (a->how == TD_PICK_exact)
        return td_index_of_real(floorf((float)((x < 0 ? 0 : x) + 0.5)), a->in - 1);
    return td_index_of_real(floorf(a->wide ? (float)((double)o * a->scale) : (float)o * scale),
                            a->in - 1);
}

/* Where result o comes from; -1: the number that fills. */
static inline int64_t td_pick_from(const struct td_pick_axis *a, int64_t o)
{
    int64_t x = o - a->before, last = a->in - 1;
    switch (a->how) {
    case TD_PICK_reflect:
        return x < 0 ? -x : x > last ? 2 * last - x : x;
    case TD_PICK_replicate:
        return x < 0 ? 0 : x > last ? last : x;
    case TD_PICK_circular:
        x = (x - a->low) % a->size;
        return a->low + (x < 0 ? x + a->size : x);
    case TD_PICK_nearest:
    case TD_PICK_exact:
        return a->scale == 1 ? (o > last ? last : o) : td_pick_nearest(a, o);
    default:
        return x < 0 || x > last ? -1 : x;
    }
}

#endif
