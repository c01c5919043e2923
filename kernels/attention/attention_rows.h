/* Attention in lanes: read once for FP32, BF16 and FP16, and once for FP64. A block of query's rows
 * meets one block of keys after the other, and what there is of each row's softmax and result is
 * corrected when a greater score comes, so that the scores of all keys are never kept (M. Milakov,
 * N. Gimelshein, "Online normalizer calculation for softmax", 2018; T. Dao et al.,
 * "FlashAttention", 2022). */
#ifndef TD_KERNELS_ATTENTION_ROWS_H
#define TD_KERNELS_ATTENTION_ROWS_H

#include "kernels/attention/attention.h"
#include "kernels/formulas.h"
#include "kernels/reals.h"

#include <math.h>

#if TD_VBYTES == 64
#define MR 12
#else
#define MR 6
#endif
#define T td_real
#define N(name) attention_##name
#define MUL_ADD(a, b, sum) L_fma(a, b, sum)
#include "kernels/gemm/gemm_column.def"
#include "kernels/turn.h"

_Static_assert(L_LANES <= TD_ATTENTION_LANES, "a vector's keys have room");

struct job {
    struct td_attention a;
    struct td_attention_cut cut;
    char *scratch;
    atomic_llong next; /* item */
};

/* One block of rows of one head, and what its slot holds. */
struct block {
    const struct td_attention *a;
    struct td_attention_place at;
    int64_t first, rows, depth, width, keys; /* these three filled up to panels */
    td_real *query, *out, *score, *most, *sum, *plain, *columns, *values;
};

/* n numbers of that type from element at on, and zeros up to wide. */
TD_INLINE void fetch_as(td_real *to, const struct td_tensor *t, int64_t at, int64_t n, int64_t wide,
                        const enum td_dtype type)
{
    int64_t i = 0;
    for (; i < n; i += L_LANES)
        L_store(to + i, L_next(t->data, at + i, n - i, type, 0));
    for (; i < wide; i += L_LANES)
        L_store(to + i, L_c(0));
}

static void fetch(td_real *to, const struct td_tensor *t, int64_t at, int64_t n, int64_t wide)
{
    if (t->dtype == TD_REAL_TYPE)
        fetch_as(to, t, at, n, wide, TD_REAL_TYPE);
    else
        fetch_as(to, t, at, n, wide, t->dtype);
}

/* L_LANES keys from key i of those from j on, of which there are n, as columns of a panel. */
static void pack_some_keys(const struct block *b, int64_t j, int64_t n, int64_t i)
{
    const struct td_tensor *t = b->a->key;
    int64_t depth = b->a->depth, at = b->at.key + (j + i) * b->at.key_row, step = b->at.key_row;
    const td_real *from = (const td_real *)t->data + at;
    td_real *to = b->columns + i / NR * b->depth * NR + i % NR;
    if (t->dtype != TD_REAL_TYPE || n - i < L_LANES || depth % L_LANES) {
        for (int64_t r = 0; r < L_LANES; r++)
            fetch(b->plain + r * b->depth, t, at + r * step, i + r < n ? depth : 0, b->depth);
        from = b->plain;
        step = b->depth;
    }
#if TD_REAL_BITS == 32
    for (int64_t e = 0; e < depth; e += L_LANES)
        td_transpose((uint32_t *)(void *)(to + e * NR), NR,
                     (const uint32_t *)(const void *)(from + e), step);
#else
    for (int64_t e = 0; e < depth; e++)
        for (int64_t r = 0; r < L_LANES; r++)
            to[e * NR + r] = from[r * step + e];
#endif
}

/* Keys j to j + n, transposed, in panels of NR columns. */
static void pack_keys(const struct block *b, int64_t j, int64_t n)
{
    for (int64_t i = 0; i < n; i += L_LANES)
        pack_some_keys(b, j, n, i);
}

TD_INLINE void pack_values_as(const struct block *b, int64_t j, int64_t n, const enum td_dtype type)
{
    const struct td_tensor *t = b->a->value;
    int64_t at = b->at.value + j * b->at.value_row, width = b->a->width;
    for (int64_t e = 0; e < b->width; e += L_LANES) {
        td_real *to = b->values + e / NR * NR * n + e % NR;
        for (int64_t i = 0; i < n; i++) {
            int64_t from = at + i * b->at.value_row + e;
            L_store(to + i * NR, e < width ? L_next(t->data, from, width - e, type, 0) : L_c(0));
        }
    }
}

static void pack_values(const struct block *b, int64_t j, int64_t n)
{
    if (b->a->value->dtype == TD_REAL_TYPE)
        pack_values_as(b, j, n, TD_REAL_TYPE);
    else
        pack_values_as(b, j, n, b->a->value->dtype);
}

/* Scale and mask over the scores of row i with keys j to j + n; what fills the row up is -inf. */
static void mask_row(const struct block *b, int64_t i, int64_t j, int64_t n)
{
    const struct td_attention *a = b->a;
    td_real *s = b->score + i * b->keys;
    int64_t end = a->causal && b->first + i - j + 1 < n ? b->first + i - j + 1 : n;
    int64_t at = b->at.mask + (b->first + i) * b->at.mask_row + j * b->at.mask_key;
    if (a->mask && a->mask->dtype == TD_bool) {
        const uint8_t *mask = (const uint8_t *)a->mask->data + at;
        for (int64_t k = 0; k < n; k++)
            s[k] = mask[k * b->at.mask_key] ? s[k] : -(td_real)INFINITY;
    } else if (a->mask && b->at.mask_key) {
        fetch(b->plain, a->mask, at, n, n);
        for (int64_t k = 0; k < n; k++)
            s[k] += b->plain[k];
    } else if (a->mask) {
        td_real one = L_get_n(a->mask->data, at, 1, a->mask->dtype, 0)[0];
        for (int64_t k = 0; k < n; k++)
            s[k] += one;
    }
    for (int64_t k = end > 0 ? end : 0; k < b->keys; k++)
        s[k] = -(td_real)INFINITY;
}

/* The greatest of n scores and of what there was before; NaN may be passed over, whose weight is
 * none either. */
static td_real greatest(const td_real *s, int64_t n, td_real before)
{
    V most = L_c(before), other = most;
    int64_t k = 0;
    for (; k + 2 * L_LANES <= n; k += 2 * L_LANES) {
        most = L_max(L_load(s + k), most);
        other = L_max(L_load(s + k + L_LANES), other);
    }
    if (k < n)
        most = L_max(L_load(s + k), most);
    return L_hmax(L_max(most, other));
}

/* Scores become weights against base; their sum. */
static td_real weigh(td_real *s, int64_t n, td_real base)
{
    V sum = L_c(0);
    for (int64_t k = 0; k < n; k += L_LANES) {
        V weight = o_exp_below(L_sub(L_load(s + k), L_c(base)));
        L_store(s + k, weight);
        sum = L_add(sum, weight);
    }
    return (td_real)L_hsum(sum);
}

/* The scores of all rows become weights against the greatest one so far, and what there is of their
 * results and sums is corrected for that. Each pass goes over all rows, which then do not wait for
 * each other. */
static void weigh_rows(const struct block *b, int64_t n)
{
    td_real top[TD_ATTENTION_ROWS];
    for (int64_t i = 0; i < b->rows; i++)
        top[i] = greatest(b->score + i * b->keys, n, b->most[i]);
    for (int64_t i = 0; i < b->rows; i++) {
        td_real before = b->most[i], less = 1;
        td_real base = top[i] == -(td_real)INFINITY ? 0 : top[i]; /* nothing to look at yet */
        if (top[i] != before && b->sum[i] != 0) {
            td_real *out = b->out + i * b->width;
            V factor = o_exp_below(L_c(before - base));
            for (int64_t e = 0; e < b->width; e += L_LANES)
                L_store(out + e, L_mul(L_load(out + e), factor));
            less = factor[0];
        }
        b->sum[i] = b->sum[i] * less + weigh(b->score + i * b->keys, n, base);
        b->most[i] = top[i];
    }
}

/* The block's rows with keys j to j + n. */
static void meet(const struct block *b, int64_t j, int64_t n)
{
    int64_t wide = (n + NR - 1) / NR * NR, rows = TD_ATTENTION_FILL(b->rows);
    pack_keys(b, j, n);
    for (int64_t k = 0; k < wide; k += NR)
        attention_column(b->a->depth, b->query, b->depth, b->columns + k * b->depth, b->score + k,
                         b->keys, false, rows, n - k);
    for (int64_t i = 0; i < b->rows; i++)
        mask_row(b, i, j, n);
    weigh_rows(b, wide);
    pack_values(b, j, n);
    for (int64_t e = 0; e < b->width; e += NR)
        attention_column(n, b->score, b->keys, b->values + e * n, b->out + e, b->width, j > 0, rows,
                         b->a->width - e);
}

static void compute(const struct job *job, int64_t item, char *slot)
{
    const struct td_attention *a = &job->a;
    int64_t head = item / job->cut.blocks, most = job->cut.rows;
    int64_t last = job->cut.blocks - 1; /* is begun first: the longest of causal ones */
    struct block b = {.a = a,
                      .at = td_attention_at(a, head),
                      .first = (last - item % job->cut.blocks) * most,
                      .depth = job->cut.wide_depth,
                      .width = job->cut.wide_width,
                      .keys = job->cut.keys};
    b.rows = a->rows - b.first < most ? a->rows - b.first : most;
    b.query = (td_real *)(void *)slot;
    b.out = b.query + most * b.depth;
    b.score = b.out + most * b.width;
    b.columns = b.score + most * b.keys;
    b.values = b.columns + b.keys * b.depth;
    b.plain = b.values + b.keys * b.width;
    b.most = b.plain + TD_ATTENTION_LANES * b.depth + b.keys;
    b.sum = b.most + most;
    for (int64_t i = 0; i < b.rows; i++) {
        td_real *q = b.query + i * b.depth;
        fetch(q, a->query, b.at.query + (b.first + i) * b.at.query_row, a->depth, b.depth);
        for (int64_t e = 0; e < b.depth; e++)
            q[e] *= (td_real)a->scale;
        b.most[i] = -(td_real)INFINITY;
        b.sum[i] = 0;
    }
    size_t more = (size_t)(TD_ATTENTION_FILL(b.rows) - b.rows);
    memset(b.query + b.rows * b.depth, 0, more * (size_t)b.depth * sizeof *b.query);
    int64_t end = a->causal && b.first + b.rows < a->keys ? b.first + b.rows : a->keys;
    if (!end)
        memset(b.out, 0, (size_t)(b.rows * b.width) * sizeof *b.out);
    for (int64_t j = 0; j < end && !td_stopped(); j += b.keys)
        meet(&b, j, end - j < b.keys ? end - j : b.keys);
    for (int64_t i = 0; i < b.rows; i++) {
        const td_real *out = b.out + i * b.width;
        int64_t to = (head * a->rows + b.first + i) * a->width;
        V sum = L_c(b.most[i] == -(td_real)INFINITY ? 1 : b.sum[i]);
        for (int64_t e = 0; e < a->width; e += L_LANES)
            L_put_next(a->out->data, to + e, a->width - e, a->out->dtype, L_load(out + e) / sum);
    }
}

/* Each slot takes the next item when it is ready: causal items differ in length. */
static void slots(void *arg, int64_t begin, int64_t end)
{
    struct job *job = arg;
    for (int64_t slot = begin; slot < end; slot++)
        for (int64_t i; (i = atomic_fetch_add(&job->next, 1)) < job->cut.items && !td_stopped();)
            compute(job, i, job->scratch + (size_t)slot * job->cut.slot);
}

static inline void attention_run(const struct td_call *call)
{
    struct job job = {.scratch = call->scratch};
    td_attention_of(call, &job.a);
    job.cut = td_attention_cut(&job.a, call->threads);
    td_parallel(job.cut.slots, job.cut.slots, 1, slots, &job);
}

#endif
