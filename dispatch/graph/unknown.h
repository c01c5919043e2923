/* The unknown sizes of a call's tensors, and what they may be. Internal to dispatch/. */
#ifndef TD_DISPATCH_UNKNOWN_H
#define TD_DISPATCH_UNKNOWN_H

#include "dispatch/dispatch.h"

#define TD_LIKELY 96
#define TD_SIZE_MOST ((int64_t)1 << 46) /* elements of a tensor: more than any memory has */

struct td_open { /* a tensor with unknown sizes */
    struct td_tensor *tensor;
    int arg, element;             /* the argument that it is, or an element of; of none: -1 */
    int16_t unknown[TD_MAX_RANK]; /* which of the unknown ones each size is; -1: it is known */
};

struct td_unknown {
    struct td_named *args; /* as given, in memory where sizes may be changed */
    int n_args;
    size_t n_tensors;
    struct td_open *open;
    int n_open, n;
    int64_t name[TD_MAX_UNKNOWNS]; /* of each unknown size: the number that the caller gave */
    int64_t likely[TD_LIKELY];     /* what they may be, the likeliest first */
    int n_likely, n_given;         /* the first ones are the call's own numbers, and 1 and 2 */
    int64_t known[TD_LIKELY];      /* sizes of the arguments' that are no unknown ones */
    int n_known;
};

/* Reads a call; memory is that of options. expr: of an expression, its text; else NULL. -EINVAL:
 * there are too many, which problem says; -ENOMEM. */
int td_unknown_read(struct td_unknown *u, const struct td_named *args, int n_args, const char *expr,
                    const struct td_options *options, struct td_problem *problem);
/* Whether an argument has a dimension that is known and of that size. */
bool td_unknown_knows(const struct td_unknown *u, int64_t size);
/* Gives the tensors these sizes, one for each unknown. False: a tensor would have more elements
 * than any memory. */
bool td_unknown_set(struct td_unknown *u, const int64_t *size);
/* "self [2,4], other [5,3]": the tensors with unknown sizes, as set, as many as there is room for.
 */
void td_unknown_describe(const struct td_unknown *u, char *text, size_t size);

#endif
