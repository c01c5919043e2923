/* Resampling, vector form. A piece of work is a piece of a row of the result, and pieces that lie
 * above each other follow on each other: the rows of self that they share are resampled in their
 * width once, and kept while they are at hand. Results are computed in FP32 or FP64
 * (resample_rows.def), as many at a time as a vector has lanes: where these need few neighbours, as
 * those of a bigger image do, they are shuffled out of two vectors, else gathered. */
#include "kernels/lines.h"
#include "kernels/resample/resample.h"

#include <math.h>

#define PIECE 512 /* results */
#define KEPT 8    /* lines */
#define NARROW 64 /* results that a row may have to be cut into strips */
#define GRAIN 65536

struct job {
    struct td_resampled axis[3];
    struct td_resample_table table[3];
    /* table[2] once more, for each tap a line of `step` numbers: integers as wide as the type that
     * is computed in, and numbers of that type. */
    void *at, *weight;
    int32_t *first; /* element that each vector of results needs */
    bool near;      /* each needs no more than two vectors hold; places count from its first */
    const void *in; /* in the type that is computed in */
    void *out;
    enum td_dtype type;
    int64_t n, step, pieces; /* elements of self, numbers of a line of at, pieces of a row */
};

struct piece { /* of a row of the result */
    const struct job *job;
    int64_t plane, d, h, begin, n;
};

static struct piece piece_at(const struct job *j, int64_t i)
{
    const struct td_resampled *a = j->axis;
    struct piece p = {.job = j, .h = i % a[1].out, .d = i / a[1].out % a[0].out};
    int64_t rest = i / a[1].out / a[0].out;
    p.plane = rest / j->pieces;
    p.begin = rest % j->pieces * PIECE;
    p.n = a[2].out - p.begin < PIECE ? a[2].out - p.begin : PIECE;
    return p;
}

/* Where a line of self is kept: neighbours are in different places. */
static int slot_of(int64_t d, int64_t h)
{
    return (int)(d % 2 * (KEPT / 2) + h % (KEPT / 2));
}

/* To the nearest, half upwards, and held within what a byte can be. */
TD_INLINE uint8_t byte_of(double x)
{
    return (uint8_t)(x + 0.5 > 255 ? 255 : x > 0 ? x + 0.5 : 0);
}

static void put_float(const struct job *j, int64_t at, int64_t n, const float *x)
{
    td_line_to_float(j->type, j->out, at, n, x);
}

static void put_double(const struct job *j, int64_t at, int64_t n, const double *x)
{
    if (j->type != TD_u8) {
        td_line_to_double(j->type, j->out, at, n, x);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        ((uint8_t *)j->out)[at + i] = byte_of(x[i]);
}

TD_INLINE void put_few_float(const struct job *j, int64_t at, int64_t n, td_vf v)
{
    if (j->type == TD_f32) {
        td_store_next((float *)j->out + at, n, v);
        return;
    }
    td_vh h = j->type == TD_bf16 ? td_narrow_bf16(v) : td_narrow_f16(v);
    if (n == TD_LANES)
        memcpy((uint16_t *)j->out + at, &h, sizeof h);
    else
        td_store_halves((uint16_t *)j->out + at, n, h);
}

typedef double real __attribute__((vector_size(TD_VBYTES)));

TD_INLINE void put_few_double(const struct job *j, int64_t at, int64_t n, real v)
{
    if (n == TD_LANES / 2)
        memcpy((double *)j->out + at, &v, sizeof v);
    else
        td_copy_few((double *)j->out + at, &v, n, sizeof(double));
}

#define T float
#define INDEX int32_t
#include "kernels/resample/resample_rows.def"
#define T double
#define INDEX int64_t
#include "kernels/resample/resample_rows.def"

/* ---- self as numbers that are computed with ---- */

struct copy {
    const struct td_tensor *in;
    void *out;
};

static void copy_range(void *arg, int64_t begin, int64_t end)
{
    const struct copy *c = arg;
    if (c->in->dtype == TD_u8)
        for (int64_t i = begin; i < end; i++)
            ((double *)c->out)[i] = ((const uint8_t *)c->in->data)[i];
    else
        td_line_widen((float *)c->out + begin, (const uint16_t *)c->in->data + begin, end - begin,
                      c->in->dtype);
}

TD_KERNEL(resample)
{
    const struct td_tensor *in = &call->arg[0].tensor, *out = &call->out[0];
    struct job j = {.in = in->data, .out = out->data, .type = in->dtype};
    const struct td_resampled *a = j.axis;
    bool wide = j.type & (TD_f64 | TD_u8);
    if (!td_numel(out))
        return;
    td_resample_axes(call, j.axis);
    td_resample_fill(j.axis, j.table, call->scratch);
    j.n = td_numel(in);
    j.step = td_resample_step(a);
    j.at = (char *)call->scratch + td_resample_size(a);
    j.weight = (int64_t *)j.at + a[2].taps * j.step;
    j.first = (int32_t *)((double *)j.weight + a[2].taps * j.step);
    (wide ? lay_double : lay_float)(&j);
    j.pieces = (a[2].out + PIECE - 1) / PIECE;
    if (j.type & (TD_u8 | TD_f16 | TD_bf16)) {
        struct copy c = {in, (double *)j.weight + (a[2].taps + 1) * j.step};
        td_parallel(call->threads, td_numel(in), GRAIN, copy_range, &c);
        j.in = c.out;
    }
    bool narrow = j.near && a[0].taps == 1 && a[1].taps == 2 && a[2].taps == 2 && j.type != TD_u8 &&
                  a[2].out <= NARROW;
    int64_t lanes = wide ? TD_LANES / 2 : TD_LANES;
    int64_t n = td_numel(out) / a[2].out * j.pieces;
    if (narrow)
        n = td_numel(out) / (a[1].out * a[2].out) * ((a[2].out + lanes - 1) / lanes);
    double cost = call->op->flops(call) / (double)n;
    td_parallel(call->threads, n, 1 + (int64_t)(GRAIN / cost),
                narrow ? (wide ? strips_double : strips_float) : (wide ? rows_double : rows_float),
                &j);
}
