/* Matrix products of any type, in vectors of FP32 (for FP32, BF16 and FP16), FP64, INT32 (for all
 * that is no longer) and INT64. Both sides are widened as they are packed; whole numbers wrap. b
 * may be gathered: that is how convolutions are products. */
#include "kernels/elementwise.h"
#include "kernels/formulas.h"
#include "kernels/gemm/gemm.h"
#include "kernels/reals.h"

#if TD_VBYTES == 64
#define MR 12
#else
#define MR 6
#endif
#define COLS 128  /* the most that td_gemm_cut says */
#define DEPTH 192 /* likewise; more than COLS */
#define FEW 4     /* rows or columns for which nothing is packed */

struct rect {
    const struct td_gemm *g;
    const struct td_gemm_cut *cut;
    const void *a, *b; /* the matrices of this product */
    int64_t out, bias; /* where its result and bias start, in elements */
    int64_t batch, i, j, rows, cols;
    char *slot;
    void *gathered;
};

/* ---- reading n numbers, and writing them ---- */

static void f32_read(float *to, const void *from, int64_t at, int64_t n, enum td_dtype type)
{
    int64_t i = 0;
    if (type == TD_f32) {
        memcpy(to, (const float *)from + at, (size_t)n * sizeof *to);
        return;
    }
    for (; i + TD_LANES <= n; i += TD_LANES)
        td_store(to + i, L_get(from, at + i, type));
    if (i < n) {
        td_vf rest = L_get_n(from, at + i, n - i, type, 0);
        memcpy(to + i, &rest, (size_t)(n - i) * sizeof *to);
    }
}

static void f32_write(const struct td_gemm *g, int64_t at, int64_t n, float *c)
{
    if (g->post.n)
        TD_NAME(post)(&g->post, g->out, at, n, c);
    for (int64_t i = 0; i < n; i += TD_LANES)
        L_put_next(g->out->data, at + i, n - i, g->out->dtype, td_load_next(c + i, n - i, 0));
}

static void f64_read(double *to, const void *from, int64_t at, int64_t n, enum td_dtype type)
{
    (void)type;
    memcpy(to, (const double *)from + at, (size_t)n * sizeof *to);
}

static void f64_write(const struct td_gemm *g, int64_t at, int64_t n, double *c)
{
    for (int64_t i = 0; i < n && g->post.n; i++)
        c[i] = td_post_judge(&g->post, g->out, at + i, c[i]);
    memcpy((double *)g->out->data + at, c, (size_t)n * sizeof *c);
}

#define EACH(type, how)                                                                            \
    for (int64_t i = 0; i < n; i++)                                                                \
    how(type)
#define GET(type) to[i] = (uint32_t)((const type *)from)[at + i];
#define PUT(type) ((type *)g->out->data)[at + i] = (type)c[i];

static void i32_read(uint32_t *to, const void *from, int64_t at, int64_t n, enum td_dtype type)
{
    if (type == TD_u8)
        EACH(uint8_t, GET)
    else if (type == TD_i8)
        EACH(int8_t, GET)
    else if (type == TD_i16)
        EACH(int16_t, GET)
    else
        memcpy(to, (const uint32_t *)from + at, (size_t)n * sizeof *to);
}

static void i32_write(const struct td_gemm *g, int64_t at, int64_t n, uint32_t *c)
{
    if (td_dtype_size(g->out->dtype) == 1)
        EACH(uint8_t, PUT)
    else if (g->out->dtype == TD_i16)
        EACH(uint16_t, PUT)
    else
        memcpy((uint32_t *)g->out->data + at, c, (size_t)n * sizeof *c);
}

static void i64_read(uint64_t *to, const void *from, int64_t at, int64_t n, enum td_dtype type)
{
    (void)type;
    memcpy(to, (const uint64_t *)from + at, (size_t)n * sizeof *to);
}

static void i64_write(const struct td_gemm *g, int64_t at, int64_t n, uint64_t *c)
{
    memcpy((uint64_t *)g->out->data + at, c, (size_t)n * sizeof *c);
}

/* ---- a rectangle, in each type ---- */

typedef double vf64 __attribute__((vector_size(TD_VBYTES)));

TD_INLINE vf64 fma_f64(vf64 a, vf64 b, vf64 c)
{
#ifdef __AVX512F__
    return (vf64)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif TD_VBYTES == 32
    return (vf64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
}

#define T float
#define N(name) f32_##name
#define MUL_ADD(a, b, sum) td_fma(a, b, sum)
#define SCALE(g, what) ((g)->scaled ? (float)(g)->what : 1)
#include "kernels/gemm/gemm_any.def"

#define T double
#define N(name) f64_##name
#define MUL_ADD(a, b, sum) fma_f64(a, b, sum)
#define SCALE(g, what) ((g)->scaled ? (g)->what : 1)
#include "kernels/gemm/gemm_any.def"

#define T uint32_t
#define N(name) i32_##name
#define MUL_ADD(a, b, sum) ((sum) + (a) * (b))
#define SCALE(g, what) ((g)->scaled ? (uint32_t)(g)->whole_##what : 1)
#include "kernels/gemm/gemm_any.def"

#define T uint64_t
#define N(name) i64_##name
#define MUL_ADD(a, b, sum) ((sum) + (a) * (b))
#define SCALE(g, what) ((g)->scaled ? (uint64_t)(g)->whole_##what : 1)
#include "kernels/gemm/gemm_any.def"

/* ---- all of them ---- */

struct job {
    const struct td_gemm *g;
    struct td_gemm_cut cut;
    void (*run)(struct rect *r);
    char *scratch;
};

static void slots(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    const struct td_gemm *g = job->g;
    const struct td_gemm_cut *cut = &job->cut;
    int64_t size = (int64_t)td_dtype_size(g->a->dtype), each = cut->down * cut->across;
    for (int64_t slot = begin; slot < end; slot++) {
        int64_t last = cut->items * (slot + 1) / cut->slots;
        for (int64_t item = cut->items * slot / cut->slots; item < last && !td_stopped(); item++) {
            int64_t a, b, batch = item / each;
            td_gemm_start(g, batch, &a, &b);
            struct rect r = {.g = g, .cut = cut, .batch = batch, .out = batch * g->m * g->n};
            r.a = (const char *)g->a->data + a * size;
            r.b = (const char *)g->b->data + (g->gather ? 0 : b * size);
            r.bias = td_gemm_bias_at(g, batch);
            r.i = item % each / cut->across * cut->rows;
            r.j = item % cut->across * cut->cols;
            r.rows = g->m - r.i < cut->rows ? g->m - r.i : cut->rows;
            r.cols = g->n - r.j < cut->cols ? g->n - r.j : cut->cols;
            r.slot = job->scratch + (size_t)slot * cut->slot;
            r.gathered = r.slot + cut->at_gathered;
            job->run(&r);
        }
    }
}

void TD_NAME(gemm_any)(const struct td_gemm *g, void *scratch)
{
    struct job job = {.g = g, .cut = td_gemm_cut(g), .scratch = scratch};
    enum td_dtype type = g->a->dtype;
    job.run = type & (TD_f32 | TD_f16 | TD_bf16) ? f32_rect
              : type == TD_f64                   ? f64_rect
              : type == TD_i64                   ? i64_rect
                                                 : i32_rect;
    td_parallel(job.cut.slots, job.cut.items ? job.cut.slots : 0, 1, slots, &job);
}
