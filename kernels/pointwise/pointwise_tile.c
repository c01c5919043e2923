/* Elements that lie anyhow, in the order of the result's, for rows that want them dense; those of
 * BOOL among others; and numbers as elements. */
#include "kernels/pointwise/pointwise.h"

#include "kernels/elementwise.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PIECE 16 /* bytes */

/* For each of rows elements, step apart from `from` on, a run of it. Pieces may reach into what is
 * written later, and the last ones end where the last run does. */
#define SPREAD(type)                                                                               \
    static void spread_##type(char *to, const type *from, int64_t rows, int64_t step, int64_t run) \
    {                                                                                              \
        typedef type piece __attribute__((vector_size(PIECE)));                                    \
        const int64_t lanes = PIECE / (int64_t)sizeof(type);                                       \
        int64_t left = rows * run;                                                                 \
        for (; rows > 0; rows--, from += step, to += run * (int64_t)sizeof(type), left -= run) {   \
            piece v = *from - (piece){0};                                                          \
            int64_t i = 0;                                                                         \
            for (; i < run && i + lanes <= left; i += lanes)                                       \
                memcpy(to + i * (int64_t)sizeof(type), &v, sizeof v);                              \
            for (; i < run; i++)                                                                   \
                memcpy(to + i * (int64_t)sizeof(type), from, sizeof(type));                        \
        }                                                                                          \
    }
SPREAD(uint8_t)
SPREAD(uint16_t)
SPREAD(uint32_t)
SPREAD(uint64_t)

static void spread(char *to, const void *from, int64_t rows, int64_t step, int64_t run, size_t size)
{
    switch (size) {
    case 1:
        spread_uint8_t(to, from, rows, step, run);
        break;
    case 2:
        spread_uint16_t(to, from, rows, step, run);
        break;
    case 4:
        spread_uint32_t(to, from, rows, step, run);
        break;
    default:
        spread_uint64_t(to, from, rows, step, run);
    }
}

/* From the last of n elements in memory to the first. */
#define REVERSE(type, lanes, ...)                                                                  \
    static void reverse_##type(type *to, const type *last, int64_t n)                              \
    {                                                                                              \
        typedef type piece __attribute__((vector_size(PIECE)));                                    \
        int64_t i = 0;                                                                             \
        for (; i + lanes <= n; i += lanes) {                                                       \
            piece v;                                                                               \
            memcpy(&v, last - i - (lanes - 1), sizeof v);                                          \
            v = __builtin_shufflevector(v, v, __VA_ARGS__);                                        \
            memcpy(to + i, &v, sizeof v);                                                          \
        }                                                                                          \
        for (; i < n; i++)                                                                         \
            to[i] = last[-i];                                                                      \
    }
REVERSE(uint32_t, 4, 3, 2, 1, 0)
REVERSE(uint64_t, 2, 1, 0)

void td_point_copy(char *to, const char *from, int64_t n, int64_t step, size_t size)
{
    if (!step) {
        spread(to, from, 1, 0, n, size);
        return;
    }
    if (step == 1 && n >= 8) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
    if (step == -1 && size >= 4) {
        if (size == 4)
            reverse_uint32_t((uint32_t *)to, (const uint32_t *)from, n);
        else
            reverse_uint64_t((uint64_t *)to, (const uint64_t *)from, n);
        return;
    }
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

/* A number that elements of the type are compared with is one of them. */
static double compared(const struct td_value *v, enum td_dtype type)
{
    uint64_t room;
    struct td_tensor one = {.data = &room, .dtype = type};
    if (!(type & (TD_f16 | TD_bf16)))
        return td_scalar(v);
    td_put_real(&one, 0, td_scalar(v));
    return td_get_real(&one, 0);
}

struct td_value td_point_number(const struct td_call *call, int k)
{
    const struct td_pointwise *family = call->op->family;
    const struct td_value *v = &call->arg[family->operands[k] - '0'];
    enum td_dtype type = td_point_type(call);
    bool compares = td_point_result(family->point) == TD_POINT_IS_truth;
    if (v->kind != TD_KIND_none && compares && type & (TD_f16 | TD_bf16))
        return (struct td_value){.kind = TD_KIND_float, .f = compared(v, type)};
    if (v->kind != TD_KIND_none)
        return *v;
    if (td_dtype_kind(type) == 'f')
        return (struct td_value){.kind = TD_KIND_float, .f = k == 1 ? -INFINITY : INFINITY};
    bool sign = td_dtype_kind(type) == 'i';
    int bits = type == TD_bool ? 1 : 8 * (int)td_dtype_size(type) - sign;
    int64_t most = (int64_t)(UINT64_MAX >> (64 - bits)), least = sign ? -most - 1 : 0;
    return (struct td_value){.kind = TD_KIND_int, .i = k == 1 ? least : most};
}

const char *td_point_arg_name(const struct td_call *call, int i, char room[32])
{
    const char *at = strchr(call->op->schema, '(');
    for (; i > 0; i--) {
        at = strchr(at + 1, ',');
        if (!strncmp(at, ", *,", 4))
            at += 3;
    }
    at += strcspn(at, " ") == 1 ? 2 : 1; /* behind ", " or "(" */
    at += strcspn(at, " ") + 1;          /* the type */
    snprintf(room, 32, "%.*s", (int)strcspn(at, ",=)"), at);
    return room;
}

void td_point_param(const struct td_call *call, int k, double *real, int64_t *whole)
{
    const struct td_pointwise *family = call->op->family;
    const struct td_value *v = &call->arg[family->params[k] - '0'];
    bool given = v->kind != TD_KIND_none;
    double otherwise = k ? INFINITY : -INFINITY;
    if (family->point == TD_POINT_nan_to_num)
        otherwise = k ? (k == 1 ? 1 : -1) * td_most(td_point_type(call)) : 0;
    bool compares = family->point == TD_POINT_hardshrink || family->point == TD_POINT_softshrink;
    *real = !given ? otherwise : compares ? compared(v, td_point_type(call)) : td_scalar(v);
    if (family->point == TD_POINT_round_decimals) /* the power of ten, negative where it divides */
        *real = copysign(pow(10, fabs(*real)), *real);
    *whole = !given                           ? (k ? INT64_MAX : INT64_MIN)
             : td_point_type(call) == TD_bool ? *real != 0
                                              : td_scalar_int(v);
}

void td_point_put(char *to, struct td_value number, enum td_dtype type)
{
    double x = td_scalar(&number);
    float narrow = (float)x;
    int64_t whole = type == TD_bool ? x != 0 : td_scalar_int(&number);
    memcpy(to,
           td_dtype_kind(type) != 'f' ? (void *)&whole
           : type == TD_f32           ? (void *)&narrow
                                      : (void *)&x,
           td_dtype_size(type));
}

/* A run of so many bytes, rows times in all: twice as many with each copy. */
static void repeat(char *to, int64_t rows, int64_t run)
{
    for (int64_t have = run, all = rows * run, more; have < all; have += more) {
        more = have < all - have ? have : all - have;
        memcpy(to + have, to, (size_t)more);
    }
}

void td_point_lay_out(const struct td_point_walked *v, int64_t begin, int64_t n, char *to)
{
    int64_t index[TD_MAX_RANK], at = 0, rest = begin;
    int last = v->rank - 1;
    for (int d = last; d >= 0; d--) {
        index[d] = rest % v->shape[d];
        rest /= v->shape[d];
        at += index[d] * v->step[d];
    }
    while (n > 0) {
        int64_t run = v->shape[last] - index[last];
        run = run < n ? run : n;
        const char *from = v->data + at * (int64_t)v->size;
        bool whole = last && !index[last] && run == v->shape[last];
        if (whole && !(v->step[last] && v->step[last - 1])) { /* many rows at once */
            int64_t rows = v->shape[last - 1] - index[last - 1];
            rows = rows < n / run ? rows : n / run;
            if (v->step[last]) {
                td_point_copy(to, from, run, v->step[last], v->size);
                repeat(to, rows, run * (int64_t)v->size);
            } else
                spread(to, from, rows, v->step[last - 1], run, v->size);
            to += (rows - 1) * run * (int64_t)v->size;
            n -= (rows - 1) * run;
            at += (rows - 1) * v->step[last - 1];
            index[last - 1] += rows - 1;
        } else
            td_point_copy(to, from, run, v->step[last], v->size);
        to += run * (int64_t)v->size;
        n -= run;
        at += run * v->step[last];
        index[last] += run;
        for (int d = last; d > 0 && index[d] == v->shape[d]; d--) {
            at += v->step[d - 1] - index[d] * v->step[d];
            index[d] = 0;
            index[d - 1]++;
        }
    }
}

void td_point_widen(const struct td_point_args *args, int64_t n, void *out, const void *const *in)
{
    const uint8_t *from = in[0];
    switch (td_dtype_signed(args->to)) {
#define TD_TO(id, type)                                                                            \
    case id:                                                                                       \
        for (int64_t i = 0; i < n; i++)                                                            \
            ((type *)out)[i] = from[i];                                                            \
        break;
        TD_TO(TD_f32, float)
        TD_TO(TD_f64, double)
        TD_TO(TD_i16, int16_t)
        TD_TO(TD_i32, int32_t)
        TD_TO(TD_i64, int64_t)
    default:
        memcpy(out, from, (size_t)n);
#undef TD_TO
    }
}
