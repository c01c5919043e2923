/* One matrix product, as matmul and linear describe it to each of their implementations:
 *
 *     out[.., i, j] = post(alpha * sum over p of a[.., i, p] * b[.., p, j] + beta * bias[.., i, j])
 *
 * a and out are row-major, out is dense; b may lie either way, which its two steps say, or is
 * gathered as it is packed. */
#ifndef TD_KERNELS_GEMM_H
#define TD_KERNELS_GEMM_H

#include "kernels/kernels.h"
#include "kernels/post.h"

struct td_gemm;

/* A b of 8 bits an element or fewer, where a and out are FP32: element [p, j] is FP32, its number
 * less its zero, times its scale, which column j has for each block of the rows. Only td_gemm and
 * td_gemm_ref know it, for one product. */
struct td_gemm_quantized {
    bool has_zeros; /* else they are 0 */
    /* Writes the numbers of rows p to p + k and n columns from j on; rows are ld bytes apart. */
    void (*numbers)(const struct td_gemm *g, int64_t p, int64_t k, int64_t j, int64_t n, int8_t *to,
                    int64_t ld);
    /* Writes scales of n columns from j on, for the block of that number, and zeros if it has. */
    void (*scales)(const struct td_gemm *g, int64_t block, int64_t j, int64_t n, float *scale,
                   float *zero);
};

struct td_gemm {
    int64_t m, n, k;
    int64_t step_k, step_n;     /* elements from b[p, j] to b[p + 1, j] and to b[p, j + 1] */
    int rank;                   /* batch dimensions, outermost first; 0: one product */
    int64_t batch[TD_MAX_RANK]; /* out's sizes */
    bool has_a[TD_MAX_RANK], has_b[TD_MAX_RANK]; /* a walks the dimension, or is broadcast */
    const struct td_tensor *a, *b, *bias, *out;  /* borrowed; bias NULL: none */
    const struct td_gemm_quantized *quantized;   /* NULL, or how b's elements are made */
    int64_t block;                               /* then elements of a column with one scale */
    /* Where a, b or bias has strides: elements from a row of a to the next, along one (1, but for
     * who takes others), and from matrix to matrix along each batch dimension. Else rows follow
     * one another, and so do matrices. */
    bool strided;
    int64_t row_a, along_a, step_a[TD_MAX_RANK], step_b[TD_MAX_RANK];
    int64_t bias_i, bias_j, bias_batch; /* its steps, in elements; 0: it is the same all along */
    bool has_bias[TD_MAX_RANK];         /* the batch dimensions that it walks */
    bool scaled;                        /* else alpha and beta are 1, and not set */
    double alpha, beta;
    int64_t whole_alpha, whole_beta; /* the same, for whole numbers */
    struct td_post post;             /* its tensors' elements are out's, as it is numbered */
    /* NULL, or writes rows p to p + k of b, in b's type, cols elements of each from column j on, to
       rows. Only td_gemm_any asks it. */
    void (*gather)(const struct td_gemm *g, int64_t batch, int64_t p, int64_t k, int64_t j,
                   int64_t cols, void *rows);
    /* NULL, or writes elements p to p + n of so many rows of a, which is UINT8, from row i on, ld
       bytes apart. Only td_group_rect asks it (gemm_group.h). */
    void (*gather_a)(const struct td_gemm *g, int64_t i, int64_t rows, int64_t p, int64_t n,
                     uint8_t *to, int64_t ld);
    const void *context; /* what these functions, and those of quantized, want to know */
    int threads;
    int group, pad; /* gemm_group.h: elements of k in 32 bits, and the multiple of lanes that a
                       depth is filled up to. 0, 0: one FP32 a lane */
};

/* What a checked call of the operator computes. */
void td_product_gemm(const struct td_call *call, struct td_gemm *g);

/* Products in the batch, and the number of the matrices of a and b that the i-th one uses. */
int64_t td_gemm_batches(const struct td_gemm *g);
void td_gemm_at(const struct td_gemm *g, int64_t i, int64_t *a, int64_t *b);

/* Where the i-th one's matrices of a and b begin, and how far a's rows are apart, in elements. */
void td_gemm_start(const struct td_gemm *g, int64_t i, int64_t *a, int64_t *b);
static inline int64_t td_gemm_row(const struct td_gemm *g)
{
    return g->strided ? g->row_a : g->k;
}

/* Where the bias of the i-th product starts, in elements. */
int64_t td_gemm_bias_at(const struct td_gemm *g, int64_t i);

/* One number a column and nothing scaled: what libraries know. */
bool td_gemm_bias_is_plain(const struct td_gemm *g);

/* Whether the result's numbers are shorter than the FP32 in which they are summed. */
static inline bool td_gemm_is_half(const struct td_gemm *g)
{
    return g->out->dtype & (TD_bf16 | TD_f16);
}

/* Whether a matrix of so many bytes is too large for a second-level cache, so that its lines are
 * worth prefetching. */
static inline bool td_gemm_is_far(int64_t bytes)
{
    return bytes > (1 << 19);
}

/* Double (floats) or wrapping 64-bit (integers) accumulators, one element at a time. */
void td_gemm_ref(const struct td_gemm *g);

/* ---- the vector rows ---- */

/* The level's product; a per-level file calls its own level's: TD_NAME(gemm). FP32, BF16 and FP16
 * (gemm_simd.c) with scratch of td_gemm_scratch(g) bytes; the levels that multiply pairs of BF16
 * (gemm_bf16.c, gemm_amx.c) BF16 alone, with scratch of td_gemm_scratch_pairs(g). */
typedef void td_gemm_run(const struct td_gemm *g, void *scratch);
td_gemm_run td_gemm_default, td_gemm_avx2, td_gemm_avx512, td_gemm_avx512_bf16, td_gemm_amx;

enum td_gemm_path {
    TD_GEMM_dot,    /* b's columns lie in memory as runs, or are few and copied: sums along k */
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

/* Whether b is FP32 that the server stores, to be packed once for all calls. */
bool td_gemm_is_stored(const struct td_gemm *g);
/* stored: b's panels are there, so a slot has no room for some. */
void td_gemm_plan(const struct td_gemm *g, bool stored, struct td_gemm_plan *plan);
size_t td_gemm_scratch(const struct td_gemm *g);
size_t td_gemm_scratch_pairs(const struct td_gemm *g);

struct td_panels { /* how a stored b was packed; compared as bytes */
    int64_t k, n, step_k, step_n;
    int32_t a, b, width, group, pad;
    char owner[4];
};
/* td_weight_undo: b from its panels, of which key is the struct td_panels. */
void td_gemm_unpack(const struct td_tensor *plain, const void *packed, const void *key);

/* Any type that the operators take, and b gathered where g says so; scratch of
 * td_gemm_scratch_any(g) bytes. */
td_gemm_run td_gemm_any_default, td_gemm_any_avx2, td_gemm_any_avx512;
size_t td_gemm_scratch_any(const struct td_gemm *g);

/* How it cuts a product: rectangles of rows x cols, k in steps of depth. */
struct td_gemm_cut {
    int64_t rows, cols, depth, down, across, items;
    int slots;
    size_t at_b, at_gathered, at_c, slot; /* bytes: rows of a first, then these */
};
struct td_gemm_cut td_gemm_cut(const struct td_gemm *g);

/* There are rows enough that packing b pays, as the rows that do nothing else want it. */
bool td_gemm_packs(const struct td_gemm *g);

/* Applies alpha and the bias to a result that a library has made without them. */
void td_gemm_scale_default(const struct td_gemm *g);

/* The oneDNN row of an operator that is a product (kernels/onednn/onednn.h); call: what it is asked
 * for, or prepared for. */
const char *td_gemm_onednn_prepare(const struct td_gemm *g, struct td_prepared *prepared);
void td_gemm_onednn_run(const struct td_gemm *g, const struct td_call *call);

#endif
