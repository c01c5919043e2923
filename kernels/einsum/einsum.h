/* What the files of einsum share: the equation as tables of strides, and the products that it comes
 * down to. */
#ifndef TD_KERNELS_EINSUM_H
#define TD_KERNELS_EINSUM_H

#include "kernels/gemm/gemm.h"
#include "kernels/move/move.h"

#define TD_EINSUM_LABELS 64 /* letters, and the dimensions that "..." stands for */
#define TD_EINSUM_MOST 16   /* operands */

/* Elements that are walked by labels: which ones, as bits, and their steps. */
struct td_einsum_term {
    const void *data;
    uint64_t labels;
    int64_t step[TD_EINSUM_LABELS];
};

struct td_einsum {
    int n, rank; /* operands; dimensions of the result */
    int64_t size[TD_EINSUM_LABELS];
    struct td_einsum_term term[TD_EINSUM_MOST];
    uint64_t single[TD_EINSUM_MOST]; /* the labels along which each has one element */
    int out[TD_MAX_RANK];            /* the result's labels */
};

/* Reads the call's equation against its tensors: 0, or -EINVAL with the sentence. */
int td_einsum_read(const struct td_call *call, struct td_einsum *e);

/* What a level does for it. */
struct td_einsum_level {
    td_move_piece_run *move;
    void (*product)(const struct td_gemm *g, void *scratch);
    /* out[b, i, j] = x[b, i] * y[b, j], where there is one i or one j */
    void (*multiply)(const struct td_tensor *out, const struct td_tensor *x,
                     const struct td_tensor *y, int64_t b, int64_t i, int64_t j, int threads);
};

/* Runs the call by pairs of operands, from left to right; without a level only counts: the bytes of
 * scratch, and the operations. */
struct td_einsum_cost {
    size_t bytes;
    double flops;
};
struct td_einsum_cost td_einsum_run(const struct td_call *call,
                                    const struct td_einsum_level *level);

#endif
