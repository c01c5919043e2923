/* The arguments that one of an operator's samples describes ("self=[m,n] dim=1 index=[m,k]:i64<n"):
 * what letters stand for, and the type of tensors that name none, are the caller's. */
#ifndef TD_DISPATCH_SAMPLE_H
#define TD_DISPATCH_SAMPLE_H

#include "dispatch/dispatch.h"

struct td_sizes {
    int64_t n, m, k;
};

#define TD_SAMPLE_TEXT 400 /* bytes of an argument */

struct td_sample {
    int n_args;
    struct td_named arg[TD_MAX_ARGS]; /* for td_run_bind, once its tensors have data */
    int n_tensors;
    struct td_sample_tensor {
        struct td_tensor *tensor; /* in arg, or in a list of it; without data */
        int64_t below;            /* its whole numbers must be from 0 to below this; -1: any */
        int param, element;       /* which of the schema's it is; and of a list, else 0 */
    } tensor[2 * TD_MAX_ARGS];
    struct td_tensor list[TD_MAX_ARGS]; /* what arguments that are lists have */
    char text[TD_MAX_ARGS][TD_SAMPLE_TEXT];
};

/* Reads a pattern, one of the operator's own. What it fills points into itself, and so may not be
 * moved. */
void td_sample_read(struct td_sample *sample, const struct td_schema *schema, const char *pattern,
                    const struct td_sizes *sizes, enum td_dtype dtype);

#endif
