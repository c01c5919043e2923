/* The reductions' judge: for each result, over all the elements that belong to it, one at a time in
 * long double, or in INT64 where they are whole numbers. */
#include "kernels/elementwise.h"
#include "kernels/none.h"
#include "kernels/reduce/reduce.h"

#include <math.h>
#include <string.h>

#define W_add(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define W_mul(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX

enum { NONE };

struct total {
    long double f;
    int64_t i;
};

struct walk { /* over the elements of one result */
    const struct td_tensor *x;
    unsigned dims;
    int64_t *index; /* of the first */
    int64_t seen;
    bool stopped;
};

/* Moves the index of the dimensions in dims on by one; false after the last. */
static bool advance(int64_t *index, const struct td_tensor *t, unsigned dims)
{
    for (int d = t->rank - 1; d >= 0; d--)
        if (dims & 1u << d) {
            if (++index[d] < t->shape[d])
                return true;
            index[d] = 0;
        }
    return false;
}

static struct total first(enum td_fold step)
{
    switch (step) {
#define TD_STEP(id, width, joins, cost, init, whole_init, judge, whole, lanes)                     \
    case TD_FOLD_##id:                                                                             \
        return (struct total){init, whole_init};
#include "kernels/reduce/reduce.def"
    default:
        return (struct total){0};
    }
}

static long double real(enum td_fold step, long double s, long double x, long double p)
{
    (void)p;
    switch (step) {
#define TD_STEP(id, width, joins, cost, init, whole_init, judge, whole, lanes)                     \
    case TD_FOLD_##id:                                                                             \
        assert(TD_MEANT(judge));                                                                   \
        return judge;
#include "kernels/reduce/reduce.def"
    default:
        return s;
    }
}

static int64_t whole(enum td_fold step, int64_t s, int64_t x)
{
    switch (step) {
#define TD_STEP(id, width, joins, cost, init, whole_init, judge, formula, lanes)                   \
    case TD_FOLD_##id:                                                                             \
        assert(TD_MEANT(formula));                                                                 \
        return formula;
#include "kernels/reduce/reduce.def"
    default:
        return s;
    }
}

/* All of a result's elements; counted in *n. With find, up to the one that equals it. */
static struct total pass(struct walk *w, enum td_fold step, long double p, const struct total *find,
                         int64_t *n)
{
    bool reals = td_dtype_kind(w->x->dtype) == 'f', more = td_numel(w->x) > 0;
    bool ordered = step == TD_FOLD_max || step == TD_FOLD_min;
    int64_t index[TD_MAX_RANK], bit = ordered ? td_order_bit(w->x->dtype) : 0;
    struct total s = first(step);
    memcpy(index, w->index, sizeof index);
    for (*n = 0; more && !w->stopped; ++*n) {
        int64_t at = 0;
        for (int d = 0; d < w->x->rank; d++)
            at = at * w->x->shape[d] + index[d];
        if (reals) {
            long double x = td_get_real(w->x, at);
            if (find && (x == find->f || (x != x && find->f != find->f)))
                break;
            s.f = real(step, s.f, x, p);
        } else {
            int64_t x = td_get_whole(w->x, at);
            if (find && x == find->i)
                break;
            s.i = whole(step, s.i, x ^ bit);
        }
        w->stopped = !(++w->seen % TD_STRIDE) && td_stopped();
        more = advance(index, w->x, w->dims);
    }
    s.i ^= bit;
    return s;
}

static void fold(struct walk *w, enum td_fold fold, long double p, struct total *s, struct total *t,
                 int64_t *n)
{
    switch (fold) {
    case TD_FOLD_moments:
        *s = pass(w, TD_FOLD_sum, 0, NULL, n);
        s->f = *n ? s->f / *n : 0;
        *t = pass(w, TD_FOLD_spread, s->f, NULL, n);
        break;
    case TD_FOLD_exponents:
        *s = pass(w, TD_FOLD_max, 0, NULL, n);
        s->f = isinf(s->f) ? 0 : s->f;
        *t = pass(w, TD_FOLD_raised, s->f, NULL, n);
        break;
    case TD_FOLD_argmax:
    case TD_FOLD_argmin:
        *s = pass(w, fold == TD_FOLD_argmax ? TD_FOLD_max : TD_FOLD_min, 0, NULL, n);
        pass(w, TD_FOLD_sum, 0, s, &t->i);
        break;
    default:
        *s = pass(w, fold, p, NULL, n);
    }
}

td_kernel td_reduce_ref;
void td_reduce_ref(const struct td_call *call)
{
    const struct td_tensor *x = &call->arg[0].tensor;
    bool reals = td_dtype_kind(x->dtype) == 'f';
    long double p = (long double)td_reduce_param(call);
    int64_t index[TD_MAX_RANK] = {0}, outputs = td_numel(&call->out[0]);
    struct walk w = {.x = x, .dims = td_reduce_dims(call), .index = index};
    for (int64_t i = 0; i < outputs && !w.stopped; i++) {
        for (int k = 0; k < call->n_out; k++) {
            enum td_fold how = td_reduce_fold(td_reduce_of(call, k));
            bool places = how == TD_FOLD_argmax || how == TD_FOLD_argmin;
            struct total s = {0}, t = {0};
            int64_t n;
            fold(&w, how, p, &s, &t, &n);
            union td_total a = {.i = s.i}, b = {.i = t.i};
            if (reals)
                a.f = (double)s.f;
            if (reals && !places)
                b.f = (double)t.f;
            td_finish(call, k, i, 1, n, &a, &b);
        }
        advance(index, x, ~w.dims);
    }
}
