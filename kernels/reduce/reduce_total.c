/* What becomes of totals: two pieces are joined, and a result is made of them and written in its
 * type. Compiled once, with base flags: there are most often far fewer totals than elements. */
#include "kernels/half.h"
#include "kernels/reduce/finish.def"

static const enum td_join joins[TD_FOLDS] = {
#define TD_STEP(id, width, how, ...) TD_JOIN_##how,
#include "kernels/reduce/reduce.def"
    [TD_FOLD_moments] = TD_JOIN_moments,
    [TD_FOLD_exponents] = TD_JOIN_exponents,
    [TD_FOLD_argmax] = TD_JOIN_argmax,
    [TD_FOLD_argmin] = TD_JOIN_argmin,
};

/* T. Chan, G. Golub, R. LeVeque, "Updating formulae and a pairwise algorithm", 1979. */
static void join_moments(union td_total *s, union td_total *t, double n, double mean,
                         double squares, double m)
{
    double off = mean - s->f;
    if (!isfinite(off)) { /* infinite numbers have a mean, but no distance from it */
        s->f += mean;
        t->f = NAN;
        return;
    }
    s->f += off * (m / (n + m));
    t->f += squares + off * off * (n * m / (n + m));
}

static void join_exponents(union td_total *s, union td_total *t, double from, double sum)
{
    double top = from > s->f ? from : s->f;
    if (t->f == 0 || sum == 0) { /* one of them is nothing but -inf, and says nothing of where */
        s->f = t->f == 0 ? from : s->f;
        t->f += sum;
        return;
    }
    if (!isfinite(t->f) || !isfinite(sum)) {
        t->f += sum;
        return;
    }
    t->f = t->f * exp(s->f - top) + sum * exp(from - top);
    s->f = top;
}

static bool real_is_better(enum td_join how, double a, double b)
{
    if (b != b)
        return false;
    return a != a || (how == TD_JOIN_argmax ? a > b : a < b);
}

static void join_reals(enum td_join how, int64_t count, struct td_piece *piece,
                       const struct td_piece *next)
{
    union td_total *s = piece->s, *t = piece->t;
    const union td_total *a = next->s, *b = next->t;
    const int64_t behind = next->first - piece->first; /* 0: places are among the same */
    switch (how) {
    case TD_JOIN_add:
        for (int64_t i = 0; i < count; i++)
            s[i].f += a[i].f;
        break;
    case TD_JOIN_mul:
        for (int64_t i = 0; i < count; i++)
            s[i].f *= a[i].f;
        break;
    case TD_JOIN_max:
        for (int64_t i = 0; i < count; i++)
            s[i].f = s[i].f > a[i].f || s[i].f != s[i].f ? s[i].f : a[i].f;
        break;
    case TD_JOIN_min:
        for (int64_t i = 0; i < count; i++)
            s[i].f = s[i].f < a[i].f || s[i].f != s[i].f ? s[i].f : a[i].f;
        break;
    case TD_JOIN_moments:
        for (int64_t i = 0; i < count; i++)
            join_moments(&s[i], &t[i], (double)piece->n, a[i].f, b[i].f, (double)next->n);
        break;
    case TD_JOIN_exponents:
        for (int64_t i = 0; i < count; i++)
            join_exponents(&s[i], &t[i], a[i].f, b[i].f);
        break;
    default:
        assert(how == TD_JOIN_argmax || how == TD_JOIN_argmin);
        for (int64_t i = 0; i < count; i++)
            if (real_is_better(how, a[i].f, s[i].f) ||
                (!behind && b[i].i < t[i].i && !real_is_better(how, s[i].f, a[i].f))) {
                s[i] = a[i];
                t[i].i = behind + b[i].i;
            }
    }
}

static void join_wholes(enum td_join how, int64_t count, struct td_piece *piece,
                        const struct td_piece *next)
{
    union td_total *s = piece->s, *t = piece->t;
    const union td_total *a = next->s, *b = next->t;
    const int64_t behind = next->first - piece->first; /* 0: places are among the same */
    switch (how) {
    case TD_JOIN_add:
        for (int64_t i = 0; i < count; i++)
            s[i].i = (int64_t)((uint64_t)s[i].i + (uint64_t)a[i].i);
        break;
    case TD_JOIN_mul:
        for (int64_t i = 0; i < count; i++)
            s[i].i = (int64_t)((uint64_t)s[i].i * (uint64_t)a[i].i);
        break;
    case TD_JOIN_max:
        for (int64_t i = 0; i < count; i++)
            s[i].i = a[i].i > s[i].i ? a[i].i : s[i].i;
        break;
    case TD_JOIN_min:
        for (int64_t i = 0; i < count; i++)
            s[i].i = a[i].i < s[i].i ? a[i].i : s[i].i;
        break;
    case TD_JOIN_xor:
        for (int64_t i = 0; i < count; i++)
            s[i].i ^= a[i].i;
        break;
    default:
        assert(how == TD_JOIN_argmax || how == TD_JOIN_argmin);
        for (int64_t i = 0; i < count; i++)
            if ((how == TD_JOIN_argmax ? a[i].i > s[i].i : a[i].i < s[i].i) ||
                (!behind && b[i].i < t[i].i && a[i].i == s[i].i)) {
                s[i] = a[i];
                t[i].i = behind + b[i].i;
            }
    }
}

void td_join(enum td_fold fold, bool whole, int64_t count, struct td_piece *piece,
             const struct td_piece *next)
{
    (whole ? join_wholes : join_reals)(joins[fold], count, piece, next);
    piece->n += next->n;
}

/* ---- results ---- */

static void put_halves(uint16_t *to, const double *y, int64_t n, enum td_dtype type)
{
    for (int64_t i = 0; i < n; i++) {
        float odd = td_f64_to_odd(y[i]);
        to[i] = type == TD_bf16 ? td_f32_to_bf16(odd) : td_f32_to_f16(odd);
    }
}

static void put_wholes(const struct td_tensor *out, int64_t at, int64_t count,
                       const union td_total *y)
{
    switch (td_dtype_size(out->dtype)) {
#define TD_PUT(type)                                                                               \
    case sizeof(type):                                                                             \
        for (int64_t i = 0; i < count; i++)                                                        \
            ((type *)out->data)[at + i] = (type)y[i].i;                                            \
        break;
        TD_PUT(uint8_t)
        TD_PUT(uint16_t)
        TD_PUT(uint32_t)
        TD_PUT(uint64_t)
#undef TD_PUT
    }
}

void td_finish(const struct td_call *call, int k, int64_t at, int64_t count, int64_t n,
               const union td_total *s, const union td_total *t)
{
    if (td_reduce_result(td_reduce_of(call, k)) == TD_REDUCE_IS_place)
        put_wholes(&call->out[k], at, count, t);
    else if (td_dtype_kind(call->arg[0].tensor.dtype) != 'f')
        put_wholes(&call->out[k], at, count, s);
    else
        finish_reals(call, k, at, count, n, s, t);
}
