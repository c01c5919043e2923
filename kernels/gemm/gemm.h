/* One matrix product, as matmul and linear describe it to each of their implementations:
 *
 *     out[.., i, j] = act(sum over p of a[.., i, p] * b[.., p, j] + bias[j])
 *
 * a and out are dense and row-major; b may lie either way, which its two steps say. */
#ifndef TD_KERNELS_GEMM_H
#define TD_KERNELS_GEMM_H

#include "kernels/activation.h"
#include "kernels/kernels.h"

struct td_gemm {
    int64_t m, n, k;
    int64_t step_k, step_n;     /* elements from b[p, j] to b[p + 1, j] and to b[p, j + 1] */
    int rank;                   /* batch dimensions, outermost first; 0: one product */
    int64_t batch[TD_MAX_RANK]; /* out's sizes */
    bool has_a[TD_MAX_RANK], has_b[TD_MAX_RANK]; /* a walks the dimension, or is broadcast */
    const struct td_tensor *a, *b, *bias, *out;  /* borrowed; bias NULL: none */
    struct td_act act;
    int threads;
    int group, pad; /* gemm_group.h: elements of k in 32 bits, and the multiple of lanes that a
                       depth is filled up to. 0, 0: one FP32 a lane */
};

/* What a checked call of the operator computes. */
void td_matmul_gemm(const struct td_call *call, struct td_gemm *g);
void td_linear_gemm(const struct td_call *call, struct td_gemm *g);

/* Products in the batch, and the number of the matrices of a and b that the i-th one uses. */
int64_t td_gemm_batches(const struct td_gemm *g);
void td_gemm_at(const struct td_gemm *g, int64_t i, int64_t *a, int64_t *b);

/* Double (floats) or wrapping 64-bit (integers) accumulators, one element at a time. */
void td_gemm_ref(const struct td_gemm *g);

/* ---- the vector rows ---- */

/* The level's product; a per-level file calls its own level's: TD_NAME(gemm). FP32 and BF16
 * (gemm_simd.c) with scratch of td_gemm_scratch(g) bytes; the levels that multiply pairs of BF16
 * (gemm_bf16.c, gemm_amx.c) BF16 alone, with scratch of td_gemm_scratch_pairs(g). */
typedef void td_gemm_run(const struct td_gemm *g, void *scratch);
td_gemm_run td_gemm_default, td_gemm_avx2, td_gemm_avx512, td_gemm_avx512_bf16, td_gemm_amx;

enum td_gemm_path {
    TD_GEMM_dot,    /* b's columns lie in memory as runs: sums along k, nothing packed */
    TD_GEMM_direct, /* b's rows are read where they lie: few rows, or a small b */
    TD_GEMM_packed, /* b in panels as wide as the register block */
};

/* How a product is cut. Every batch's result is cut into rectangles, which are the items that
 * threads share; they are numbered along the columns first, then the rows, then the batch. */
struct td_gemm_plan {
    enum td_gemm_path path;
    int64_t rows, cols;        /* of a rectangle, at most */
    int64_t depth;             /* k is walked in steps of at most this, packed only */
    int64_t down, across;      /* rectangles in one result */
    int64_t items;             /* in all */
    int slots;                 /* threads that will work, each with its own scratch */
    size_t at_b, at_out, slot; /* bytes in a slot: rows of a first, then packed b, out in FP32 */
};

#define TD_GEMM_COLS 128 /* a multiple of the register block's width at any level */
#define TD_GEMM_ROWS 96  /* and of its height: rows of a that a core's second cache holds */
#define TD_GEMM_DEPTH 256

/* The depth of k in lanes, filled up. */
int64_t td_gemm_lanes(const struct td_gemm *g);

void td_gemm_plan(const struct td_gemm *g, struct td_gemm_plan *plan);
size_t td_gemm_scratch(const struct td_gemm *g);
size_t td_gemm_scratch_pairs(const struct td_gemm *g);

/* There are rows enough that packing b pays, as the rows that do nothing else want it. */
bool td_gemm_packs(const struct td_gemm *g);

/* Applies the activation to a result that a library has made without it. */
void td_gemm_activate_default(const struct td_gemm *g);

/* The oneDNN row of an operator that is a product (kernels/onednn.h). */
bool td_gemm_onednn_accepts(const struct td_gemm *g);
bool td_gemm_onednn_ready(const struct td_gemm *g);
size_t td_gemm_onednn_scratch(const struct td_gemm *g);
void td_gemm_onednn_run(const struct td_gemm *g, void *scratch);

#endif
