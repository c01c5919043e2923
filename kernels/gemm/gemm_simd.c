/* Matrix products in the level's vectors, FP32, BF16 and FP16.
 *
 * b is packed into panels as wide as the register block and 256 deep, so that a panel stays in the
 * first cache while the rows of a pass by, or as deep as a stored b that few rows meet; see
 * td_gemm_plan for when that pays. BF16 and FP16 are
 * widened when b is packed and when rows of a are copied, so everything is summed in FP32 and
 * rounded once. Numbers of 8 bits with scales are packed as they are, and become FP32 where rows of
 * a meet them.
 *
 * K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication", 2008. */
#include "kernels/gemm/gemm_quantized.h"
#include "kernels/gemm/gemm_rect.h"
#include "kernels/half.h"
#include "kernels/turn.h"

#include <errno.h>

static __attribute__((noinline)) void td_column_f32(struct td_block t, int64_t rows, int64_t cols)
{
    td_block_column(t, rows, cols, TD_STEP_f32);
}

static __attribute__((noinline)) void td_edge_f32(struct td_block t, int64_t rows, int64_t cols)
{
    td_block_edge(t, rows, cols);
}

static __attribute__((noinline)) void td_pair_f32(struct td_block *t, int64_t rows)
{
    td_block_pair(t, rows);
}

static __attribute__((noinline)) void td_column_bf16(struct td_block t, int64_t rows)
{
    td_block_column(t, rows, TD_NR, TD_STEP_widen_bf16);
}

static __attribute__((noinline)) void td_column_f16(struct td_block t, int64_t rows)
{
    td_block_column(t, rows, TD_NR, TD_STEP_widen_f16);
}

/* ---- packing b ---- */

#define AHEAD 4 /* rows of b that are prefetched */
#define LONG 64 /* elements of a row of b that are worth reading at once */

/* k x cols of b, whose rows are runs, as td_gemm_pack has them, for whole panels: row after row,
 * since one run is read faster than many that are step_k apart. */
TD_INLINE void td_gemm_pack_rows(const struct td_gemm *g, const void *b, int64_t p0, int64_t k,
                                 int64_t j0, int64_t cols, float *to, const enum td_dtype type)
{
    const int64_t size = type == TD_f32 ? 4 : 2;
    int64_t fetched = td_gemm_is_far(g->k * g->n * size) ? k - AHEAD : 0;
    for (int64_t p = 0; p < k; p++, to += TD_NR) {
        int64_t at = (p0 + p) * g->step_k + j0;
        const char *ahead = (const char *)b + (at + AHEAD * g->step_k) * size;
        for (int64_t i = 0; p < fetched && i < cols * size; i += 64)
            __builtin_prefetch(ahead + i);
        float *panel = to;
        for (int64_t j = 0; j < cols; j += TD_NR, panel += k * TD_NR)
#pragma GCC unroll 2
            for (int v = 0; v < TD_NR; v += TD_LANES)
                td_store(panel + v, td_gemm_load(b, at + j + v, type));
    }
}

/* k x cols of b, from row p and column j on, as panels of TD_NR columns, zeros beyond n. */
TD_INLINE void td_gemm_pack(const struct td_gemm *g, const void *b, int64_t p0, int64_t k,
                            int64_t j0, int64_t cols, float *to, const enum td_dtype type)
{
    int64_t j = j0, whole = (g->n - j0 < cols ? g->n - j0 : cols) / TD_NR * TD_NR;
    if (g->step_n == 1 && whole >= LONG) {
        td_gemm_pack_rows(g, b, p0, k, j0, whole, to, type);
        j += whole;
        to += k * whole;
    }
    for (; j < j0 + cols; j += TD_NR, to += k * TD_NR) {
        int64_t left = g->n - j < TD_NR ? g->n - j : TD_NR;
        if (g->step_n == 1) {
            for (int64_t p = 0; p < k; p++)
                for (int v = 0; v < 2; v++) {
                    int64_t at = (p0 + p) * g->step_k + j + v * TD_LANES, n = left - v * TD_LANES;
                    td_store(to + p * TD_NR + v * TD_LANES,
                             n > 0 ? td_gemm_load_n(b, at, n, type) : td_set(0));
                }
            continue;
        }
        const float *columns = (const float *)b + j * g->step_n + p0;
        int64_t p = 0;
        if (type == TD_f32 && left == TD_NR)
            for (; p + TD_LANES <= k; p += TD_LANES)
                for (int v = 0; v < 2; v++)
                    td_transpose((uint32_t *)(to + p * TD_NR + v * TD_LANES), TD_NR,
                                 (const uint32_t *)(columns + v * TD_LANES * g->step_n + p),
                                 g->step_n);
        for (; p < k; p++)
            for (int i = 0; i < TD_NR; i++) {
                int64_t at = (j + i) * g->step_n + p0 + p;
                to[p * TD_NR + i] = i < left ? td_gemm_get(b, at, type) : 0;
            }
    }
}

/* Whether all FP16 comes back from FP32 as it was: a signalling NaN becomes a quiet one. */
static bool td_gemm_comes_back(const struct td_tensor *plain)
{
    for (int64_t i = 0; plain->dtype == TD_f16 && i < td_numel(plain); i++) {
        uint16_t x = ((const uint16_t *)plain->data)[i];
        if ((x & 0x7e00) == 0x7c00 && x & 0x1ff)
            return false;
    }
    return true;
}

/* td_weight_fill: all of b, panel after panel, each over the whole of k. */
static inline int td_gemm_fill(void *packed, const struct td_tensor *plain, void *arg)
{
    const struct td_gemm *g = arg;
    float *to = packed;
    if (!td_gemm_comes_back(plain))
        return -EINVAL;
    for (int64_t j = 0; j < g->n; j += TD_NR, to += g->k * TD_NR) {
        if (plain->dtype == TD_bf16)
            td_gemm_pack(g, plain->data, 0, g->k, j, TD_NR, to, TD_bf16);
        else if (plain->dtype == TD_f16)
            td_gemm_pack(g, plain->data, 0, g->k, j, TD_NR, to, TD_f16);
        else
            td_gemm_pack(g, plain->data, 0, g->k, j, TD_NR, to, TD_f32);
    }
    return 0;
}

/* ---- the three paths, each for one rectangle of one result ---- */

/* rows x k of a from column p on, as FP32: where they lie, or widened in the slot. */
TD_INLINE const float *td_rect_rows(const struct td_rect *r, int64_t i, int64_t rows, int64_t p,
                                    int64_t k, int64_t *lda, const enum td_dtype type)
{
    int64_t apart = td_gemm_row(r->g), at = (r->i + i) * apart + p;
    *lda = type == TD_f32 ? apart : k;
    if (type == TD_f32)
        return (const float *)r->a + at;
    for (int64_t row = 0; row < rows; row++) {
        float *to = (float *)r->slot + row * k;
        int64_t x = 0;
        for (; x + TD_LANES <= k; x += TD_LANES)
            td_store(to + x, td_gemm_load(r->a, at + row * apart + x, type));
        for (; x < k; x++)
            to[x] = td_gemm_get(r->a, at + row * apart + x, type);
    }
    return (float *)r->slot;
}

#define SECOND_CACHE (1 << 20) /* bytes of b that one may hold from call to call */
#define FURTHER 24             /* rows of a panel, from the one that is read */
#define MANY_BLOCKS 4 /* of rows: behind more, a panel's way here is nothing beside its work */

/* What the blocks of panel b at column j prefetch, if all of b is larger than a second-level cache.
 * A single block of rows prefetches later rows of its panel; of several blocks each prefetches its
 * part of the next panel. */
static inline struct td_ahead td_rect_ahead(const struct td_rect *r, int64_t j, int64_t k,
                                            int64_t rows, const float *b)
{
    const struct td_gemm *g = r->g;
    const int64_t blocks = (rows + TD_MR - 1) / TD_MR, share = k * TD_NR / blocks;
    if (!r->panels || blocks > MANY_BLOCKS || r->j + j + TD_NR >= g->n ||
        g->k * g->n * 4 <= SECOND_CACHE)
        return (struct td_ahead){.at = {NULL}};
    if (k == g->k && blocks == 1)
        return (struct td_ahead){{b + FURTHER * TD_NR, b + FURTHER * TD_NR + TD_NR / 2}, TD_NR, 0};
    const float *next = b + g->k * TD_NR;
    return (struct td_ahead){{next, next + share / 2}, TD_NR / 2 / blocks, share};
}

TD_INLINE void td_rect_packed(const struct td_rect *r, const enum td_dtype type)
{
    const struct td_gemm *g = r->g;
    /* Short post-ops are done while the sums are in the first cache. */
    const bool soon = td_rect_is_summed(r) && td_post_is_all_short(&g->post);
    /* Further rows read all panels again: then those with scales cannot share one place, which
     * stays in the first cache. */
    const bool again = r->rows > TD_GEMM_ROWS;
    const bool pairs = r->rows <= TD_PAIR_ROWS && !g->quantized;
    for (int64_t p = 0; p < g->k; p += r->plan->depth) {
        int64_t k = g->k - p < r->plan->depth ? g->k - p : r->plan->depth;
        struct td_block t = {
            .k = k, .ldb = TD_NR, .ldc = r->ldc, .add = p > 0, .far = td_rect_is_far(r)};
        float *slot_b = (float *)(r->slot + r->plan->at_b);
        if (!r->panels && !g->quantized)
            td_gemm_pack(g, r->b, p, k, r->j, r->cols, slot_b, type);
        for (int64_t i = 0; i < r->rows; i += TD_GEMM_ROWS) {
            int64_t rows = r->rows - i < TD_GEMM_ROWS ? r->rows - i : TD_GEMM_ROWS;
            t.a = td_rect_rows(r, i, rows, p, k, &t.lda, type);
            for (int64_t j = 0, cols; j < r->cols; j += cols) {
                float *panel = slot_b + (again || !g->quantized ? j * k : 0);
                t.b = r->panels ? r->panels + (r->j + j) * g->k + p * TD_NR : panel;
                if (g->quantized && !i)
                    td_rect_scale(r, p, k, j, panel);
                t.c = r->c + i * r->ldc + j;
                td_rect_begin(r, i, j, &t);
                if (pairs && r->cols - j >= 2 * TD_NR) {
                    t.next = (r->panels ? g->k : k) * TD_NR;
                    cols = 2 * TD_NR;
                    td_pair_f32(&t, rows);
                } else {
                    cols = r->cols - j < TD_NR ? r->cols - j : TD_NR;
                    t.ahead = td_rect_ahead(r, j, k, rows, t.b);
                    td_column_f32(t, rows, cols);
                }
                if (p + k == g->k && soon)
                    td_rect_post(r, i, rows, j, cols);
            }
            if (p + k == g->k && !soon)
                td_rect_finish(r, i, rows);
        }
    }
}

/* A block of mr rows and up to most vectors, the last of which may be a part; says how many
 * columns.
 */
TD_INLINE int64_t td_block_wide(struct td_block *t, const int mr, const int most, int64_t left)
{
    t->cols = left < most * TD_LANES ? left : most * TD_LANES;
    switch ((t->cols + TD_LANES - 1) / TD_LANES) {
#define WIDTH(nv)                                                                                  \
    case nv:                                                                                       \
        td_block_sums(t, mr, nv <= most ? nv : most, TD_STEP_f32, TD_BLOCK_part);                  \
        break;
        WIDTH(1)
        WIDTH(2)
        WIDTH(3)
        WIDTH(4)
        WIDTH(5)
        WIDTH(6)
        WIDTH(7)
        WIDTH(8)
#undef WIDTH
    }
    return t->cols;
}

/* The same for up to three rows. */
static __attribute__((noinline)) int64_t td_block_few(struct td_block *t, int64_t rows,
                                                      int64_t left)
{
    return rows == 1   ? td_block_wide(t, 1, 8, left)
           : rows == 2 ? td_block_wide(t, 2, 4, left)
                       : td_block_wide(t, 3, 4, left);
}

/* Up to three rows take blocks that are wider instead of higher. Nothing beyond b may be read: of
 * FP32 a part of a vector is; else the last columns, when they do not fill a block, are packed all
 * the same. */
TD_INLINE void td_rect_direct(const struct td_rect *r, const enum td_dtype type)
{
    const struct td_gemm *g = r->g;
    struct td_block t = {.k = g->k, .ldb = g->step_k, .ldc = r->ldc, .far = td_rect_is_far(r)};
    const int64_t wide = (r->rows == 1 ? 8 : r->rows <= 3 ? 4 : 2) * TD_LANES;
    const enum td_step reads = type == TD_f32    ? TD_STEP_f32
                               : type == TD_bf16 ? TD_STEP_widen_bf16
                                                 : TD_STEP_widen_f16;
    t.a = td_rect_rows(r, 0, r->rows, 0, g->k, &t.lda, type);
    for (int64_t j = 0, step = TD_NR; j < r->cols; j += step) {
        int64_t left = r->cols - j;
        t.b = (const char *)r->b + (r->j + j) * (type == TD_f32 ? 4 : 2);
        t.c = r->c + j;
        td_rect_begin(r, 0, j, &t);
        step = TD_NR;
        t.cols = wide;
        if (left >= wide && r->rows <= 3) {
            step = wide;
            if (r->rows == 1)
                td_block_run(&t, 1, 8, reads, TD_BLOCK_whole);
            else if (r->rows == 2)
                td_block_run(&t, 2, 4, reads, TD_BLOCK_whole);
            else
                td_block_run(&t, 3, 4, reads, TD_BLOCK_whole);
        } else if (type == TD_f32 && r->rows <= 3 && left % TD_LANES) {
            step = td_block_few(&t, r->rows, left);
        } else if (type == TD_f32 && left < TD_NR) {
            td_edge_f32(t, r->rows, left);
        } else if (left < TD_NR) {
            float *panel = (float *)(r->slot + r->plan->at_b);
            td_gemm_pack(g, r->b, 0, g->k, r->j + j, TD_NR, panel, type);
            t.b = panel, t.ldb = TD_NR;
            td_column_f32(t, r->rows, left);
        } else if (type == TD_bf16) {
            td_column_bf16(t, r->rows);
        } else if (type == TD_f16) {
            td_column_f16(t, r->rows);
        } else {
            td_column_f32(t, r->rows, TD_NR);
        }
    }
    td_rect_finish(r, 0, r->rows);
}

/* The rectangle's columns of b, each a run of k: where they lie, or copied into the slot. */
TD_INLINE const char *td_rect_columns(const struct td_rect *r, int64_t *step,
                                      const enum td_dtype type)
{
    const struct td_gemm *g = r->g;
    const size_t size = type == TD_f32 ? sizeof(float) : sizeof(uint16_t);
    const char *b = (const char *)r->b + (size_t)(r->j * g->step_n) * size;
    char *to = r->slot + r->plan->at_b;
    *step = g->step_k == 1 ? g->step_n : g->k;
    if (g->step_k == 1)
        return b;
    for (int64_t j = 0; j < r->cols; j++)
        for (int64_t p = 0; p < g->k; p++) {
            const char *from = b + (size_t)(p * g->step_k + j * g->step_n) * size;
            memcpy(to + (size_t)(j * g->k + p) * size, from, size);
        }
    return to;
}

TD_INLINE void td_rect_dot(const struct td_rect *r, const enum td_dtype type)
{
    const struct td_gemm *g = r->g;
    struct td_block t = {.k = g->k, .ldc = r->ldc};
    const float *a = td_rect_rows(r, 0, r->rows, 0, g->k, &t.lda, type);
    const char *b = td_rect_columns(r, &t.ldb, type);
    int64_t width = r->rows == 1 ? 8 : 4;
    for (int64_t j = 0, step; j < r->cols; j += step) {
        int64_t left = r->cols - j;
        step = left >= width ? width : left >= 4 ? 4 : 1;
        t.b = b + (size_t)(j * t.ldb) * (type == TD_f32 ? sizeof(float) : sizeof(uint16_t));
        for (int64_t i = 0; i < r->rows; i += 3) {
            t.a = a + i * t.lda;
            t.c = r->c + i * r->ldc + j;
            if (step == 8)
                td_dot_run(&t, 1, 8, type);
            else if (step == 4)
                td_dot_rows(&t, r->rows - i, 4, type);
            else
                td_dot_rows(&t, r->rows - i, 1, type);
        }
    }
    td_rect_finish(r, 0, r->rows);
}

TD_INLINE void td_rect_typed(struct td_rect *r, const enum td_dtype type)
{
    r->biased = r->plan->path != TD_GEMM_dot && td_gemm_begins_with_bias(r->g);
    if (r->plan->path == TD_GEMM_packed)
        td_rect_packed(r, type);
    else if (r->plan->path == TD_GEMM_direct)
        td_rect_direct(r, type);
    else
        td_rect_dot(r, type);
}

static void td_rect_f32(struct td_rect *r)
{
    td_rect_typed(r, TD_f32);
}

static void td_rect_bf16(struct td_rect *r)
{
    td_rect_typed(r, TD_bf16);
}

static void td_rect_f16(struct td_rect *r)
{
    td_rect_typed(r, TD_f16);
}

void TD_NAME(gemm)(const struct td_gemm *g, void *scratch)
{
    static const char name[] = {
        's', 'i', 'm', 'd', ' ', 'A', 'b', '0' + TD_NR / 10, '0' + TD_NR % 10, 'a', 0};
    struct td_gemm_job job = {.g = g, .scratch = scratch};
    job.run = g->out->dtype == TD_f32    ? td_rect_f32
              : g->out->dtype == TD_bf16 ? td_rect_bf16
                                         : td_rect_f16;
    td_gemm_plan(g, td_gemm_is_stored(g), &job.plan);
    if (job.plan.path == TD_GEMM_packed && g->quantized)
        job.numbers = td_gemm_stored(g, TD_NR, g->k, 1, name, td_gemm_fill_numbers);
    else if (job.plan.path == TD_GEMM_packed &&
             !(job.panels = td_gemm_stored(g, TD_NR, g->k, 4, name, td_gemm_fill)))
        td_gemm_plan(g, false, &job.plan); /* b is not stored, or there was no memory for them */
    td_gemm_share(&job);
}
