/* The pools, vector form. A piece of work is a row of the result. Where windows lie evenly, as many
 * results as fit a tile go through the window together, first its rows, then one element of each at
 * a time: loads are next to each other, or every second one. Otherwise one result after the other,
 * its rows of elements in vectors. Pools of few elements and a stride of 1 or 2, which most are, go
 * many rows at a time (window_near.def). Where windows leave the last dimension as it is, a
 * result's row is made of whole rows (window_last.def). The mean of a whole plane is one run's
 * (window_whole.def).
 *
 * Other loops are plain, over one type of number each (window_rows.def), and the compiler makes the
 * level's vectors of them. BF16 and FP16 are widened a line at a time; a mean of many elements is
 * computed in FP64. FP32 in square windows of 2, 3 and 5 goes through registers
 * (kernels/windows.h). */
#include "kernels/lines.h"
#include "kernels/reals.h"
#include "kernels/window/window.h"
#include "kernels/windows.h"

#include <math.h>

#define TILE 256  /* results */
#define LINE 2048 /* elements that are widened together */
#define MANY 512  /* elements, of which FP32 would lose digits in a mean */
#define FEW 8     /* results in a row, elements in a window */
#define NEAR 4    /* of strides */
#define UNIT 32   /* results; divides TILE */
#define WIDE (LINE + UNIT * NEAR)
#define GRAIN 32768
#define SQUARE 1024 /* rows and columns of results */
#define NEAR_BYTES                                                                                 \
    16384             /* of rows that are taken at once, in the first cache with what they are of */
#define NEAR_LINES 64 /* of them */
#define NEAR_ROWS 32  /* of a window */
#define NEAR_KERNEL 16 /* elements of a row of it */
#define NEAR_REACH 64  /* and from the first to the last */
#define NEAR_SPARE 256 /* elements behind, which vectors reach */

struct job {
    struct td_pool pool;
    enum td_dtype type;
    const char *in;
    char *out;
    int64_t *places;         /* NULL: not asked for */
    int64_t total;           /* elements of in */
    bool max, wide;          /* wide: FP32 is computed in FP64 */
    td_windows_rows *square; /* takes it; NULL: none of them does */
    bool near;               /* window_near.def does */
};

/* Windows that take a whole plane, without gaps, become ones along its width, which are taken in
 * long runs. */
static void fold(struct td_axis *outer, struct td_axis *inner)
{
    bool whole = !inner->adaptive && !outer->adaptive && inner->out == 1 &&
                 inner->kernel == inner->in && !inner->padding && inner->dilation == 1 &&
                 outer->dilation == 1;
    if (!whole)
        return;
    int64_t size = inner->in;
    *inner = (struct td_axis){.in = outer->in * size,
                              .out = outer->out,
                              .kernel = outer->kernel * size,
                              .stride = outer->stride * size,
                              .padding = outer->padding * size,
                              .dilation = 1};
    *outer = (struct td_axis){.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
}

struct row { /* of the result */
    const struct job *job;
    int64_t number, plane; /* the plane's first element in the tensor */
    struct td_taps d, h;
};

static struct row row_at(const struct job *job, int64_t number)
{
    const struct td_axis *a = job->pool.axis;
    struct row r = {.job = job, .number = number};
    r.h = td_axis_at(&a[1], number % a[1].out);
    r.d = td_axis_at(&a[0], number / a[1].out % a[0].out);
    r.plane = number / a[1].out / a[0].out * a[0].in * a[1].in * a[2].in;
    return r;
}

/* The number of the plane's row that window row i of all takes. */
static int64_t row_of(const struct row *r, int64_t i)
{
    const struct td_axis *a = r->job->pool.axis;
    return (r->d.first + i / r->h.n * a[0].dilation) * a[1].in + r->h.first +
           i % r->h.n * a[1].dilation;
}

/* The mean's divisor for the window of result o. */
static int64_t count_of(const struct row *r, int64_t o)
{
    const struct td_pool *pool = &r->job->pool;
    struct td_taps w = td_axis_at(&pool->axis[2], o);
    return td_pool_count(pool, &r->d, &r->h, &w);
}

/* Whether a row's results are taken together. */
static bool together(const struct td_axis *w)
{
    bool near = w->stride <= NEAR && w->out >= FEW;
    return !w->adaptive && w->out > 1 && w->dilation * (w->kernel - 1) < LINE / 2 &&
           w->stride < LINE / 2 && (near || w->kernel < FEW);
}

/* Of the rows that window_near.def joins, with their padding: whole strides. */
static int64_t near_width(const struct td_axis *w)
{
    int64_t read = (w->out - 1) * w->stride + (w->kernel - 1) * w->dilation + 1;
    int64_t wide = w->padding + w->in > read ? w->padding + w->in : read;
    return wide + wide % w->stride;
}

static bool is_near(const struct job *job)
{
    const struct td_axis *a = job->pool.axis, *w = &a[2];
    bool even = !a[0].adaptive && !a[1].adaptive && !w->adaptive;
    return even && !job->places && w->stride <= 2 && w->kernel <= NEAR_KERNEL &&
           (w->kernel - 1) * w->dilation <= NEAR_REACH && a[0].kernel <= NEAR_ROWS &&
           a[1].kernel <= NEAR_ROWS && a[0].kernel * a[1].kernel <= NEAR_ROWS &&
           w->in < NEAR_BYTES && w->out < NEAR_BYTES &&
           near_width(w) <= NEAR_BYTES / (int64_t)sizeof(double) &&
           (job->max || td_dtype_kind(job->type) == 'f');
}

/* The sum of n FP32 elements: in FP64, but for as few steps of each lane as lose no digits. */
static double sum_wide(const float *x, int64_t n)
{
    enum { SUMS = 4, STEPS = 32, STEP = SUMS * TD_LANES };
    double all = 0;
    while (n >= STEP) {
        td_vf sums[SUMS] = {td_set(0), td_set(0), td_set(0), td_set(0)};
        for (int i = 0; i < STEPS && n >= STEP; i++, n -= STEP, x += STEP)
            _Pragma("GCC unroll 4") for (int k = 0; k < SUMS; k++) sums[k] +=
                td_load(x + k * TD_LANES);
        sums[0] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        for (int l = 0; l < TD_LANES; l++)
            all += (double)sums[0][l];
    }
    for (int64_t i = 0; i < n; i++)
        all += (double)x[i];
    return all;
}

/* ---- rows of each type ---- */

#define T float
#define REAL
#define LEAST (-INFINITY)
#include "kernels/window/window_rows.def"
#define T double
#define REAL
#define LEAST ((double)-INFINITY)
#define PLACE int64_t
#include "kernels/window/window_rows.def"
#define T uint8_t
#define LEAST 0
#include "kernels/window/window_rows.def"
#define T int8_t
#define LEAST INT8_MIN
#include "kernels/window/window_rows.def"
#define T int16_t
#define LEAST INT16_MIN
#include "kernels/window/window_rows.def"
#define T int32_t
#define LEAST INT32_MIN
#include "kernels/window/window_rows.def"
#define T int64_t
#define LEAST INT64_MIN
#define PLACE int64_t
#include "kernels/window/window_rows.def"

#include "kernels/window/window_last.def"
#include "kernels/window/window_whole.def"

/* ---- square windows of FP32 ---- */

#define SQUARES(kind)                                                                              \
    TD_WINDOWS(kind##_2_1, TD_WINDOWS_##kind, 2, 1)                                                \
    TD_WINDOWS(kind##_2_2, TD_WINDOWS_##kind, 2, 2)                                                \
    TD_WINDOWS(kind##_3_1, TD_WINDOWS_##kind, 3, 1)                                                \
    TD_WINDOWS(kind##_3_2, TD_WINDOWS_##kind, 3, 2)                                                \
    TD_WINDOWS(kind##_5_1, TD_WINDOWS_##kind, 5, 1)                                                \
    TD_WINDOWS(kind##_5_2, TD_WINDOWS_##kind, 5, 2)
SQUARES(largest)
SQUARES(mean)

TD_INLINE td_vf joined(td_vf a, td_vf b, const enum td_windows_kind kind)
{
    return kind == TD_WINDOWS_mean ? a + b : td_windows_larger(a, b);
}

/* Windows of 2x2 that neither overlap nor reach over an edge: nothing is worth laying out. */
TD_INLINE void quarters(const struct td_windows *w, int64_t begin, int64_t end,
                        const enum td_windows_kind kind)
{
    for (int64_t y = begin; y < end; y++)
        for (int64_t x = 0; x < w->columns; x += TD_LANES) {
            const float *at = w->in + 2 * y * w->width + 2 * x;
            int64_t n = w->columns - x, left = 2 * n - TD_LANES;
            td_vf a = td_load_next(at, 2 * n, 0), b = td_set(0), v;
            a = joined(a, td_load_next(at + w->width, 2 * n, 0), kind);
            if (left > 0)
                b = joined(td_load_next(at + TD_LANES, left, 0),
                           td_load_next(at + w->width + TD_LANES, left, 0), kind);
            v = joined(td_every_other(a, b, 0), td_every_other(a, b, 1), kind);
            if (kind == TD_WINDOWS_mean)
                v /= td_load(w->counts + x) * w->parts[y];
            td_store_next(w->out + y * w->columns + x, n, v);
        }
}

static void largest_quarters(const struct td_windows *w, int64_t begin, int64_t end)
{
    quarters(w, begin, end, TD_WINDOWS_largest);
}

static void mean_quarters(const struct td_windows *w, int64_t begin, int64_t end)
{
    quarters(w, begin, end, TD_WINDOWS_mean);
}

#define EACH(kind)                                                                                 \
    {                                                                                              \
        {kind##_2_1, kind##_2_2}, {kind##_3_1, kind##_3_2}, [3] = { kind##_5_1, kind##_5_2 }       \
    }

/* NULL: they are none of these. */
static td_windows_rows *square_of(const struct job *job)
{
    static td_windows_rows *const rows[2][4][2] = {EACH(largest), EACH(mean)};
    const struct td_axis *d = &job->pool.axis[0], *h = d + 1, *w = d + 2;
    bool plane = d->in == 1 && d->out == 1 && d->kernel == 1 && !d->padding && !d->adaptive;
    bool square = h->kernel == w->kernel && h->stride == w->stride && h->dilation == 1 &&
                  w->dilation == 1 && !h->adaptive && !w->adaptive;
    bool near = w->kernel >= 2 && w->kernel <= 5 && w->stride <= 2;
    bool taken =
        TD_WINDOWS_WORTH && plane && square && near && h->out <= SQUARE && w->out <= SQUARE;
    bool apart = w->kernel == 2 && w->stride == 2 && !w->padding && !h->padding &&
                 2 * w->out <= w->in && 2 * h->out <= h->in;
    if (!taken || job->type != TD_f32 || job->places)
        return NULL;
    if (apart)
        return job->max ? largest_quarters : mean_quarters;
    return rows[!job->max][w->kernel - 2][w->stride - 1];
}

static void squares(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    const struct td_pool *pool = &job->pool;
    const struct td_axis *h = &pool->axis[1], *w = &pool->axis[2];
    float counts[SQUARE + TD_LANES], parts[SQUARE];
    for (int64_t x = 0; !job->max && x < w->out + TD_LANES; x++) {
        struct td_taps taps = td_axis_at(w, x < w->out ? x : 0);
        counts[x] = (float)(pool->divisor ? pool->divisor : td_pool_part(pool, &taps));
    }
    for (int64_t y = 0; !job->max && y < h->out; y++) {
        struct td_taps taps = td_axis_at(h, y);
        parts[y] = (float)(pool->divisor ? 1 : td_pool_part(pool, &taps));
    }
    struct td_windows square = {.height = h->in,
                                .width = w->in,
                                .columns = w->out,
                                .above = h->padding,
                                .left = w->padding,
                                .counts = counts,
                                .parts = parts};
    for (int64_t plane, n; begin < end && !td_stopped(); begin += n) {
        int64_t first = begin % h->out;
        n = h->out - first < end - begin ? h->out - first : end - begin;
        plane = begin / h->out;
        square.in = (const float *)job->in + plane * h->in * w->in;
        square.out = (float *)job->out + plane * h->out * w->out;
        job->square(&square, first, first + n);
    }
}

TD_KERNEL(window)
{
    const struct td_window *family = call->op->family;
    const struct td_tensor *in = &call->arg[0].tensor;
    struct job job = {.pool = td_pool_of(call),
                      .type = in->dtype,
                      .in = in->data,
                      .out = call->out[0].data,
                      .places = call->n_out > 1 ? call->out[1].data : NULL,
                      .total = td_numel(in),
                      .max = family->kind == TD_WINDOW_max};
    struct td_axis *a = job.pool.axis;
    int64_t n = td_numel(&call->out[0]);
    if (!n)
        return;
    if (!job.places) { /* a place is one in the plane as it was */
        fold(&a[1], &a[2]);
        fold(&a[0], &a[1]);
        fold(&a[1], &a[2]);
    }
    double size = call->op->flops(call) / (double)n;
    job.square = square_of(&job);
    job.near = is_near(&job);
    job.wide = !job.max && job.type == TD_f32 && size > MANY;
    static td_range *const rows[TD_DTYPES] = {
        [TD_DTYPE_INDEX_u8] = rows_uint8_t,  [TD_DTYPE_INDEX_i8] = rows_int8_t,
        [TD_DTYPE_INDEX_i16] = rows_int16_t, [TD_DTYPE_INDEX_i32] = rows_int32_t,
        [TD_DTYPE_INDEX_i64] = rows_int64_t, [TD_DTYPE_INDEX_f16] = rows_float,
        [TD_DTYPE_INDEX_bf16] = rows_float,  [TD_DTYPE_INDEX_f32] = rows_float,
        [TD_DTYPE_INDEX_f64] = rows_double,
    };
    td_range *range = is_whole(&job)  ? whole_rows
                      : job.square    ? squares
                      : is_last(&job) ? last_rows
                      : job.wide      ? rows_double
                                      : rows[__builtin_ctz(job.type)];
    td_parallel(call->threads, n / a[2].out, 1 + (int64_t)(GRAIN / size / (double)a[2].out), range,
                &job);
}
