/* Pointwise calls over one shape, computed together: by one loop that is generated for them
 * (kernels/jit/loop.h), where there is one; else a tile of the result's elements at a time goes
 * through all of them, each by its own row, and what lies between stays in the cache. A reduction
 * of what they make may be the last one. */
#ifndef TD_KERNELS_FUSED_H
#define TD_KERNELS_FUSED_H

#include "kernels/kernels.h"

/* Calls together have at most so many values, by td_fused_values. */
#define TD_FUSED_VALUES 64
#define TD_FUSED_MOST (TD_FUSED_VALUES / 3) /* calls, of 3 values or more each */

struct td_fused {
    struct td_call *call; /* out[0].data: NULL where only others of these read it */
    const struct td_impl *impl;
    signed char of[TD_MAX_ARGS]; /* argument i is the result of that call before; -1: in memory */
};

/* Whether each element of an operator's result is computed of one element of each argument, as
 * broadcasting has them. */
bool td_is_pointwise(const struct td_op *op);
/* Whether their rows read a tensor with these strides well: in the order of memory, in runs of some
 * elements, or of 4 bytes an element or more also backwards, and by squares, where it is dense
 * along another dimension than the last. Otherwise a copy costs less. */
bool td_pointwise_takes(const struct td_tensor *t);
/* Whether one of a generated loop's formulas, as struct td_loop_view names them, computes calls of
 * the operator. */
bool td_fused_has(const char *formulas, const struct td_op *op);
/* Whether it is one of the family of which td_fused_reduces takes some calls. */
bool td_is_reduction(const struct td_op *op);
/* How many values the call brings at most when it runs by impl, 0: it cannot be one of these. */
int td_fused_values(const struct td_call *call, const struct td_impl *impl);
/* Whether the elements of an argument are apart along its last dimension: it may be read by
 * squares, several rows at a time, and a reduction would have the result's elements row by row. */
bool td_fused_turns(const struct td_call *call);
/* Whether the call is a reduction which, by impl, may be the last of calls that make what it reads
 * and take so many operations. */
bool td_fused_reduces(const struct td_call *call, const struct td_impl *impl, double flops);
/* Elements from which on a loop is generated, as a rule. */
#define TD_LOOP_LEAST 4096

/* The calls together, to be computed again and again; their results have one shape, but for leading
 * dimensions of 1. The last one may be a reduction of another one's result instead, whose scratch
 * is the caller's, and whose elements it computes in pieces that stay in the cache. Where data lie
 * is read from the calls in each run, which stay where they are; a result has data then where it
 * has some now, and operands that lie at one address now always do. least: of fewer elements no
 * loop is generated. Memory is alloc's; NULL: there is none. */
struct td_fusion;
struct td_fusion *td_fusion_make(const struct td_fused *calls, int n, int threads, int64_t least,
                                 void *(*alloc)(void *arg, size_t bytes), void *alloc_arg);
/* 0, or -EFAULT: a row has trapped (kernels/trap.h). */
int td_fusion_run(struct td_fusion *fusion, struct td_problem *problem);
/* Why its rows run, a text that stays; NULL: it is one generated loop. */
const char *td_fusion_why_rows(const struct td_fusion *fusion);
int td_fusion_loop(const struct td_fusion *fusion); /* its loop's number; -1: it has none */

#endif
