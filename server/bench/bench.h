/* What the files of the bench share. Internal to server/. */
#ifndef TD_SERVER_BENCH_H
#define TD_SERVER_BENCH_H

#include "dispatch/call/sample.h"
#include "pools/pools.h"

/* A case of the bench: an operator with the shapes of its tensors and its other arguments. */
struct td_case {
    char id[64], op[64];
    const char *expr; /* over its tensors, called a, b, c and so on, instead of op; or NULL */
    int n_shapes;
    struct td_tensor shape[6]; /* rank, sizes and type; no data */
    struct td_named arg[8];    /* what is not a tensor, named as in the operator's schema */
    int n_args;
};

/* The text of a file of cases, or, without a path, of a short list; to be freed. NULL: it cannot be
 * read. */
char *td_bench_read_cases(const char *path, size_t *length);

/* Reads a file of cases, {"cases":[{"id","op","shapes",...}]}, and calls each for every one, in
 * order; a case lives as long as that call. Names of other frameworks are translated: axis, perm,
 * eps, stride, pad, to, dtype; those in "parameters" are the schema's. One with an "expr" has it
 * run. "dtype" is one for all tensors, or a list. -EINVAL when the text is no such file; else what
 * each gave back. */
int td_bench_each_case(const char *text, size_t length,
                       int (*each)(void *arg, const struct td_case *one), void *arg,
                       struct td_problem *problem);

/* Gives a tensor data from the arena: small reproducible values. Nothing overflows, denormals do
 * not appear, and whole numbers are from 0 to 63, which makes them good indices. -ENOMEM. */
int td_bench_fill(struct td_arena *arena, struct td_tensor *t);

void td_bench_sort(double *figures, int n); /* the least first */

struct td_bench_pool { /* one pinned worker */
    struct td_topology *topology;
    struct td_pools *pools;
    struct td_pool *pool;
};
/* close is right in any case. What td_pools_add says, or -ENOMEM; problem says it in words. */
int td_bench_pool_open(struct td_bench_pool *pool, int threads, struct td_problem *problem);
void td_bench_pool_close(struct td_bench_pool *pool);

/* An operator's call, made from one of its samples. */
struct td_bench_cell {
    const struct td_handle *handle;
    const char *sample;
    enum td_dtype dtype;
    bool stored;      /* its argument called weight is to be */
    int64_t elements; /* of its largest tensor */
    struct td_sample args;
    struct td_run run;      /* bound, for one thread, with data */
    struct td_arena *arena; /* its memory */
    struct td_weight *weight;
};
/* Makes it, of more than a quarter of so many elements and no more; handle, sample, dtype and
 * stored are set. -EINVAL there is no such call, or it has no kernels of its own; -ENOMEM. */
int td_bench_cell_begin(struct td_bench_cell *cell, int64_t elements);
void td_bench_cell_end(struct td_bench_cell *cell);

struct td_bench_options {
    const char *cases, *op, *kernel, *item; /* or NULL */
    int threads;                            /* 0: not said */
    bool json, dispatch, all;
    long repeat;
    double seconds; /* below 0: not said */
};
/* Every kernel on a list of cases. The exit status. */
int td_bench_cases(const struct td_bench_options *bench);

#define TD_BENCH_LOSES 1.05                     /* of the best: what a default may take */
#define TD_BENCH_UNSEEN_NS 200                  /* a smaller difference from the best is no loss */
#define TD_BENCH_NEAR "within 5 % or 0.2 us of" /* no loss, in words */

struct td_bench_found {               /* in a cell: ns of one thread's CPU, the least of turns */
    const struct td_bench_cell *cell; /* borrowed */
    const struct td_impl *own, *best; /* selection's row, and the fastest */
    double own_ns, best_ns;
    double tuned_ns; /* of the row that is taken once the kind was measured by request */
    double ref_ns;   /* 0: selection's is the reference, or that was not timed */
    bool is_behind, is_behind_tuned, is_behind_ref; /* by more than may be */
};
struct td_bench_sweep {
    const char *op; /* NULL: all */
    double seconds; /* about so many; 0: as long as it takes */
    bool tune;      /* have kinds whose default loses measured by request */
    void (*take)(void *arg, const struct td_bench_found *found); /* on another thread, one by one */
    void *arg;
};
/* Whether selection takes the fastest kernel, in cells of every operator. 0, or the exit status
 * once an error has been said. */
int td_bench_sweep(const struct td_bench_sweep *sweep);

/* bench --all-candidates: of one operator, or with NULL of all, for about so many seconds (0: as
 * long as it takes). The exit status: 1 when a default is not the best. */
int td_bench_all(const char *op, double seconds, bool json);

/* bench --dispatch: all items, or one of them repeat times and nothing printed. The exit status. */
int td_bench_dispatch(bool json, const char *only, long repeat);

#endif
