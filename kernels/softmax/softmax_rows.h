/* softmax and its kin in lanes, of FP32 or FP64 by TD_REAL_BITS. Along the last dimension a row is
 * walked two or three times while it is in cache; along another one, blocks of columns are, with a
 * maximum and a sum for each column. The maximum may lose a NaN: its exponential is NaN too, and
 * through the sum it reaches the whole row.
 *
 * Sums are made in doubles, but in lanes for rows of up to ABREAST vectors, and a gradient's is
 * taken off in two parts, since what is left of grad_output may be little: all of it goes in a row
 * of one element. Exponentials are kept in the result where it is of the lanes' type and no row is
 * AGAIN, else computed again; rows of shorter types become FP32 first, and so is their result until
 * it is whole. */
#ifndef TD_KERNELS_SOFTMAX_ROWS_H
#define TD_KERNELS_SOFTMAX_ROWS_H

#include "kernels/formulas.h"
#include "kernels/reals.h"
#include "kernels/softmax/softmax.h"

#define COLUMNS 64 /* of a block: 4 vectors of 64 bytes; their maxima and sums stay in L1 */
#define RUN 64     /* vectors, whose sum may be of the lanes' type */
#define ROWS 16    /* at most, of BLOCK elements, that are walked together */
#define BLOCK 4096
#ifdef TD_LANES_512
#define AGAIN(n) ((n) < L_LANES) /* a load near what was just stored by a mask waits for it */
#else
#define AGAIN(n) false
#endif

struct job {
    struct td_span s;
    enum td_soft kind;
    enum td_dtype from, to;
    const char *x, *y; /* y: a gradient's second operand */
    char *out;
    int64_t step; /* of x: elements from row to row, or from one to the next along the dimension */
    const struct td_reduction *walk; /* x lies so; NULL: as the result does */
};

/* A double as two numbers of the lanes' type. */
struct split {
    V high, low;
};

TD_INLINE struct split split(double x)
{
    td_real high = (td_real)x;
    return (struct split){L_c(high), L_c(isfinite(high) ? (td_real)(x - (double)high) : 0)};
}

#if TD_REAL_BITS == 32
typedef double total_type;
#else
typedef long double total_type; /* of a row's sums: they are not to lose digits */
#endif
#define PARTS (64 / TD_REAL_BITS) /* of a vector, each of which is one of doubles */

TD_INLINE VD part(V a, int i)
{
#if TD_REAL_BITS == 64
    (void)i;
    return a;
#elif defined TD_LANES_512
    __m512 v = (__m512)a;
    return (VD)_mm512_cvtps_pd(i ? _mm512_extractf32x8_ps(v, 1) : _mm512_castps512_ps256(v));
#elif defined TD_LANES_256
    __m256 v = (__m256)a;
    return (VD)_mm256_cvtps_pd(i ? _mm256_extractf128_ps(v, 1) : _mm256_castps256_ps128(v));
#else
    float __attribute__((vector_size(TD_VBYTES / 2))) half;
    memcpy(&half, (char *)&a + i * (int)sizeof half, sizeof half);
    return __builtin_convertvector(half, VD);
#endif
}

/* The products of a and b join the sums of their lanes, in doubles. */
TD_INLINE void add_products(VD sum[PARTS], V a, V b)
{
    for (int i = 0; i < PARTS; i++)
        sum[i] += part(a, i) * part(b, i);
}

/* What enters the sum: x, or what it is the logarithm of, or its share of the gradient. */
TD_INLINE V raised(V x, V top)
{
    return o_exp_below(L_sub(x, top));
}

TD_INLINE V forward(const enum td_soft kind, V x, V top, V sum)
{
    return kind == TD_SOFT_log ? L_sub(L_sub(x, top), sum) : L_div(raised(x, top), sum);
}

TD_INLINE V slope(const enum td_soft kind, V x, V y, V high, V low)
{
    if (kind == TD_SOFT_plain_slope)
        return L_mul(L_sub(L_sub(x, high), low), y);
    return L_fnma(o_exp(y), high, x);
}

/* ---- rows ---- */

/* Rows here are of the lanes' type. */
TD_INLINE td_real most_of(const td_real *row, int64_t n)
{
    V top = L_c(-INFINITY), other = top;
    int64_t i = 0;
    for (; i + 2 * L_LANES <= n; i += 2 * L_LANES) {
        top = L_max(L_load(row + i), top);
        other = L_max(L_load(row + i + L_LANES), other);
    }
    for (; i < n; i += L_LANES)
        top = L_max(L_next(row, i, n - i, TD_REAL_TYPE, -INFINITY), top);
    return L_hmax(L_max(top, other));
}

/* Exponentials of n elements of a row against top, their sum; put where it keeps them. At most RUN
 * whole vectors, four at a time, which do not wait for each other. A part of a vector comes first:
 * the next row is read soon, and a load near what was just stored by a mask waits for it. */
TD_INLINE V exponentials(const td_real *row, td_real *out, int64_t n, V top, const bool keeps)
{
    V sum[4] = {L_c(0), L_c(0), L_c(0), L_c(0)};
    const int64_t left = n % L_LANES, whole = n - left;
    int64_t i = 0;
    if (left > 0) {
        sum[3] = raised(L_get_n(row, whole, left, TD_REAL_TYPE, -INFINITY), top);
        if (keeps)
            L_put_n(out, whole, left, TD_REAL_TYPE, sum[3]);
    }
    for (; i + 4 * L_LANES <= n; i += 4 * L_LANES)
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            V e = raised(L_load(row + i + k * L_LANES), top);
            sum[k] = L_add(sum[k], e);
            if (keeps)
                L_store(out + i + k * L_LANES, e);
        }
    for (; i < whole; i += L_LANES) {
        V e = raised(L_load(row + i), top);
        sum[0] = L_add(sum[0], e);
        if (keeps)
            L_store(out + i, e);
    }
    return L_add(L_add(sum[0], sum[1]), L_add(sum[2], sum[3]));
}

TD_INLINE total_type total_of(const td_real *row, td_real *out, int64_t n, td_real top,
                              const bool keeps)
{
    total_type total = 0;
    for (int64_t i = 0; i < n; i += RUN * L_LANES) {
        int64_t some = n - i < RUN * L_LANES ? n - i : RUN * L_LANES;
        total += (total_type)L_hsum(exponentials(row + i, out + i, some, L_c(top), keeps));
    }
    return total;
}

/* What comes off each element, or its factor. */
TD_INLINE td_real rest_of(const enum td_soft kind, total_type total)
{
    return kind == TD_SOFT_log ? (td_real)log((double)total) : (td_real)(1 / total);
}

TD_INLINE V finished(const enum td_soft kind, V v, V top, V rest, const bool keeps)
{
    return kind == TD_SOFT_log ? forward(kind, v, top, rest)
           : keeps             ? L_mul(v, rest)
                               : L_mul(raised(v, top), rest);
}

TD_INLINE void finish(const enum td_soft kind, td_real *out, const td_real *row, int64_t n,
                      td_real most, td_real rest, const bool keeps)
{
    const int64_t left = n % L_LANES, whole = n - left;
    const td_real *from = keeps ? out : row;
    V top = L_c(most), last = L_c(rest);
    if (left > 0) /* first, as exponentials has it */
        L_put_n(out, whole, left, TD_REAL_TYPE,
                finished(kind, L_get_n(from, whole, left, TD_REAL_TYPE, 0), top, last, keeps));
    for (int64_t i = 0; i < whole; i += L_LANES)
        L_store(out + i, finished(kind, L_load(from + i), top, last, keeps));
}

#include "kernels/softmax/softmax_abreast.def"

/* Each pass goes over all the rows, whose chains of maxima and sums then do not wait for each
 * other. out may be x, where rows are dense. */
TD_INLINE void forward_rows(const enum td_soft kind, td_real *out, const td_real *x, int64_t n,
                            int64_t rows, int64_t step)
{
    for (int64_t some; n <= ABREAST * L_LANES && rows; rows -= some) {
        some = rows < L_LANES ? rows : L_LANES;
        forward_abreast(kind, out, x, n, some, step);
        out += some * n;
        x += some * step;
    }
    const bool keeps = kind == TD_SOFT_plain;
    td_real most[ROWS], rest[ROWS];
    for (int64_t r = 0; r < rows; r++)
        most[r] = most_of(x + r * step, n);
    for (int64_t r = 0; r < rows; r++)
        rest[r] = rest_of(kind, total_of(x + r * step, out + r * n, n, most[r], keeps));
    for (int64_t r = 0; r < rows; r++)
        finish(kind, out + r * n, x + r * step, n, most[r], rest[r], keeps);
}

TD_INLINE void slope_row(const enum td_soft kind, void *out, const void *x, const void *y,
                         int64_t n, const enum td_dtype from, const enum td_dtype to)
{
    VD sum[PARTS] = {0};
    double total = 0;
    for (int64_t i = 0; i < n; i += L_LANES) {
        V a = L_next(x, i, n - i, from, 0);
        add_products(sum, a, kind == TD_SOFT_plain_slope ? L_next(y, i, n - i, from, 0) : L_c(1));
    }
    for (int k = 0; k < L_LANES; k++)
        total += sum[k * PARTS / L_LANES][k % (L_LANES / PARTS)];
    struct split s = split(total);
    for (int64_t i = 0; i < n; i += L_LANES)
        L_put_next(
            out, i, n - i, to,
            slope(kind, L_next(x, i, n - i, from, 0), L_next(y, i, n - i, from, 0), s.high, s.low));
}

/* ---- blocks of n columns, walked row by row, so that memory is read in its order ---- */

TD_INLINE void forward_block(const enum td_soft kind, char *out, const char *x, int64_t n,
                             int64_t size, int64_t stride, int64_t step, const enum td_dtype from,
                             const enum td_dtype to)
{
    const bool keeps = kind == TD_SOFT_plain && to == TD_REAL_TYPE && !AGAIN(n);
    V top[COLUMNS / L_LANES], sum[COLUMNS / L_LANES], lost[COLUMNS / L_LANES];
    for (int64_t v = 0; v < COLUMNS / L_LANES; v++) {
        top[v] = L_c(-INFINITY);
        sum[v] = lost[v] = L_c(0);
    }
    for (int64_t k = 0; k < size; k++)
        for (int64_t i = 0, v = 0; i < n; i += L_LANES, v++)
            top[v] = L_max(L_next(x, k * step + i, n - i, from, 0), top[v]);
    for (int64_t k = 0; k < size; k++)
        for (int64_t i = 0, v = 0; i < n; i += L_LANES, v++) {
            V e = raised(L_next(x, k * step + i, n - i, from, 0), top[v]);
            V back = L_sub(e, lost[v]), next = L_add(sum[v], back); /* W. Kahan, 1965 */
            lost[v] = L_sub(L_sub(next, sum[v]), back);
            sum[v] = next;
            if (keeps)
                L_put_next(out, k * stride + i, n - i, to, e);
        }
    for (int64_t v = 0; kind == TD_SOFT_log && v < COLUMNS / L_LANES; v++)
        sum[v] = o_log(sum[v]);
    for (int64_t k = 0; k < size; k++)
        for (int64_t i = 0, v = 0; i < n; i += L_LANES, v++) {
            int64_t at = k * stride + i;
            V r = keeps ? L_div(L_next(out, at, n - i, to, 0), sum[v])
                        : forward(kind, L_next(x, k * step + i, n - i, from, 0), top[v], sum[v]);
            L_put_next(out, at, n - i, to, r);
        }
}

TD_INLINE void slope_block(const enum td_soft kind, char *out, const char *x, const char *y,
                           int64_t n, int64_t size, int64_t stride, const enum td_dtype from,
                           const enum td_dtype to)
{
    VD sum[COLUMNS / L_LANES][PARTS] = {0};
    td_real high[COLUMNS], low[COLUMNS];
    for (int64_t k = 0; k < size; k++)
        for (int64_t i = 0, v = 0; i < n; i += L_LANES, v++) {
            V a = L_next(x, k * stride + i, n - i, from, 0), b = L_c(1);
            if (kind == TD_SOFT_plain_slope)
                b = L_next(y, k * stride + i, n - i, from, 0);
            add_products(sum[v], a, b);
        }
    for (int64_t i = 0; i < COLUMNS; i++) {
        int64_t lane = i % L_LANES;
        struct split s = split(sum[i / L_LANES][lane * PARTS / L_LANES][lane % (L_LANES / PARTS)]);
        high[i] = s.high[0];
        low[i] = s.low[0];
    }
    for (int64_t k = 0; k < size; k++)
        for (int64_t i = 0; i < n; i += L_LANES) {
            int64_t at = k * stride + i;
            L_put_next(out, at, n - i, to,
                       slope(kind, L_next(x, at, n - i, from, 0), L_next(y, at, n - i, from, 0),
                             L_load(high + i), L_load(low + i)));
        }
}

#if TD_REAL_BITS == 32
#include "kernels/softmax/softmax_f32_rows.def"
#endif

/* ---- the walk ---- */

/* From element at on, which of x is element in, n columns, or n rows. */
TD_INLINE void run(const enum td_soft kind, const struct job *job, int64_t at, int64_t in,
                   int64_t n, const enum td_dtype from, const enum td_dtype to)
{
    const char *x = job->x + in * TD_REAL_SIZE(from), *y = job->y + at * TD_REAL_SIZE(from);
    char *out = job->out + at * TD_REAL_SIZE(to);
    const struct td_span *s = &job->s;
    const bool ahead = kind < TD_SOFT_plain_slope, rows = s->inner == 1 && ahead;
#if TD_REAL_BITS == 32
    if (rows && s->size <= SHORT) {
        for (int64_t r = 0; r < n; r += L_LANES)
            forward_short(kind, out + r * s->size * TD_REAL_SIZE(to),
                          x + r * job->step * TD_REAL_SIZE(from), s->size,
                          n - r < L_LANES ? n - r : L_LANES, job->step, from, to);
        return;
    }
    if (rows && (from != TD_f32 || to != TD_f32))
        return forward_mixed(kind, out, x, s->size, n, job->step, from, to);
    if (ahead && !rows && (from != TD_f32 || to != TD_f32) && s->size <= KEPT / COLUMNS)
        return block_mixed(kind, out, x, n, s, job->step, from, to);
#endif
    if (rows)
        forward_rows(kind, (td_real *)out, (const td_real *)x, s->size, n, job->step);
    else if (ahead && n == s->inner && is_narrow(n, s->size) && job->step == n &&
             from == TD_REAL_TYPE && to == TD_REAL_TYPE)
        (kind == TD_SOFT_log ? narrow_log : narrow_plain)((td_real *)out, (const td_real *)x, n,
                                                          s->size);
    else if (s->inner == 1)
        slope_row(kind, out, x, y, s->size, from, to);
    else if (ahead)
        forward_block(kind, out, x, n, s->size, s->inner, job->step, from, to);
    else
        slope_block(kind, out, x, y, n, s->size, s->inner, from, to);
}

#define RUN_KIND(which)                                                                            \
    static void run_##which(const struct job *job, int64_t at, int64_t in, int64_t n)              \
    {                                                                                              \
        if (TD_REAL_BITS == 64 || (job->from == TD_REAL_TYPE && job->to == TD_REAL_TYPE))          \
            run(TD_SOFT_##which, job, at, in, n, TD_REAL_TYPE, TD_REAL_TYPE);                      \
        else                                                                                       \
            run(TD_SOFT_##which, job, at, in, n, job->from, job->to);                              \
    }
RUN_KIND(plain)
RUN_KIND(log)
RUN_KIND(plain_slope)
RUN_KIND(log_slope)

/* How many of n rows from row i on lie one step apart. */
static int64_t rows_at(const struct job *job, int64_t i, int64_t n)
{
    const struct td_reduction *w = job->walk;
    int64_t run = w && w->n[0] && job->s.inner == 1 ? w->size[0][w->n[0] - 1] : 0;
    return run && run - i % run < n ? run - i % run : n;
}

static void pieces(void *arg, int64_t begin, int64_t end)
{
    static void (*const run_kind[])(const struct job *, int64_t, int64_t,
                                    int64_t) = {run_plain, run_log, run_plain_slope, run_log_slope};
    const struct job *job = arg;
    int64_t inner = job->s.inner, blocks = (inner + COLUMNS - 1) / COLUMNS;
    int64_t rows = BLOCK / job->s.size < ROWS ? BLOCK / job->s.size : ROWS;
    if (inner > 1 || job->kind >= TD_SOFT_plain_slope || rows < 1)
        rows = 1;
    for (int64_t i = begin, n; i < end; i += n) {
        int64_t col = i % blocks * COLUMNS, some = inner - col < COLUMNS ? inner - col : COLUMNS;
        int64_t at = i / blocks * job->s.size * inner + col;
        n = rows_at(job, i, end - i < rows ? end - i : rows);
        run_kind[job->kind](job, at,
                            job->walk ? td_reduction_at(job->walk, 0, i / blocks) + col : at,
                            inner > 1 ? some : n);
    }
}

static void soft(const struct td_call *call)
{
    const struct td_tensor *x = &call->arg[0].tensor;
    struct td_reduction walk;
    struct job job = {.s = td_soft_span(call), .kind = td_soft_of(call)};
    const struct td_span *s = &job.s;
    if (!td_numel(&call->out[0]))
        return;
    job.from = x->dtype;
    job.to = call->out[0].dtype;
    job.x = job.y = x->data;
    job.out = call->out[0].data;
    job.step = s->inner == 1 ? s->size : s->inner;
    if (x->stride) {
        td_soft_walk(call, &walk);
        job.walk = &walk;
        job.step = !walk.along ? walk.step[1][0] : walk.n[0] ? walk.step[0][walk.n[0] - 1] : 0;
    }
    if (job.kind >= TD_SOFT_plain_slope)
        job.y = call->arg[1].tensor.data;
    int64_t width = s->inner < COLUMNS ? s->inner : COLUMNS;
    td_parallel(call->threads, s->outer * ((s->inner + COLUMNS - 1) / COLUMNS),
                1 + 8192 / (s->size * width), pieces, &job);
}

#endif
