/* The scans, vector form. Elements come through a tile of doubles, or of INT64 where they are whole
 * numbers. Along the last dimension a row is scanned there piece by piece; along another one, row
 * after row enters what runs along each of a block of columns. */
#include "kernels/lines.h"
#include "kernels/scan/scan.h"

#define PIECE 512 /* elements of a row, or columns of a block: a tile of each sort fills 4 KiB */

#define W_add(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define W_mul(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))

struct job {
    struct td_span s;
    enum td_scan scan;
    enum td_dtype from, to;
    const char *x;
    char *out;
    int64_t *places;
};

static double log_add(double a, double b)
{
    if (a == b && isinf(a))
        return a;
    return (a > b || a != a ? a : b) + log1p(exp(-fabs(a - b)));
}

/* ---- into the tile and out of it ---- */

#define EACH(type, expression)                                                                     \
    for (int64_t i = 0; i < n; i++)                                                                \
        to[i] = (type)(expression);                                                                \
    break;

static void load_real(double *to, const void *x, int64_t n, enum td_dtype type)
{
    float line[PIECE];
    switch (type) {
    case TD_f64:
        EACH(double, ((const double *)x)[i])
    case TD_f32:
        EACH(double, ((const float *)x)[i])
    default:
        td_line_widen(line, x, n, type);
        EACH(double, line[i])
    }
}

static void store_real(void *out, const double *from, int64_t n, enum td_dtype type)
{
    float line[PIECE], *to = type == TD_f32 ? out : line;
    if (type == TD_f64) {
        memcpy(out, from, (size_t)n * sizeof *from);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)from[i];
    if (type != TD_f32)
        td_line_narrow(out, line, n, type);
}

static void load_whole(int64_t *to, const void *x, int64_t n, enum td_dtype type)
{
    switch (type) {
    case TD_bool:
        EACH(int64_t, ((const uint8_t *)x)[i] != 0)
    case TD_u8:
        EACH(int64_t, ((const uint8_t *)x)[i])
    case TD_i8:
        EACH(int64_t, ((const int8_t *)x)[i])
    case TD_i16:
        EACH(int64_t, ((const int16_t *)x)[i])
    case TD_i32:
        EACH(int64_t, ((const int32_t *)x)[i])
    default:
        EACH(int64_t, ((const int64_t *)x)[i])
    }
}

#define STORE(type)                                                                                \
    {                                                                                              \
        type *to = out;                                                                            \
        EACH(type, from[i])                                                                        \
    }

static void store_whole(void *out, const int64_t *from, int64_t n, enum td_dtype type)
{
    if (type == TD_bool) {
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)out)[i] = from[i] != 0;
        return;
    }
    switch (td_dtype_size(type)) {
    case 1:
        STORE(uint8_t)
    case 2:
        STORE(uint16_t)
    case 4:
        STORE(uint32_t)
    default:
        STORE(int64_t)
    }
}

/* ---- the scans: of n elements of a row that goes on, and of a row of n columns ---- */

#define ROWS(T, sort, id, init)                                                                    \
    static void id##_##sort(T *x, int64_t *places, T *carry, int64_t n, int64_t k)                 \
    {                                                                                              \
        T s = k ? *carry : (T)(init);                                                              \
        (void)places;                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            x[i] = s = step_##id##_##sort(s, x[i]);                                                \
        *carry = s;                                                                                \
    }                                                                                              \
    static void id##_##sort##_columns(T *x, int64_t *places, T *carry, int64_t n, int64_t k)       \
    {                                                                                              \
        (void)places;                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            x[i] = carry[i] = step_##id##_##sort(k ? carry[i] : (T)(init), x[i]);                  \
    }
#define PICKS(T, sort, id, better)                                                                 \
    static void id##_##sort(T *row, int64_t *places, T *carry, int64_t n, int64_t k)               \
    {                                                                                              \
        T s = k ? *carry : row[0];                                                                 \
        int64_t at = k ? places[PIECE - 1] : 0;                                                    \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const T x = row[i];                                                                    \
            at = (better) ? k + i : at;                                                            \
            s = (better) ? x : s;                                                                  \
            row[i] = s;                                                                            \
            places[i] = at;                                                                        \
        }                                                                                          \
        *carry = s;                                                                                \
    }                                                                                              \
    static void id##_##sort##_columns(T *row, int64_t *places, T *carry, int64_t n, int64_t k)     \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const T x = row[i], s = k ? carry[i] : x;                                              \
            places[i] = !k || (better) ? k : places[i];                                            \
            row[i] = carry[i] = (better) ? x : s;                                                  \
        }                                                                                          \
    }

#define TD_SCAN_STEP(id, cost, init, of_reals, of_wholes)                                          \
    TD_INLINE double step_##id##_real(double s, double x)                                          \
    {                                                                                              \
        return of_reals;                                                                           \
    }                                                                                              \
    TD_INLINE int64_t step_##id##_whole(int64_t s, int64_t x)                                      \
    {                                                                                              \
        (void)s, (void)x;                                                                          \
        return of_wholes;                                                                          \
    }                                                                                              \
    ROWS(double, real, id, init)                                                                   \
    ROWS(int64_t, whole, id, TD_SCAN_##id == TD_SCAN_prod)
#define TD_SCAN_PICK(id, better)                                                                   \
    PICKS(double, real, id, better)                                                                \
    PICKS(int64_t, whole, id, better)
#include "kernels/scan/scan.def"

typedef void real_row(double *x, int64_t *places, double *carry, int64_t n, int64_t k);
typedef void whole_row(int64_t *x, int64_t *places, int64_t *carry, int64_t n, int64_t k);

static real_row *const real_rows[][2] = {
#define TD_SCAN_STEP(id, ...) {id##_real, id##_real_columns},
#define TD_SCAN_PICK(id, ...) {id##_real, id##_real_columns},
#include "kernels/scan/scan.def"
};
static whole_row *const whole_rows[][2] = {
#define TD_SCAN_STEP(id, ...) {id##_whole, id##_whole_columns},
#define TD_SCAN_PICK(id, ...) {id##_whole, id##_whole_columns},
#include "kernels/scan/scan.def"
};

/* ---- the walk ---- */

union tile {
    double real[PIECE];
    int64_t whole[PIECE];
};

struct state { /* of a row, or of a block of columns */
    union tile x, carry;
    int64_t places[PIECE];
};

/* n elements from number at on, which are number k along the dimension. */
static void scan(const struct job *job, struct state *state, int64_t at, int64_t n, int64_t k)
{
    bool columns = job->s.inner > 1;
    const char *x = job->x + at * (int64_t)td_dtype_size(job->from);
    char *out = job->out + at * (int64_t)td_dtype_size(job->to);
    if (td_dtype_kind(job->from) == 'f') {
        load_real(state->x.real, x, n, job->from);
        real_rows[job->scan][columns](state->x.real, state->places, state->carry.real, n, k);
        store_real(out, state->x.real, n, job->to);
    } else {
        load_whole(state->x.whole, x, n, job->from);
        whole_rows[job->scan][columns](state->x.whole, state->places, state->carry.whole, n, k);
        store_whole(out, state->x.whole, n, job->to);
    }
    if (job->places)
        memcpy(job->places + at, state->places, (size_t)n * sizeof *job->places);
}

static void pieces(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    const struct td_span *s = &job->s;
    int64_t blocks = s->inner > 1 ? (s->inner + PIECE - 1) / PIECE : 1;
    struct state state;
    for (int64_t i = begin; i < end; i++) {
        int64_t col = i % blocks * PIECE, at = i / blocks * s->size * s->inner + col;
        int64_t step = s->inner > 1 ? 1 : PIECE;
        int64_t n = s->inner - col < PIECE ? s->inner - col : PIECE;
        for (int64_t k = 0; k < s->size && !(k && td_stopped()); k += step) {
            if (s->inner == 1)
                n = s->size - k < PIECE ? s->size - k : PIECE;
            scan(job, &state, at + k * s->inner, n, k);
        }
    }
}

TD_KERNEL(scan)
{
    const struct td_tensor *x = &call->arg[0].tensor;
    struct job job = {td_span(x, (int)call->arg[1].i),
                      td_scan_of(call),
                      x->dtype,
                      call->out[0].dtype,
                      x->data,
                      call->out[0].data,
                      call->n_out > 1 ? call->out[1].data : NULL};
    const struct td_span *s = &job.s;
    if (!td_numel(x))
        return;
    int64_t blocks = s->inner > 1 ? (s->inner + PIECE - 1) / PIECE : 1;
    double cost = call->op->flops(call) / (double)(s->outer * blocks);
    td_parallel(call->threads, s->outer * blocks, 1 + (int64_t)(65536 / cost), pieces, &job);
}
