/* What the files of the bench share. Internal to server/. */
#ifndef TD_SERVER_BENCH_H
#define TD_SERVER_BENCH_H

#include "dispatch/dispatch.h"

/* A case of the bench: an operator with the shapes of its tensors and its other arguments. */
struct td_case {
    char id[64], op[64];
    int n_shapes;
    struct td_tensor shape[6]; /* rank, sizes and type; no data */
    struct td_named arg[8];    /* what is not a tensor, named as in the operator's schema */
    int n_args;
};

/* Reads a file of cases, {"cases":[{"id","op","shapes",...}]}, and calls each for every one, in
 * order. Names of other frameworks are translated: axis, perm, eps, stride, pad, to, dtype; those
 * in "parameters" are the schema's. -EINVAL when the text is no such file; else what each gave
 * back. */
int td_bench_each_case(const char *text, size_t length,
                       int (*each)(void *arg, const struct td_case *one), void *arg,
                       struct td_problem *problem);

/* bench --dispatch: all items, or one of them repeat times and nothing printed. The exit status. */
int td_bench_dispatch(bool json, const char *only, long repeat);

#endif
