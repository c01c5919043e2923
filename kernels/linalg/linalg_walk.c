/* The walk over a call's matrices: each is brought to scratch in FP64, worked on, and stored. */
#include "kernels/linalg/linalg.h"
#include "kernels/sizes.h"

#include <math.h>
#include <string.h>

/* A matrix on its way. */
struct work {
    const struct td_call *call;
    const struct td_linalg *l;
    const struct td_linalg_steps *steps;
    double *w, *x, *room; /* a's, the result's, and what else is needed */
    int32_t *pivot;
};

#define LARGEST (1 << 28) /* rows or columns: a few products of two of them can be added up */

/* Doubles of the result that is made of one matrix, in x. */
static int64_t result(const struct td_linalg *l)
{
    int64_t less = l->m < l->n ? l->m : l->n;
    if (l->b)
        return l->n * l->k;
    return l->kind == TD_LINALG_svd || l->kind == TD_LINALG_qr ? l->m * (l->all ? l->m : less)
                                                               : l->n * l->n;
}

/* Doubles for one matrix; 0: too many. */
static int64_t doubles(const struct td_linalg *l)
{
    int64_t m = l->m, n = l->n, less = m < n ? m : n, large = m < n ? n : m;
    if (large > LARGEST || l->k > LARGEST)
        return 0;
    int64_t room = l->kind == TD_LINALG_exp ? n * n
                   : l->kind == TD_LINALG_svd
                       ? (l->all ? n : less) * n + less + td_linalg_svd_room(m, n, l->all)
                       : large;
    return m * n + result(l) + large + room;
}

static int64_t parts(const struct td_call *call, const struct td_linalg *l)
{
    return l->count < 1 ? 1 : l->count < call->threads ? l->count : call->threads;
}

size_t td_linalg_scratch(const struct td_call *call, const struct td_linalg *l)
{
    int64_t bytes, each = doubles(l);
    if (!td_size_times(each + 8, 8 * parts(call, l), &bytes) || !each)
        return l->m && l->n ? 0 : 64;
    return (size_t)bytes;
}

/* The i-th matrix of t, rows by columns, or its transpose. */
static void load(const struct td_tensor *t, int64_t i, int64_t rows, int64_t columns, bool turn,
                 double *to)
{
    int64_t first = i * rows * columns;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            int64_t from = first + r * columns + c;
            to[turn ? c * rows + r : r * columns + c] =
                t->dtype == TD_f64 ? ((const double *)t->data)[from]
                                   : (double)((const float *)t->data)[from];
        }
}

static void put(const struct td_tensor *t, int64_t i, double x)
{
    if (t->dtype == TD_f64)
        ((double *)t->data)[i] = x;
    else
        ((float *)t->data)[i] = (float)x;
}

static void store(const struct td_tensor *t, int64_t i, int64_t rows, int64_t columns, bool turn,
                  const double *from)
{
    int64_t first = i * rows * columns;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            put(t, first + r * columns + c, from[turn ? c * rows + r : r * columns + c]);
}

static void store_info(const struct td_tensor *t, int64_t i, int64_t info)
{
    ((int32_t *)t->data)[i] = (int32_t)info;
}

/* Rows of x change places as those of the matrix did, in that order or back. */
static void exchange(const struct work *o, int64_t k, bool back)
{
    int64_t n = o->l->n;
    for (int64_t step = 0; step < n; step++) {
        int64_t i = back ? n - 1 - step : step, other = o->pivot[i] - 1;
        for (int64_t c = 0; c < k && other != i; c++) {
            double x = o->x[i * k + c];
            o->x[i * k + c] = o->x[other * k + c];
            o->x[other * k + c] = x;
        }
    }
}

/* The matrix that w has the factors of, P L U, or its transpose, U' L' P', times what x becomes is
 * what x was. */
static void solve_factored(const struct work *o, int64_t k, bool transposed)
{
    int64_t n = o->l->n;
    if (transposed) {
        o->steps->solve(o->w, 1, n, n, false, false, o->x, k);
        o->steps->solve(o->w, 1, n, n, true, true, o->x, k);
        exchange(o, k, true);
    } else {
        exchange(o, k, false);
        o->steps->solve(o->w, n, 1, n, false, true, o->x, k);
        o->steps->solve(o->w, n, 1, n, true, false, o->x, k);
    }
}

/* Of the i-th matrix, or its transpose. */
static int64_t factor(const struct work *o, int64_t i, bool transposed)
{
    load(o->l->a, i, o->l->n, o->l->n, transposed, o->w);
    return o->steps->factor(o->w, o->pivot, o->l->n);
}

static void store_factors(const struct work *o, int64_t i, int at)
{
    store(&o->call->out[at], i, o->l->n, o->l->n, false, o->w);
    memcpy((int32_t *)o->call->out[at + 1].data + i * o->l->n, o->pivot,
           (size_t)o->l->n * sizeof *o->pivot);
}

static void invert(const struct work *o, int64_t i)
{
    int64_t n = o->l->n, info = factor(o, i, false);
    memset(o->x, 0, (size_t)(n * n) * sizeof *o->x);
    for (int64_t d = 0; d < n; d++)
        o->x[d * n + d] = 1;
    solve_factored(o, n, false);
    store(&o->call->out[0], i, n, n, false, o->x);
    store_info(&o->call->out[1], i, info);
}

/* The logarithm of the product keeps what the product itself would lose. */
static void determine(const struct work *o, int64_t i)
{
    int64_t n = o->l->n;
    double product = 1, logarithm = 0, sign = 1;
    factor(o, i, true);
    for (int64_t d = 0; d < n; d++) {
        double x = o->w[d * n + d] * (o->pivot[d] != d + 1 ? -1 : 1);
        product *= x;
        logarithm += log(fabs(x));
        sign *= x > 0 ? 1 : x < 0 ? -1 : x;
    }
    bool logs = o->l->kind == TD_LINALG_slogdet;
    put(&o->call->out[0], i, logs ? sign : product);
    if (logs)
        put(&o->call->out[1], i, logarithm);
    store_factors(o, i, logs ? 2 : 1);
}

static void decompose(const struct work *o, int64_t i)
{
    int64_t n = o->l->n;
    bool upper = o->l->upper;
    load(o->l->a, i, n, n, !upper, o->w); /* of which the upper triangle is read */
    int64_t info = o->steps->cholesky(o->w, n);
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < n; c++)
            if (c < r || (info && r >= info - 1)) /* where there is no such root, NaN */
                o->w[r * n + c] = c < r ? 0 : NAN;
    store(&o->call->out[0], i, n, n, !upper, o->w);
    store_info(&o->call->out[1], i, info);
}

/* What looks for x in a x = b; x a = b is a' x' = b'. */
static void solve(const struct work *o, int64_t i)
{
    const struct td_linalg *l = o->l;
    struct td_linalg_place place = td_linalg_place(o->call, l, i);
    int64_t n = l->n, k = l->k;
    load(l->b, place.b, l->left ? n : k, l->left ? k : n, !l->left, o->x);
    if (l->kind == TD_LINALG_solve) {
        int64_t info = factor(o, place.a, false);
        if (place.first) {
            store_factors(o, place.a, 1);
            store_info(&o->call->out[3], place.a, info);
        }
        solve_factored(o, k, !l->left);
    } else if (l->kind == TD_LINALG_triangular) {
        load(l->a, place.a, n, n, false, o->w);
        if (l->left)
            o->steps->solve(o->w, n, 1, n, l->upper, l->unit, o->x, k);
        else
            o->steps->solve(o->w, 1, n, n, !l->upper, l->unit, o->x, k);
    } else {
        load(l->a, place.a, n, n, l->upper, o->w); /* the lower triangle */
        o->steps->solve(o->w, n, 1, n, false, false, o->x, k);
        o->steps->solve(o->w, 1, n, n, true, false, o->x, k);
    }
    store(&o->call->out[0], i, l->left ? n : k, l->left ? k : n, !l->left, o->x);
}

static void turn_svd(const struct work *o, int64_t i)
{
    const struct td_linalg *l = o->l;
    int64_t less = l->m < l->n ? l->m : l->n;
    double *v = o->room, *s = v + (l->all ? l->n : less) * l->n, *room = s + less;
    load(l->a, i, l->m, l->n, false, o->w);
    td_linalg_svd(o->w, l->m, l->n, l->all, l->vectors ? o->x : NULL, s, v, room);
    store(&o->call->out[1], i, 1, less, false, s);
    if (!l->vectors)
        return;
    store(&o->call->out[0], i, l->m, l->all ? l->m : less, false, o->x);
    store(&o->call->out[2], i, l->all ? l->n : less, l->n, false, v);
}

static void turn(const struct work *o, int64_t i)
{
    const struct td_linalg *l = o->l;
    int64_t m = l->m, n = l->n, less = m < n ? m : n, width = l->all ? m : less;
    if (l->kind == TD_LINALG_svd) {
        turn_svd(o, i);
        return;
    }
    load(l->a, i, m, n, l->kind == TD_LINALG_eigh && l->upper, o->w);
    if (l->kind == TD_LINALG_eigh) {
        td_linalg_eigh(o->w, n, o->room, l->vectors ? o->x : NULL);
        store(&o->call->out[0], i, 1, n, false, o->room);
        if (l->vectors)
            store(&o->call->out[1], i, n, n, false, o->x);
    } else if (l->kind == TD_LINALG_qr) {
        td_linalg_qr(o->w, m, n, l->vectors ? o->x : NULL, width, o->room);
        if (l->vectors)
            store(&o->call->out[0], i, m, width, false, o->x);
        store(&o->call->out[1], i, width, n, false, o->w);
    } else {
        td_linalg_exp(o->w, n, o->x, o->room);
        store(&o->call->out[0], i, n, n, false, o->x);
    }
}

static void run_one(const struct work *o, int64_t i)
{
    switch (o->l->kind) {
    case TD_LINALG_inv:
        invert(o, i);
        break;
    case TD_LINALG_cholesky:
        decompose(o, i);
        break;
    case TD_LINALG_det:
    case TD_LINALG_slogdet:
        determine(o, i);
        break;
    case TD_LINALG_solve:
    case TD_LINALG_triangular:
    case TD_LINALG_cholesky_solve:
        solve(o, i);
        break;
    default:
        turn(o, i);
    }
}

struct walk {
    const struct td_call *call;
    struct td_linalg l;
    const struct td_linalg_steps *steps;
    int64_t parts, each;
    int64_t alone; /* matrices to factor, of which there are no solutions */
};

static void run_parts(void *arg, int64_t begin, int64_t end)
{
    const struct walk *walk = arg;
    for (int64_t p = begin; p < end; p++) {
        struct work o = {.call = walk->call, .l = &walk->l, .steps = walk->steps};
        const struct td_linalg *l = o.l;
        int64_t large = l->m > l->n ? l->m : l->n;
        o.w = (double *)walk->call->scratch + p * walk->each;
        o.x = o.w + l->m * l->n;
        o.pivot = (int32_t *)(o.x + result(l));
        o.room = (double *)(void *)o.pivot + large;
        for (int64_t i = 0; i < walk->alone && !td_stopped(); i++) {
            store_info(&o.call->out[3], i, factor(&o, i, false));
            store_factors(&o, i, 1);
        }
        int64_t last = (p + 1) * l->count / walk->parts;
        for (int64_t i = p * l->count / walk->parts; i < last && !td_stopped(); i++)
            run_one(&o, i);
    }
}

void td_linalg_run(const struct td_call *call, const struct td_linalg_steps *steps)
{
    struct walk walk = {call, td_linalg_of(call), steps, 0, 0, 0};
    if (walk.l.kind == TD_LINALG_solve && !walk.l.count && walk.l.n)
        walk.alone = td_numel(walk.l.a) / (walk.l.n * walk.l.n);
    walk.parts = parts(call, &walk.l);
    walk.each = doubles(&walk.l) + 8;
    td_parallel(call->threads, walk.parts, 1, run_parts, &walk);
}
