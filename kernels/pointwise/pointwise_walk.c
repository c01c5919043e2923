/* The walk over operands that broadcast to a result. A row function sees only dense elements, whole
 * multiples of its unit; everything else is arranged here, in tiles that stay in the first-level
 * cache:
 *
 * - dimensions that all operands walk as one are folded, so most calls are one run;
 * - an operand that lies dense beside the result is read in place;
 * - any other (a column, a row against short rows, one number) is laid out in a tile first;
 * - the few elements beyond the last whole unit go through tiles, too.
 *
 * A piece of work is a range of the result's elements, so that short and long rows are split
 * equally well. Compiled once, with base flags. */
#include "kernels/pointwise/pointwise.h"

#include "kernels/elementwise.h"

#include <math.h>
#include <string.h>

#define TILE 512  /* elements; of 8 bytes, three tiles are a fourth of a 48 KiB cache */
#define SHORT 128 /* runs below are laid out many at a time */

struct operand {
    const char *data;
    size_t size;               /* bytes an element */
    int64_t step[TD_MAX_RANK]; /* elements; 0 where it is broadcast */
    bool mask;                 /* BOOL among operands of another type: made one of constants' */
    bool dense;                /* lies exactly like the result */
    bool constant;             /* one element for all */
};

struct walk {
    struct td_point_args args;
    td_point_row *row;
    int unit, n_in, rank;
    int64_t shape[TD_MAX_RANK]; /* folded, outermost first; never empty */
    struct operand in[TD_POINT_OPERANDS];
    uint64_t number[TD_POINT_OPERANDS]; /* where a Scalar's element stands */
    char *out;
    size_t out_size;
};

struct tiles {
    char in[TD_POINT_OPERANDS][TILE * 8];
} __attribute__((aligned(64)));

/* ---- setting up ---- */

void td_point_param(const struct td_call *call, int k, double *real, int64_t *whole)
{
    const struct td_pointwise *family = call->op->family;
    const struct td_value *v = &call->arg[family->params[k] - '0'];
    bool given = v->kind != TD_KIND_none;
    double otherwise = k ? INFINITY : -INFINITY;
    if (family->point == TD_POINT_nan_to_num)
        otherwise = k ? (k == 1 ? 1 : -1) * td_most(td_point_type(call)) : 0;
    *real = given ? td_scalar(v) : otherwise;
    *whole = given ? td_scalar_int(v) : k ? INT64_MAX : INT64_MIN;
}

static void set_steps(struct operand *o, const struct td_tensor *t, const struct td_tensor *out)
{
    int64_t step = 1;
    for (int d = out->rank - 1; d >= 0; d--) {
        int own = d - (out->rank - t->rank);
        o->step[d] = own >= 0 && t->shape[own] != 1 ? step : 0;
        if (own >= 0)
            step *= t->shape[own];
    }
}

/* Leaves out dimensions of one element, and folds one into its inner neighbour wherever every
 * operand walks both as one. */
static void fold(struct walk *w, const struct td_tensor *out)
{
    int rank = 0;
    for (int d = 0; d < out->rank; d++) {
        if (out->shape[d] == 1)
            continue;
        bool joins = rank > 0;
        for (int k = 0; joins && k < w->n_in; k++)
            joins = w->in[k].step[rank - 1] == w->in[k].step[d] * out->shape[d];
        rank -= joins;
        w->shape[rank] = out->shape[d] * (joins ? w->shape[rank] : 1);
        for (int k = 0; k < w->n_in; k++)
            w->in[k].step[rank] = w->in[k].step[d];
        rank++;
    }
    if (!rank) {
        w->shape[rank] = 1;
        for (int k = 0; k < w->n_in; k++)
            w->in[k].step[rank] = 0;
        rank++;
    }
    w->rank = rank;
}

static void classify(struct walk *w)
{
    for (int k = 0; k < w->n_in; k++) {
        struct operand *o = &w->in[k];
        int64_t step = 1;
        o->dense = o->constant = true;
        for (int d = w->rank - 1; d >= 0; d--) {
            o->dense = o->dense && o->step[d] == step;
            o->constant = o->constant && !o->step[d];
            step *= w->shape[d];
        }
        o->dense = o->dense && !o->constant && !o->mask;
    }
}

static enum td_dtype constant_type(enum td_dtype type)
{
    return type == TD_f16 || type == TD_bf16 ? TD_f32 : type;
}

/* A Scalar as one element of the type that rows expect of constants. */
static void set_number(struct walk *w, int k, struct td_value number)
{
    const struct td_value *v = &number;
    struct operand *o = &w->in[k];
    enum td_dtype type = constant_type(w->args.type);
    bool real = td_dtype_kind(type) == 'f';
    w->args.from[k] = type;
    o->data = (char *)&w->number[k];
    o->size = td_dtype_size(type);
    double x = td_scalar(v);
    float narrow = (float)x;
    int64_t whole = td_scalar_int(v);
    memcpy(&w->number[k],
           !real            ? (void *)&whole
           : type == TD_f32 ? (void *)&narrow
                            : (void *)&x,
           o->size);
}

/* ---- laying out tiles ---- */

static void copy_strided(char *to, const char *from, int64_t n, int64_t step, size_t size)
{
    switch (size) {
#define TD_COPY(type)                                                                              \
    case sizeof(type):                                                                             \
        for (int64_t i = 0; i < n; i++)                                                            \
            ((type *)to)[i] = ((const type *)from)[i * step];                                      \
        break;
        TD_COPY(uint8_t)
        TD_COPY(uint16_t)
        TD_COPY(uint32_t)
        TD_COPY(uint64_t)
#undef TD_COPY
    }
}

/* n elements of BOOL, in the end of the room that they fill as the type of constants. */
static void widen(char *room, int64_t n, enum td_dtype type)
{
    const uint8_t *from = (uint8_t *)room + (size_t)n * (td_dtype_size(type) - 1);
    for (int64_t i = 0; i < n; i++) { /* from the front: each is read before it is overwritten */
        uint8_t one = from[i];
        switch (type) {
        case TD_f32:
            ((float *)room)[i] = one;
            break;
        case TD_f64:
            ((double *)room)[i] = one;
            break;
        case TD_i16:
            ((int16_t *)room)[i] = one;
            break;
        case TD_i32:
            ((int32_t *)room)[i] = one;
            break;
        case TD_i64:
            ((int64_t *)room)[i] = one;
            break;
        default:
            room[i] = (char)one;
        }
    }
}

/* The operand's elements for the result's n from number begin on, in order. */
static void lay_out(const struct walk *w, int k, int64_t begin, int64_t n, char *to)
{
    const struct operand *o = &w->in[k];
    int64_t index[TD_MAX_RANK], at = 0, rest = begin;
    int last = w->rank - 1;
    int64_t all = n;
    char *room = to;
    if (o->mask) /* the elements in the room's end, to be widened from there */
        to += (size_t)n * (td_dtype_size(constant_type(w->args.type)) - 1);
    for (int d = last; d >= 0; d--) {
        index[d] = rest % w->shape[d];
        rest /= w->shape[d];
        at += index[d] * o->step[d];
    }
    while (n > 0) {
        int64_t run = w->shape[last] - index[last];
        run = run < n ? run : n;
        copy_strided(to, o->data + at * (int64_t)o->size, run, o->step[last], o->size);
        to += run * (int64_t)o->size;
        n -= run;
        at += run * o->step[last];
        index[last] += run;
        for (int d = last; d > 0 && index[d] == w->shape[d]; d--) {
            at += o->step[d - 1] - index[d] * o->step[d];
            index[d] = 0;
            index[d - 1]++;
        }
    }
    if (o->mask)
        widen(room, all, constant_type(w->args.type));
}

/* ---- running ---- */

/* n elements from in to out: whole units in place, the rest through tiles. */
static void run_dense(const struct walk *w, int64_t n, char *out, const void *const *in)
{
    int64_t whole = n - n % w->unit, rest = n - whole;
    if (whole)
        w->row(&w->args, whole, out, in);
    if (!rest)
        return;
    char room[TD_POINT_OPERANDS][64], result[64]; /* a unit is at most 64 bytes */
    const void *few[TD_POINT_OPERANDS];
    for (int k = 0; k < w->n_in; k++) {
        size_t size = td_dtype_size(w->args.from[k]);
        memset(room[k], 0, sizeof room[k]);
        memcpy(room[k], (const char *)in[k] + (size_t)whole * size, (size_t)rest * size);
        few[k] = room[k];
    }
    w->row(&w->args, w->unit, result, few);
    memcpy(out + (size_t)whole * w->out_size, result, (size_t)rest * w->out_size);
}

static void run_range(void *arg, int64_t begin, int64_t end)
{
    const struct walk *w = arg;
    struct tiles tiles;
    int last = w->rank - 1;
    int64_t inner = w->shape[last];
    for (int k = 0; k < w->n_in; k++)
        if (w->in[k].constant && !w->in[k].mask)
            copy_strided(tiles.in[k], w->in[k].data, TILE, 0, w->in[k].size);
    while (begin < end) {
        int64_t n = end - begin, col = begin % inner;
        if (inner >= SHORT && n > inner - col)
            n = inner - col;
        bool tiled = false;
        const void *in[TD_POINT_OPERANDS];
        for (int k = 0; k < w->n_in; k++)
            tiled = tiled || w->in[k].mask ||
                    !(w->in[k].dense || (inner >= SHORT && w->in[k].step[last] == 1));
        if (tiled && n > TILE)
            n = TILE;
        for (int k = 0; k < w->n_in; k++) {
            const struct operand *o = &w->in[k];
            in[k] = tiles.in[k];
            if (o->dense) {
                in[k] = o->data + (size_t)begin * o->size;
            } else if (!o->mask && inner >= SHORT && o->step[last] == 1) {
                int64_t at = col, row = begin / inner;
                for (int d = last - 1; d >= 0; row /= w->shape[d--])
                    at += row % w->shape[d] * o->step[d];
                in[k] = o->data + at * (int64_t)o->size;
            } else if (!o->constant || o->mask) {
                lay_out(w, k, begin, n, tiles.in[k]);
            }
        }
        run_dense(w, n, w->out + (size_t)begin * w->out_size, in);
        begin += n;
    }
}

void td_pointwise(const struct td_call *call, td_point_row *row, int unit)
{
    const struct td_pointwise *family = call->op->family;
    const struct td_tensor *out = &call->out[0];
    int64_t n = td_numel(out);
    struct walk w = {.row = row, .unit = unit, .out = out->data};
    if (!n)
        return;
    w.out_size = td_dtype_size(out->dtype);
    w.args.type = td_point_type(call);
    w.args.to = out->dtype;
    for (; family->operands[w.n_in]; w.n_in++) {
        const struct td_value *v = &call->arg[family->operands[w.n_in] - '0'];
        struct operand *o = &w.in[w.n_in];
        if (v->kind != TD_KIND_tensor) {
            set_number(&w, w.n_in, td_point_number(call, w.n_in));
            continue;
        }
        enum td_dtype type = v->tensor.dtype;
        o->data = v->tensor.data;
        o->size = td_dtype_size(type);
        o->mask = type != w.args.type;
        w.args.from[w.n_in] = o->mask ? constant_type(w.args.type) : type;
        set_steps(o, &v->tensor, out);
    }
    for (int k = 0; family->params[k]; k++)
        td_point_param(call, k, &w.args.real[k], &w.args.whole[k]);
    fold(&w, out);
    classify(&w);
    /* Waking a team takes 25 us and more: about 250,000 of the cheapest elements. */
    int64_t grain = (int64_t)(262144.0 * (double)n / call->op->flops(call));
    td_parallel(call->threads, n, grain > 1024 ? grain : 1024, run_range, &w);
}
