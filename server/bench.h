/* What the files of the bench share. Internal to server/. */
#ifndef TD_SERVER_BENCH_H
#define TD_SERVER_BENCH_H

#include "dispatch/dispatch.h"
#include "pools/pools.h"

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
 * in "parameters" are the schema's. "dtype" is one for all tensors, or a list. -EINVAL when the
 * text is no such file; else what each gave back. */
int td_bench_each_case(const char *text, size_t length,
                       int (*each)(void *arg, const struct td_case *one), void *arg,
                       struct td_problem *problem);

/* Gives a tensor data from the arena: small reproducible values. Nothing overflows, denormals do
 * not appear, and whole numbers are from 0 to 63, which makes them good indices. -ENOMEM. */
int td_bench_fill(struct td_arena *arena, struct td_tensor *t);

/* bench --dispatch: all items, or one of them repeat times and nothing printed. The exit status. */
int td_bench_dispatch(bool json, const char *only, long repeat);

#endif
