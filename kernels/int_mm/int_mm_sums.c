/* Products of 8-bit integers: what a call computes, where that lies in its scratch, and what is
 * done to the sums. Zero points are taken into account by the sums of rows and columns:
 * (a - za)(b - zb) = ab - za b - zb a + za zb. */
#include "kernels/elementwise.h"
#include "kernels/int_mm/int_mm.h"
#include "kernels/weight.h"

#include <string.h>

static const struct td_int_mm_args *args_of(const struct td_call *call)
{
    return call->op->family;
}

static bool walks(const struct td_tensor *t, int back) /* dimension, counted from the end */
{
    return back <= t->rank && t->shape[t->rank - back] != 1;
}

static void gemm(const struct td_call *call, struct td_gemm *g, int group, int pad)
{
    const struct td_tensor *a = td_arg(call, args_of(call)->a), *b = td_arg(call, args_of(call)->b),
                           *out = &call->out[0];
    *g = (struct td_gemm){.a = a,
                          .b = b,
                          .rank = out->rank - 2,
                          .m = a->shape[a->rank - 2],
                          .k = a->shape[a->rank - 1],
                          .n = b->shape[b->rank - 1],
                          .step_k = b->shape[b->rank - 1],
                          .step_n = 1,
                          .threads = call->threads,
                          .group = group,
                          .pad = pad};
    bool one = true; /* matrix b for all of a's, which lie one after the other: it is one product */
    for (int d = 0; d < g->rank; d++) {
        g->batch[d] = out->shape[d];
        g->has_a[d] = walks(a, out->rank - d);
        g->has_b[d] = walks(b, out->rank - d);
        one = one && !g->has_b[d];
    }
    for (; one && g->rank; g->rank--)
        g->m *= g->batch[g->rank - 1];
}

/* ---- scratch ---- */

static size_t lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

enum { TABLES = 4, TABLE_PAD = 64 }; /* a number a column; bytes that may be read beyond its end */

struct room { /* bytes of sums, where they are not the result, of the sums of a's rows and of b's
                 columns, and of each table */
    size_t sums, of_a, of_b, table;
};

static struct room room_of(const struct td_call *call)
{
    const struct td_int_mm_args *args = args_of(call);
    const struct td_tensor *a = td_arg(call, args->a), *b = td_arg(call, args->b);
    int64_t rows = a->shape[a->rank - 1] ? td_numel(a) / a->shape[a->rank - 1] : 0;
    int64_t cols = b->shape[b->rank - 2] ? td_numel(b) / b->shape[b->rank - 2] : 0;
    bool scaled = args->a_scale >= 0;
    struct room room = {0};
    if (args->y_zero >= 0)
        room.sums = lines((size_t)td_numel(&call->out[0]) * 4) + TABLE_PAD;
    if (td_int_mm_arg(call, args->b_zero))
        room.of_a = lines((size_t)rows * 4);
    if (scaled || td_int_mm_arg(call, args->a_zero))
        room.of_b = lines((size_t)cols * 4);
    if (scaled)
        room.table = lines((size_t)b->shape[b->rank - 1] * 4) + TABLE_PAD;
    return room;
}

size_t td_int_mm_scratch(const struct td_call *call, int group, int pad)
{
    struct td_tensor sums = {.dtype = TD_i32};
    struct td_gemm g;
    struct room room = room_of(call);
    gemm(call, &g, group, pad);
    g.out = &sums;
    return lines(td_gemm_scratch(&g)) + room.sums + room.of_a + room.of_b + TABLES * room.table;
}

void td_int_mm_begin(const struct td_call *call, struct td_int_mm *m, int group, int pad)
{
    struct room room = room_of(call);
    *m = (struct td_int_mm){0};
    gemm(call, &m->g, group, pad);
    m->rows = call->out[0].shape[call->out[0].rank - 2];
    m->sums = call->out[0];
    m->g.out = &m->sums;
    m->sums.dtype = TD_i32;
    if (!group) /* for the sizes alone: there is no scratch */
        return;
    char *at = (char *)call->scratch + lines(td_gemm_scratch(&m->g));
    if (room.sums)
        m->sums.data = at;
    at += room.sums;
    m->of_a = room.of_a ? (uint32_t *)at : NULL;
    at += room.of_a;
    m->of_b = room.of_b ? (uint32_t *)at : NULL;
    at += room.of_b;
    m->add = (uint32_t *)at;
    m->b_zero = (uint32_t *)(at + room.table);
    m->scale = (float *)(at + 2 * room.table);
    m->bias = (float *)(at + 3 * room.table);
}

/* ---- numbers ---- */

double td_int_mm_number(const struct td_call *call, int i, int64_t at)
{
    const struct td_tensor *t = td_int_mm_arg(call, i);
    return t ? td_get_real(t, td_numel(t) == 1 ? 0 : at) : 0;
}

static uint32_t element(const struct td_tensor *t, int64_t i)
{
    return t->dtype == TD_u8 ? ((const uint8_t *)t->data)[i]
                             : (uint32_t)((const int8_t *)t->data)[i];
}

/* As of most weights. */
static bool are_zero(const struct td_tensor *zero)
{
    int64_t n = zero ? td_numel(zero) : 0, i = 0;
    while (i < n && !element(zero, i))
        i++;
    return i == n;
}

/* Adds n elements from the i-th on to as many sums, or to one. */
static void add(const struct td_tensor *t, int64_t i, int64_t n, uint32_t *sum, bool apart)
{
    const uint8_t *u = (const uint8_t *)t->data + i;
    const int8_t *v = (const int8_t *)t->data + i;
    uint32_t all = 0;
    if (t->dtype == TD_u8)
        for (int64_t j = 0; j < n; j++)
            apart ? (sum[j] += u[j]) : (all += u[j]);
    else
        for (int64_t j = 0; j < n; j++)
            apart ? (sum[j] += (uint32_t)v[j]) : (all += (uint32_t)v[j]);
    if (!apart)
        *sum = all;
}

/* td_weight_fill: the sums of the columns of all its matrices; arg: td_gemm of which it is b. */
static int add_columns(void *sums, const struct td_tensor *b, void *arg)
{
    const struct td_gemm *g = arg;
    uint32_t *sum = sums;
    for (int64_t row = 0; g->k && g->n && row < td_numel(b) / g->n; row++) {
        if (row % g->k == 0)
            memset(sum + row / g->k * g->n, 0, (size_t)g->n * sizeof *sum);
        add(b, row * g->n, g->n, sum + row / g->k * g->n, true);
    }
    return 0;
}

/* The sums of a's rows and of b's columns, of all matrices. Those of a stored b are kept. */
static void add_up(const struct td_call *call, struct td_int_mm *m)
{
    struct td_gemm *g = &m->g;
    struct {
        char what[8];
        int64_t k, n;
    } key = {"sums", g->k, g->n};
    struct td_weight *weight = td_weight_to_pack(g->b);
    if (are_zero(td_int_mm_arg(call, args_of(call)->b_zero)))
        m->of_a = NULL;
    for (int64_t row = 0; m->of_a && g->k && row < td_numel(g->a) / g->k; row++)
        add(g->a, row * g->k, g->k, &m->of_a[row], false);
    if (!m->of_b)
        return;
    size_t bytes = (size_t)(g->k ? td_numel(g->b) / g->k : 0) * sizeof(uint32_t);
    const uint32_t *kept = weight ? td_weight_pack(weight, &key, sizeof key, "sums of columns",
                                                   bytes, add_columns, g, NULL)
                                  : NULL;
    if (!kept)
        add_columns(m->of_b, g->b, g);
    else
        m->of_b = (uint32_t *)kept;
}

/* ---- tables, for results that are made while sums are in a cache ---- */

static bool is_one(const struct td_call *call, int arg)
{
    const struct td_tensor *t = td_int_mm_arg(call, arg);
    return !t || td_numel(t) == 1;
}

bool td_int_mm_has_tables(const struct td_call *call, const struct td_int_mm *m)
{
    const struct td_int_mm_args *args = args_of(call);
    return args->a_scale >= 0 && !m->g.rank && m->g.k && td_numel(&call->out[0]) &&
           is_one(call, args->a_scale) && is_one(call, args->a_zero);
}

void td_int_mm_fill(const struct td_call *call, struct td_int_mm *m, uint8_t flip)
{
    const struct td_int_mm_args *args = args_of(call);
    const struct td_tensor *by = td_arg(call, args->b_scale),
                           *bias = td_int_mm_arg(call, args->bias),
                           *zero = td_int_mm_arg(call, args->b_zero);
    int64_t n = m->g.n, step = td_numel(by) > 1;
    float a = (float)td_int_mm_number(call, args->a_scale, 0);
    float y = args->y_scale < 0 ? 1 : (float)td_int_mm_number(call, args->y_scale, 0);
    add_up(call, m);
    m->a_zero = (uint32_t)(int32_t)td_int_mm_number(call, args->a_zero, 0);
    uint32_t flipped = m->a_zero + flip;
    const float *scale = by->data;
    for (int64_t j = 0; j < n && by->dtype == TD_f32; j++)
        m->scale[j] = a * scale[j * step] / y;
    for (int64_t j = 0; j < n && by->dtype != TD_f32; j++)
        m->scale[j] = a * (float)td_get_real(by, j * step) / y;
    for (int64_t j = 0; j < n; j++)
        m->add[j] = -flipped * m->of_b[j];
    for (int64_t j = 0; j < n && bias && bias->dtype == TD_i32; j++)
        m->add[j] += ((const uint32_t *)bias->data)[j];
    for (int64_t j = 0; j < n && m->of_a; j++)
        m->b_zero[j] = element(zero, td_numel(zero) > 1 ? j : 0);
    if (bias && bias->dtype == TD_f32)
        memcpy(m->bias, bias->data, (size_t)n * sizeof *m->bias);
    else
        m->bias = NULL;
}

/* ---- results of sums that are all there ---- */

struct job {
    const struct td_call *call;
    const struct td_int_mm *m;
    td_int_mm_take *take;
};

/* Takes from a row's sums what the zero points have added. */
static void take_zeros(const struct job *job, int64_t row, uint32_t *sum)
{
    const struct td_gemm *g = &job->m->g;
    const struct td_int_mm_args *args = args_of(job->call);
    const struct td_tensor *zero = td_int_mm_arg(job->call, args->b_zero);
    int64_t a, b, i = row % job->m->rows;
    td_gemm_at(g, row / g->m, &a, &b);
    uint32_t za = (uint32_t)(int32_t)td_int_mm_number(job->call, args->a_zero, i);
    if (job->m->of_b && za)
        job->take(sum, job->m->of_b + b * g->n, za, g->n);
    if (!job->m->of_a)
        return;
    uint32_t of_a = job->m->of_a[a * g->m + row % g->m] - (uint32_t)g->k * za;
    int64_t step = td_numel(zero) > 1;
    for (int64_t j = 0; j < g->n; j++)
        sum[j] -= of_a * element(zero, j * step);
}

static void finish_row(const struct job *job, int64_t row)
{
    const struct td_int_mm_args *args = args_of(job->call);
    int64_t n = job->m->g.n, i = row % job->m->rows;
    uint32_t *sum = (uint32_t *)job->m->sums.data + row * n; /* which wrap */
    take_zeros(job, row, sum);
    for (int64_t j = 0; j < n && args->a_scale >= 0; j++)
        td_int_mm_give(job->call, row * n + j, (int32_t)sum[j], i, j);
}

static void finish(void *arg, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end && !td_stopped(); row++)
        finish_row(arg, row);
}

void td_int_mm_give(const struct td_call *call, int64_t at, int32_t sum, int64_t i, int64_t j)
{
    const struct td_int_mm_args *args = args_of(call);
    const struct td_tensor *out = &call->out[0], *bias = td_int_mm_arg(call, args->bias);
    float scale = (float)td_int_mm_number(call, args->a_scale, i) *
                  (float)td_int_mm_number(call, args->b_scale, j);
    if (args->y_zero < 0) {
        float y = (float)sum * scale;
        ((float *)out->data)[at] = bias ? y + ((const float *)bias->data)[j] : y;
        return;
    }
    if (bias)
        sum = (int32_t)((uint32_t)sum + ((const uint32_t *)bias->data)[j]);
    int32_t y = td_int_mm_round(sum, scale / (float)td_int_mm_number(call, args->y_scale, 0),
                                (float)td_int_mm_number(call, args->y_zero, 0), out->dtype);
    ((uint8_t *)out->data)[at] = (uint8_t)y;
}

void td_int_mm_end(const struct td_call *call, struct td_int_mm *m, td_int_mm_take *take)
{
    struct job job = {call, m, take};
    int64_t n = td_numel(&call->out[0]);
    if (!n || !(m->of_a || m->of_b || args_of(call)->a_scale >= 0))
        return;
    add_up(call, m);
    td_parallel(call->threads, n / m->g.n, 1 + 4096 / m->g.n, finish, &job);
}
