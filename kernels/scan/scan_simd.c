/* The scans, vector form. Elements come through a tile of doubles, or of INT64 where they are whole
 * numbers. Along the last dimension rows are scanned there piece by piece, four at a time, since
 * one alone waits for each of its steps; those of some types are where they lie. Along another one,
 * row after row enters what runs along each of a block of columns: where columns are few, many rows
 * share a tile. A step that is dear takes rows as columns, in lanes, and so does one that picks
 * where rows are short: many are transposed together. */
#define TD_REAL_BITS 64
#include "kernels/formulas.h"
#include "kernels/lines.h"
#include "kernels/none.h"
#include "kernels/scan/scan.h"
#include "kernels/scan/tile.h"

#define ABREAST 4 /* rows that are scanned together, */
#define TURNED 16 /* and those that are taken as columns */

enum { NONE };

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

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static double log_add(double a, double b)
{
    if (a == b && isinf(a))
        return a;
    return (a > b || a != a ? a : b) + log1p(exp(-fabs(a - b)));
}

static void log_columns(double *x, int64_t *places, double *carry, int64_t n, int64_t k)
{
    (void)places;
    for (int64_t i = 0; i < n; i += L_LANES) {
        size_t bytes = (size_t)(n - i < L_LANES ? n - i : L_LANES) * sizeof *x;
        V s = L_c(-(double)INFINITY), v = {0};
        memcpy(&v, x + i, bytes);
        if (k)
            memcpy(&s, carry + i, bytes);
        s = o_logaddexp(s, v);
        memcpy(x + i, &s, bytes);
        memcpy(carry + i, &s, bytes);
    }
}

#ifdef TD_LANES_512
#define ANY(m) (_mm512_test_epi64_mask((__m512i)(m), (__m512i)(m)) != 0)
#else
#define ANY(m) L_any(m)
#endif

/* ---- the scans: of a row's next n elements, from number k on; of a row of n columns, which is
 * number k; of such elements of each of some rows, ABREAST at a time, whose elements lie `size`
 * apart: where k is above 0 of ABREAST rows alone; and of n rows of TURNED columns ---- */

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
#define ABREAST_OF(E, T, sort, id, init)                                                           \
    static void id##_##E##_abreast(void *to, const void *from, union tile *carried, int64_t size,  \
                                   int64_t n, int64_t rows, int64_t k)                             \
    {                                                                                              \
        const E *x = from;                                                                         \
        E *out = to;                                                                               \
        T s[ABREAST], *carry = carried->sort;                                                      \
        for (; rows > 0; rows -= ABREAST, x += ABREAST * size, out += ABREAST * size) {            \
            for (int r = 0; r < ABREAST; r++)                                                      \
                s[r] = k ? carry[r] : (T)(init);                                                   \
            for (int64_t i = 0; i < n; i++)                                                        \
                _Pragma("GCC unroll 4") for (int r = 0; r < ABREAST; r++)                          \
                {                                                                                  \
                    s[r] = step_##id##_##sort(s[r], (T)x[r * size + i]);                           \
                    out[r * size + i] = (E)s[r];                                                   \
                }                                                                                  \
        }                                                                                          \
        memcpy(carry, s, sizeof s);                                                                \
    }
/* While none of a vector is better, what there is stays. */
#define PICKS(T, sort, id, better, lanes)                                                          \
    static void id##_##sort(T *row, int64_t *places, T *carry, int64_t n, int64_t k)               \
    {                                                                                              \
        typedef T some __attribute__((vector_size(TD_VBYTES)));                                    \
        T s = k ? *carry : row[0];                                                                 \
        int64_t at = k ? places[PIECE - 1] : 0, i = 0;                                             \
        while (i < n) {                                                                            \
            int64_t end = i + L_LANES < n ? i + L_LANES : n;                                       \
            if (end - i == L_LANES) {                                                              \
                some x, all = s - (some){0};                                                       \
                const VI where = at - (VI){0};                                                     \
                memcpy(&x, row + i, sizeof x);                                                     \
                if (!ANY(lanes)) {                                                                 \
                    memcpy(row + i, &all, sizeof all);                                             \
                    memcpy(places + i, &where, sizeof where);                                      \
                    i = end;                                                                       \
                }                                                                                  \
            }                                                                                      \
            for (; i < end; i++) {                                                                 \
                const T x = row[i];                                                                \
                at ^= (at ^ (k + i)) & -(int64_t)(better); /* without a branch */                  \
                row[i] = s = (better) ? x : s;                                                     \
                places[i] = at;                                                                    \
            }                                                                                      \
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
    }                                                                                              \
    static void id##_##sort##_turned(T *row, int64_t *places, int64_t n)                           \
    {                                                                                              \
        typedef T some __attribute__((vector_size(TD_VBYTES)));                                    \
        for (int r = 0; r < TURNED; r += L_LANES) {                                                \
            some s, x;                                                                             \
            VI at = {0};                                                                           \
            memcpy(&s, row + r, sizeof s);                                                         \
            for (int64_t i = 0; i < n; i++) {                                                      \
                memcpy(&x, row + i * TURNED + r, sizeof x);                                        \
                const VI m = (VI)(lanes);                                                          \
                at ^= (at ^ i) & m;                                                                \
                s = (some)(((VI)x & m) | ((VI)s & ~m));                                            \
                memcpy(row + i * TURNED + r, &s, sizeof s);                                        \
                memcpy(places + i * TURNED + r, &at, sizeof at);                                   \
            }                                                                                      \
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
    ROWS(int64_t, whole, id, TD_SCAN_##id == TD_SCAN_prod)                                         \
    ABREAST_OF(float, double, real, id, init)                                                      \
    ABREAST_OF(double, double, real, id, init)                                                     \
    ABREAST_OF(int64_t, int64_t, whole, id, TD_SCAN_##id == TD_SCAN_prod)
#define TD_SCAN_PICK(id, better, lanes)                                                            \
    PICKS(double, real, id, better, lanes)                                                         \
    PICKS(int64_t, whole, id, better, lanes)
#include "kernels/scan/scan.def"

typedef void real_row(double *x, int64_t *places, double *carry, int64_t n, int64_t k);
typedef void whole_row(int64_t *x, int64_t *places, int64_t *carry, int64_t n, int64_t k);

static real_row *const real_rows[][2] = {
/* the second one of columns */
#define TD_SCAN_STEP(id, ...) {id##_real, id##_real_columns},
#define TD_SCAN_PICK(id, ...) {id##_real, id##_real_columns},
#include "kernels/scan/scan.def"
};
static whole_row *const whole_rows[][2] = {
#define TD_SCAN_STEP(id, cost, init, of_reals, of_wholes)                                          \
    {TD_MEANT(of_wholes) ? id##_whole : NULL, TD_MEANT(of_wholes) ? id##_whole_columns : NULL},
#define TD_SCAN_PICK(id, ...) {id##_whole, id##_whole_columns},
#include "kernels/scan/scan.def"
};

typedef void rows_abreast(void *to, const void *from, union tile *carried, int64_t size, int64_t n,
                          int64_t rows, int64_t k);
static rows_abreast *const abreast[][3] = {
/* of FP32, FP64 and INT64 */
#define TD_SCAN_STEP(id, cost, init, of_reals, of_wholes)                                          \
    {id##_float_abreast, id##_double_abreast, TD_MEANT(of_wholes) ? id##_int64_t_abreast : NULL},
#define TD_SCAN_PICK(id, ...) {NULL},
#include "kernels/scan/scan.def"
};

typedef void real_turned(double *x, int64_t *places, int64_t n);
typedef void whole_turned(int64_t *x, int64_t *places, int64_t n);
static real_turned *const real_columns[] = {
#define TD_SCAN_STEP(id, ...) NULL,
#define TD_SCAN_PICK(id, ...) id##_real_turned,
#include "kernels/scan/scan.def"
};
static whole_turned *const whole_columns[] = {
#define TD_SCAN_STEP(id, ...) NULL,
#define TD_SCAN_PICK(id, ...) id##_whole_turned,
#include "kernels/scan/scan.def"
};

/* ---- the walk ---- */

struct state { /* of a row, or of a block of columns */
    union tile x, carry;
    int64_t places[PIECE];
    int64_t rows; /* of a full tile */
};

/* The k-th row of n columns in a tile whose rows' places lie behind each other, those of the row
 * before it copied to where it has its own. */
static int64_t *places_of(struct state *state, int64_t row, int64_t n, int64_t k)
{
    int64_t *places = state->places + row * n;
    const int64_t *before = row ? places - n : state->places + (state->rows - 1) * n;
    if (k && before != places)
        memcpy(places, before, (size_t)n * sizeof *places);
    return places;
}

/* Steps in lanes take longer of one or two rows or columns, and lose digits of FP64 near 1. */
static bool is_in_lanes(const struct job *job)
{
    return job->scan == TD_SCAN_logsumexp && job->from != TD_f64 &&
           (job->s.inner > 1 ? job->s.inner : job->s.outer) > 2;
}

static real_row *real_run(const struct job *job, bool columns)
{
    return is_in_lanes(job) ? log_columns : real_rows[job->scan][columns];
}

/* n elements from number at on, which are number k along the dimension; of columns, that many rows
 * from there on. */
static void scan(const struct job *job, struct state *state, int64_t at, int64_t n, int64_t rows,
                 int64_t k)
{
    bool columns = job->s.inner > 1, picks = columns && job->places;
    const char *x = job->x + at * (int64_t)td_dtype_size(job->from);
    char *out = job->out + at * (int64_t)td_dtype_size(job->to);
    bool real = td_dtype_kind(job->from) == 'f';
    load_tile(&state->x, 0, x, n * rows, job->from);
    for (int64_t r = 0; r < rows; r++) {
        int64_t *places = picks ? places_of(state, r, n, k + r) : state->places;
        if (real)
            real_run(job, columns)(state->x.real + r * n, places, state->carry.real, n, k + r);
        else
            whole_rows[job->scan][columns](state->x.whole + r * n, places, state->carry.whole, n,
                                           k + r);
    }
    store_tile(out, &state->x, 0, n * rows, job->to);
    if (job->places)
        memcpy(job->places + at, state->places, (size_t)(n * rows) * sizeof *job->places);
}

/* Whether rows abreast are of a type that needs no tile. */
static bool is_direct(const struct job *job)
{
    return job->to == job->from &&
           (job->from == TD_f32 || job->from == TD_f64 || job->from == TD_i64);
}

/* How many of so many rows along the last dimension scan_abreast takes; 0: it takes none. */
static int64_t count_abreast(const struct job *job, int64_t rows)
{
    if (job->places || is_in_lanes(job))
        return 0;
    int64_t all = PIECE / (is_direct(job) ? 1 : job->s.size ? job->s.size : 1);
    if (job->s.size > PIECE || all < ABREAST)
        all = ABREAST;
    return least(rows, all) / ABREAST * ABREAST;
}

/* Scans rows along the last dimension; the first row begins at element `at`. Rows that do not fit
 * the tile are scanned piece by piece. */
static void scan_abreast(const struct job *job, struct state *state, int64_t at, int64_t rows)
{
    int64_t size = job->s.size, size_from = (int64_t)td_dtype_size(job->from),
            size_to = (int64_t)td_dtype_size(job->to);
    bool direct = is_direct(job), real = td_dtype_kind(job->from) == 'f';
    rows_abreast *run = abreast[job->scan][real ? !(direct && job->from == TD_f32) : 2];
    int64_t runs = rows * size <= PIECE ? 1 : rows; /* that a tile is filled by */
    for (int64_t k = 0, n; k < size && !(k && td_stopped()); k += n) {
        n = least(size - k, direct ? PIECE : PIECE / rows);
        if (direct) {
            run(job->out + (at + k) * size_to, job->x + (at + k) * size_from, &state->carry, size,
                n, rows, k);
            continue;
        }
        int64_t some = rows / runs * n;
        for (int64_t r = 0; r < runs; r++)
            load_tile(&state->x, r * n, job->x + (at + r * size + k) * size_from, some, job->from);
        run(&state->x, &state->x, &state->carry, n, n, rows, k);
        for (int64_t r = 0; r < runs; r++)
            store_tile(job->out + (at + r * size + k) * size_to, &state->x, r * n, some, job->to);
    }
}

/* TURNED whole rows of 2 to PIECE / TURNED elements, the first one's from number at on, as columns.
 */
static void scan_short(const struct job *job, struct state *state, int64_t at)
{
    const char *x = job->x + at * (int64_t)td_dtype_size(job->from);
    char *out = job->out + at * (int64_t)td_dtype_size(job->to);
    int64_t size = job->s.size, n = size * TURNED;
    union tile line;
    load_tile(&line, 0, x, n, job->from);
    transpose(state->x.whole, line.whole, TURNED, size);
    if (td_dtype_kind(job->from) == 'f')
        real_columns[job->scan](state->x.real, state->places, size);
    else
        whole_columns[job->scan](state->x.whole, state->places, size);
    transpose(line.whole, state->x.whole, size, TURNED);
    store_tile(out, &line, 0, n, job->to);
    transpose(job->places + at, state->places, size, TURNED);
}

/* Up to TURNED rows of any length, as columns, by a step in lanes. */
static void scan_turned(const struct job *job, struct state *state, int64_t at, int64_t rows)
{
    int64_t size_from = (int64_t)td_dtype_size(job->from),
            size_to = (int64_t)td_dtype_size(job->to);
    double line[PIECE / TURNED];
    for (int64_t k = 0, n; k < job->s.size && !(k && td_stopped()); k += n) {
        n = least(job->s.size - k, PIECE / TURNED);
        for (int64_t r = 0; r < rows; r++) {
            load_real(line, job->x + (at + r * job->s.size + k) * size_from, n, job->from);
            for (int64_t i = 0; i < n; i++)
                state->x.real[i * rows + r] = line[i];
        }
        for (int64_t i = 0; i < n; i++)
            real_run(job, true)(state->x.real + i * rows, NULL, state->carry.real, rows, k + i);
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t i = 0; i < n; i++)
                line[i] = state->x.real[i * rows + r];
            store_real(job->out + (at + r * job->s.size + k) * size_to, line, n, job->to);
        }
    }
}

static void pieces(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    const struct td_span *s = &job->s;
    int64_t blocks = (s->inner + PIECE - 1) / PIECE;
    bool line = s->inner == 1,
         short_picks = job->places && s->size >= 2 && s->size <= PIECE / TURNED;
    struct state state;
    state.rows = line || s->inner >= PIECE ? 1 : PIECE / s->inner;
    for (int64_t n; line && begin < end; begin += n) {
        bool in_lanes = is_in_lanes(job), turned = short_picks && end - begin >= TURNED;
        n = in_lanes || turned ? least(end - begin, TURNED) : count_abreast(job, end - begin);
        if (in_lanes)
            scan_turned(job, &state, begin * s->size, n);
        else if (turned)
            scan_short(job, &state, begin * s->size);
        else if (n)
            scan_abreast(job, &state, begin * s->size, n);
        else
            break;
    }
    for (int64_t i = begin; i < end; i++) {
        int64_t col = i % blocks * PIECE, at = i / blocks * s->size * s->inner + col;
        for (int64_t k = 0; k < s->size && !(k && td_stopped()); k += line ? PIECE : state.rows) {
            int64_t n = least(line ? s->size - k : s->inner - col, PIECE);
            scan(job, &state, at + k * s->inner, n, least(state.rows, s->size - k), k);
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
    int64_t blocks = (s->inner + PIECE - 1) / PIECE;
    double cost = call->op->flops(call) / (double)(s->outer * blocks);
    td_parallel(call->threads, s->outer * blocks, 1 + (int64_t)(65536 / cost), pieces, &job);
}
