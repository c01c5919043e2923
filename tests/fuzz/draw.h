/* Arguments drawn from an input's bytes, for an operator's schema: a sample's, and in their place
 * values at which sizes wrap, real numbers are no index, and lists are too short. Each parameter
 * has its own bytes, SLOT of them, so that a change to one leaves the others as they are; and
 * numbers may be said by the one before, as windows and paddings must go together to be right. */
#ifndef TD_TESTS_FUZZ_DRAW_H
#define TD_TESTS_FUZZ_DRAW_H

#include "dispatch/call/sample.h"
#include "tests/fuzz/fuzz.h"

#include <float.h>
#include <math.h>

#define SLOT 12 /* bytes */
#define SLOT_DRAWS 200
#define SLOT_PLAIN 1 /* a value of the parameter's own type */
#define BY_LAST 228  /* from here on, RELATIONS of them */
#define RELATIONS 8

static const int64_t whole[] = {0,         1,
                                2,         3,
                                4,         5,
                                7,         8,
                                13,        16,
                                17,        31,
                                64,        127,
                                128,       255,
                                256,       1 << 16,
                                1 << 21,   1 << 22,
                                INT32_MAX, 1L << 31,
                                1L << 32,  1L << 40,
                                1L << 53,  1L << 61,
                                1L << 62,  INT64_MAX,
                                -1,        -2,
                                -3,        -4,
                                -5,        -8,
                                INT32_MIN, -1L << 40,
                                INT64_MIN, INT64_MIN + 1};
static const double real[] = {0,       -0.0,   1,      -1,     0.5,      2,          3,      1e-300,
                              -1e-300, 1e300,  -1e300, NAN,    INFINITY, -INFINITY,  1e-40,  3.5e38,
                              0x1p31,  0x1p53, 0x1p62, 0x1p63, -0x1p63,  0x1p64,     5e-324, 0.1,
                              1.5,     -0.5,   1e18,   65504,  DBL_MAX,  -0x1p31 - 1};
static const int64_t size[] = {0, 1, 2, 3, 4, 5, 7, 8, 1, 2, 3, 16, 17, 33, 64, 100};
static const int64_t giant[] = {1L << 20, 1L << 31, 1L << 32,  1L << 40,
                                1L << 61, 1L << 62, INT64_MAX, 65537};
static const char *const text[] = {
    "",         "mean",  "sum",    "none",     "tanh",      "floor",    "trunc",  "linear",
    "bilinear", "zeros", "border", "reflect",  "ij,jk->ik", "ii->i",    "...i,i", "relu",
    "FP32",     "INT8",  "left",   "right",    "xy",        "amax",     "prod",   "inf",
    "-inf",     "nuc",   "fro",    "constant", "replicate", "circular", "BOOL"};

static char words[TD_MAX_ARGS][16]; /* texts of the input's own */
static struct td_tensor more[4];    /* of a list that is longer than the sample's */

static enum td_dtype draw_dtype(struct bytes *b)
{
    return 1 << take(b) % TD_DTYPES;
}

static int64_t last; /* of an input's numbers */

static int64_t draw_whole(struct bytes *b)
{
    unsigned c = take(b);
    uint64_t was = (uint64_t)last;
    if (c < BY_LAST)
        return last = whole[c % (sizeof whole / sizeof *whole)];
    if (c < BY_LAST + RELATIONS)
        return (int64_t[RELATIONS]){
            last,          last / 2, (int64_t)(was * 2),  (int64_t)(was + 1), (int64_t)(was - 1),
            (int64_t)-was, last / 3, (int64_t)(was * was)}[c - BY_LAST];
    return last = c < 245 ? (int64_t)take(b) - 128 : take_int(b);
}

static double draw_real(struct bytes *b)
{
    unsigned c = take(b);
    int64_t bits = c < 230 ? 0 : take_int(b);
    double x;
    memcpy(&x, &bits, sizeof x);
    return c < 230 ? real[c % (sizeof real / sizeof *real)] : x;
}

/* As the border has them: bytes that can be counted. */
static void draw_tensor(struct bytes *b, struct td_tensor *t)
{
    unsigned how = take(b) % 8;
    if (how < 2) {
        t->dtype = draw_dtype(b);
    } else if (how < 5 && t->rank) {
        t->shape[take(b) % (unsigned)t->rank] = how < 4 ? PICK(b, size) : PICK(b, giant);
    } else {
        *t = (struct td_tensor){.dtype = t->dtype ? t->dtype : draw_dtype(b),
                                .rank = (int)take(b) % 7};
        for (int i = 0; i < t->rank; i++)
            t->shape[i] = PICK(b, size);
    }
    if (!td_fits(t))
        t->shape[0] = t->rank = 0;
}

/* One number for all of a list, another one in it, or another list. */
static void draw_list(struct bytes *b, struct td_value *v, bool reals)
{
    int n = v->kind == (reals ? TD_KIND_floats : TD_KIND_ints) ? v->ints.n : 0;
    unsigned how = take(b), length = take(b);
    if (reals && n)
        n = v->floats.n;
    bool same = how % 4 < 2, one = how % 4 == 2 && n;
    if (!one && !(same && n)) {
        *v = (struct td_value){.kind = reals ? TD_KIND_floats : TD_KIND_ints};
        n = (int)length % (how % 32 == 3 ? TD_MAX_LIST + 1 : 5);
    }
    for (int i = 0; i < n; i++) {
        if (one && i != (int)length % n)
            continue;
        if (reals)
            v->floats.v[i] = same && i ? v->floats.v[0] : draw_real(b);
        else
            v->ints.v[i] = same && i ? v->ints.v[0] : draw_whole(b);
    }
    *(reals ? &v->floats.n : &v->ints.n) = n;
}

static void draw_tensors(struct bytes *b, struct td_value *v)
{
    if (v->kind != TD_KIND_tensors)
        *v = (struct td_value){.kind = TD_KIND_tensors, .tensors = {.v = more}};
    if (v->tensors.v != more && v->tensors.n && take(b) % 4) {
        draw_tensor(b, &v->tensors.v[take(b) % (unsigned)v->tensors.n]);
        return;
    }
    v->tensors.v = more;
    v->tensors.n = (int)take(b) % 5;
    for (int i = 0; i < v->tensors.n; i++) {
        more[i] = (struct td_tensor){.dtype = take(b) % 8 ? TD_f32 : TD_DTYPE_none};
        if (more[i].dtype)
            draw_tensor(b, &more[i]);
    }
}

static void draw(struct bytes *b, const struct td_param *param, struct td_value *v, char *word)
{
    enum td_base base = param->type.base;
    bool list = param->type.list;
    unsigned other = take(b);
    if (other > 250)
        base = (enum td_base)(take(b) % TD_BASES);
    if (other > 240 && other <= 250)
        list = !list;
    if (other % 32 == 0) {
        *v = (struct td_value){.kind = TD_KIND_none};
    } else if (base == TD_BASE_Tensor) {
        if (list) {
            draw_tensors(b, v);
        } else {
            if (v->kind != TD_KIND_tensor)
                *v = (struct td_value){.kind = TD_KIND_tensor};
            draw_tensor(b, &v->tensor);
        }
    } else if (list) {
        draw_list(b, v, base == TD_BASE_float || (base == TD_BASE_Scalar && take(b) & 1));
    } else if (base == TD_BASE_int || (base == TD_BASE_Scalar && take(b) & 1)) {
        *v = (struct td_value){.kind = TD_KIND_int, .i = draw_whole(b)};
        v->wide = v->i < 0 && take(b) % 8 == 7;
    } else if (base == TD_BASE_float || base == TD_BASE_Scalar) {
        *v = (struct td_value){.kind = TD_KIND_float, .f = draw_real(b)};
    } else if (base == TD_BASE_bool) {
        *v = (struct td_value){.kind = TD_KIND_bool, .i = take(b) & 1};
    } else {
        bool own = take(b) % 4 == 3;
        const char *said = base == TD_BASE_ScalarType ? td_dtype_name(draw_dtype(b))
                           : own                      ? word
                                                      : PICK(b, text);
        for (int i = 0; own && i < 15; i++)
            word[i] = (char)take(b);
        *v = (struct td_value){.kind = TD_KIND_str, .str = said};
    }
}

/* The sample's arguments, some of them changed, some left out, and some that it has not. */
static int draw_args(struct bytes *b, const struct td_handle *handle, struct td_sample *made,
                     struct td_named *args)
{
    static const struct td_value none;
    int n = 0, from = 0;
    last = 0;
    for (int i = 0; i < handle->schema.n_params; i++) {
        const struct td_param *param = &handle->schema.param[i];
        bool there = from < made->n_args && !strcmp(made->arg[from].name, param->name);
        struct bytes slot = {b->at, b->end - b->at > SLOT ? b->at + SLOT : b->end};
        b->at = slot.end;
        unsigned how = take(&slot);
        args[n] =
            (struct td_named){.name = param->name, .value = there ? made->arg[from].value : none};
        from += there;
        if (how < 128) /* as it is */
            n += there;
        else if (how < 250)
            draw(&slot, param, &args[n++].value, words[i]);
    }
    return n;
}

#endif
