/* How threads share a product: the plan's rectangles, what one needs to know, and what is done to
 * each when its sums are there. The paths (gemm_simd.c, gemm_group.h) fill in the sums. */
#ifndef TD_KERNELS_GEMM_RECT_H
#define TD_KERNELS_GEMM_RECT_H

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_block.h"
#include "kernels/weight.h"

struct td_rect {
    const struct td_gemm *g;
    const struct td_gemm_plan *plan;
    const float *panels;   /* all of b, packed; or NULL */
    const int8_t *numbers; /* the same of a quantized b */
    const void *a, *b;     /* the matrices of this batch */
    void *out;             /* and this batch's result */
    int64_t bias, at;      /* where its bias starts, and its result, in elements */
    int64_t i, j, rows, cols;
    char *slot;
    float *c; /* where it is summed: in out, or in the slot */
    int64_t ldc;
    bool biased; /* sums begin with the bias */
};

/* Whether the rectangle is summed in a result that is that large. */
static inline bool td_rect_is_far(const struct td_rect *r)
{
    return r->g->out->dtype == TD_f32 && td_gemm_is_far(r->g->m * r->g->n * 4);
}

typedef void td_rect_run(struct td_rect *r); /* computes one, and finishes all of its rows */

/* Levels of one width share their formulas. */
#if TD_VBYTES == 64
#define TD_RECT_POST(name) td_##name##_avx512
#elif TD_VBYTES == 32
#define TD_RECT_POST(name) td_##name##_avx2
#else
#define TD_RECT_POST(name) td_##name##_default
#endif
_Static_assert(TD_GEMM_COLS <= TD_POST_RUN, "a rectangle's row is a run");

struct td_gemm_job {
    const struct td_gemm *g;
    struct td_gemm_plan plan;
    const float *panels;
    const int8_t *numbers;
    char *scratch;
    td_rect_run *run;
};

/* The bias of row i and up to a vector of columns. */
TD_INLINE td_vf td_rect_bias(const struct td_rect *r, int64_t i, int64_t j, int64_t left,
                             const enum td_dtype type)
{
    const struct td_gemm *g = r->g;
    int64_t at = r->bias + (r->i + i) * g->bias_i + (r->j + j) * g->bias_j;
    if (g->bias_j)
        return td_gemm_load_n(g->bias->data, at, left, type);
    return td_set(td_gemm_get(g->bias->data, at, type));
}

/* Whether a block can begin with it: FP32, one number a row or a column, and nothing scaled. */
static inline bool td_gemm_begins_with_bias(const struct td_gemm *g)
{
    bool row = g->bias_i && !g->bias_j, column = !g->bias_i && g->bias_j == 1;
    return g->bias && g->bias->dtype == TD_f32 && g->out->dtype == TD_f32 && !g->scaled &&
           (row || column);
}

/* What the block's sums from row i and column j on begin with. */
static inline void td_rect_begin(const struct td_rect *r, int64_t i, int64_t j, struct td_block *t)
{
    const struct td_gemm *g = r->g;
    int64_t at = r->bias + (r->i + i) * g->bias_i + (r->j + j) * g->bias_j;
    t->bias = r->biased ? (const float *)g->bias->data + at : NULL;
    t->bias_i = g->bias_i;
}

/* The bias is of the result's type, which is FP32, BF16 or FP16. */
static inline td_vf td_rect_biases(const struct td_rect *r, int64_t i, int64_t j, int64_t left)
{
    switch (r->g->out->dtype) {
    case TD_bf16:
        return td_rect_bias(r, i, j, left, TD_bf16);
    case TD_f16:
        return td_rect_bias(r, i, j, left, TD_f16);
    default:
        return td_rect_bias(r, i, j, left, TD_f32);
    }
}

/* Scales, bias and post-ops of row i, as far as the rectangle goes. */
static inline void td_rect_finish_row(const struct td_rect *r, int64_t i, float *x)
{
    const struct td_gemm *g = r->g;
    td_vf alpha = td_set(g->scaled ? (float)g->alpha : 1);
    td_vf beta = td_set(g->scaled ? (float)g->beta : 1);
    for (int64_t j = 0; j < r->cols; j += TD_LANES) {
        int64_t left = r->cols - j;
        td_vf v = td_load_next(r->c + i * r->ldc + j, left, 0) * alpha;
        if (g->bias && !r->biased)
            v += td_rect_biases(r, i, j, left) * beta;
        td_store(x + j, v);
    }
    if (g->post.n)
        TD_RECT_POST(post)(&g->post, g->out, r->at + (r->i + i) * g->n + r->j, r->cols, x);
}

/* Whether nothing but post-ops follows the sums, which are the result's FP32. */
static inline bool td_rect_is_summed(const struct td_rect *r)
{
    return !td_gemm_is_half(r->g) && (!r->g->bias || r->biased) && !r->g->scaled;
}

/* The post-ops of some rows and columns that are summed. */
static inline void td_rect_post(const struct td_rect *r, int64_t i, int64_t rows, int64_t j,
                                int64_t cols)
{
    const struct td_gemm *g = r->g;
    if (g->post.n)
        TD_RECT_POST(post_rows)
    (&g->post, g->out, r->at + (r->i + i) * g->n + r->j + j, rows, cols, g->n,
     r->c + i * r->ldc + j, r->ldc);
}

/* What follows the sums of rows from number first on, and the rounding to BF16 or FP16. */
static inline void td_rect_finish(const struct td_rect *r, int64_t first, int64_t rows)
{
    const struct td_gemm *g = r->g;
    bool half = td_gemm_is_half(g);
    float x[TD_GEMM_COLS] __attribute__((aligned(64)));
    if (td_rect_is_summed(r)) {
        td_rect_post(r, first, rows, 0, r->cols);
        return;
    }
    for (int64_t i = first; i < first + rows; i++) {
        uint16_t *out = (uint16_t *)r->out + (r->i + i) * g->n + r->j;
        td_rect_finish_row(r, i, x);
        if (!half)
            memcpy(r->c + i * r->ldc, x, (size_t)r->cols * sizeof *x);
        for (int64_t j = 0; half && j < r->cols; j += TD_LANES) {
            td_vf v = td_load(x + j);
            td_vh h = g->out->dtype == TD_bf16 ? td_narrow_bf16(v) : td_narrow_f16(v);
            if (r->cols - j >= TD_LANES)
                memcpy(out + j, &h, sizeof h);
            else
                td_copy_few(out + j, &h, r->cols - j, 2);
        }
    }
}

/* The item's rectangle. */
static inline struct td_rect td_rect_of(const struct td_gemm_job *job, int64_t item, int64_t slot)
{
    const struct td_gemm *g = job->g;
    const struct td_gemm_plan *plan = &job->plan;
    size_t size = td_dtype_size(g->out->dtype);
    int64_t in = (int64_t)td_dtype_size(g->a->dtype), a, b, each = plan->down * plan->across,
            batch = item / each;
    td_gemm_start(g, batch, &a, &b);
    struct td_rect r = {.g = g, .plan = plan, .panels = job->panels, .numbers = job->numbers};
    r.a = (const char *)g->a->data + a * in;
    r.b = (const char *)g->b->data + b * in;
    r.out = (char *)g->out->data + (size_t)(batch * g->m * g->n) * size;
    r.i = item % each / plan->across * plan->rows;
    r.j = item % plan->across * plan->cols;
    r.rows = g->m - r.i < plan->rows ? g->m - r.i : plan->rows;
    r.cols = g->n - r.j < plan->cols ? g->n - r.j : plan->cols;
    r.bias = td_gemm_bias_at(g, batch);
    r.at = batch * g->m * g->n;
    r.slot = job->scratch + (size_t)slot * plan->slot;
    return r;
}

/* td_range over the slots: each takes an equal run of the items. */
static void td_gemm_slots(void *arg, int64_t begin, int64_t end)
{
    const struct td_gemm_job *job = arg;
    const struct td_gemm_plan *plan = &job->plan;
    for (int64_t slot = begin; slot < end; slot++) {
        int64_t last = plan->items * (slot + 1) / plan->slots;
        for (int64_t i = plan->items * slot / plan->slots; i < last && !td_stopped(); i++) {
            struct td_rect r = td_rect_of(job, i, slot);
            bool half = td_gemm_is_half(job->g);
            r.c = half ? (float *)(r.slot + plan->at_out) : (float *)r.out + r.i * job->g->n + r.j;
            r.ldc = half ? r.cols : job->g->n;
            job->run(&r);
        }
    }
}

static inline void td_gemm_share(struct td_gemm_job *job)
{
    td_parallel(job->plan.slots, job->plan.items ? job->plan.slots : 0, 1, td_gemm_slots, job);
}

/* ---- weights that the server stores, packed once ---- */

/* All of b as panels of width lanes of so many bytes, packed by fill, which gets g; NULL when the
 * server does not store it, or has no memory. k: the panels' depth, in lanes. */
static inline const void *td_gemm_stored(const struct td_gemm *g, int width, int64_t k,
                                         size_t bytes, const char *name, td_weight_fill *fill)
{
    struct td_weight *weight = g->rank ? NULL : td_weight_to_pack(g->b);
    if (!weight)
        return NULL;
    struct td_panels key;
    memset(&key, 0, sizeof key);
    key.k = g->k;
    key.n = g->n;
    key.step_k = g->step_k;
    key.step_n = g->step_n;
    key.a = g->a->dtype;
    key.b = g->b->dtype;
    key.width = width;
    key.group = g->group;
    key.pad = g->pad;
    memcpy(key.owner, "simd", 4);
    int64_t panels = (g->n + width - 1) / width;
    return td_weight_pack(weight, &key, sizeof key, name, (size_t)(panels * k * width) * bytes,
                          fill, (void *)g,
                          g->quantized && g->b->dtype != TD_i8 ? NULL : td_gemm_unpack);
}

#endif
