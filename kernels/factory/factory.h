/* What the factories' reference and rows share: what an element is. */
#ifndef TD_KERNELS_FACTORY_H
#define TD_KERNELS_FACTORY_H

#include "kernels/chance.h"
#include "kernels/elementwise.h"

#include <math.h>

enum td_make { /* numbers begin with argument first: */
               TD_MAKE_zero,
               TD_MAKE_one,
               TD_MAKE_value,       /* the number itself */
               TD_MAKE_progression, /* end; start, end; start, end, step */
               TD_MAKE_line,        /* start, end, steps */
               TD_MAKE_powers,      /* start, end, steps, base */
               TD_MAKE_diagonal,    /* 1 where row and column are one */
               TD_MAKE_uniform,
               TD_MAKE_normal,
               TD_MAKE_whole, /* high; low, high */
               TD_MAKE_order, /* one of each number */
               TD_MAKE_lower, /* argument 0 up to a diagonal, first */
               TD_MAKE_upper,
};

/* td_op.family of a factory: factory.def. */
struct td_factory {
    enum td_make make;
    int first, seed, tail;
    enum td_factory_type {
        TD_FACTORY_real,
        TD_FACTORY_long,
        TD_FACTORY_like,
        TD_FACTORY_number
    } otherwise;
};
static inline const struct td_factory *td_factory(const struct td_call *call)
{
    return call->op->family;
}

static const struct td_value td_zero = {.kind = TD_KIND_int},
                             td_one = {.kind = TD_KIND_int, .i = 1};

/* The one value of all elements, or NULL. */
static inline const struct td_value *td_factory_constant(const struct td_call *call)
{
    const struct td_factory *f = td_factory(call);
    return f->make == TD_MAKE_zero    ? &td_zero
           : f->make == TD_MAKE_one   ? &td_one
           : f->make == TD_MAKE_value ? &call->arg[f->first]
                                      : NULL;
}

/* arange's start and step. */
struct td_progression {
    const struct td_value *start, *end, *step;
};
static inline struct td_progression td_progression(const struct td_call *call)
{
    int given = call->n_args - 4;
    return (struct td_progression){given > 1 ? &call->arg[0] : &td_zero,
                                   given > 1 ? &call->arg[1] : &call->arg[0],
                                   given > 2 ? &call->arg[2] : &td_one};
}

/* Element i of a line, from the nearer end. One of whole numbers begins and ends with such. */
static inline double td_on_line(const struct td_call *call, int64_t i)
{
    double start = td_scalar(&call->arg[0]), end = td_scalar(&call->arg[1]);
    int64_t last = call->arg[2].i - 1;
    if (last && td_dtype_kind(call->out[0].dtype) != 'f') {
        start = trunc(start);
        end = trunc(end);
    }
    double step = last ? (end - start) / (double)last : 0;
    return i < (last + 1) / 2 || !last ? start + (double)i * step : end - (double)(last - i) * step;
}

/* The range of whole numbers to be drawn from. */
static inline int64_t td_range_low(const struct td_call *call)
{
    return call->arg[1].kind == TD_KIND_int ? call->arg[0].i : 0;
}
static inline uint64_t td_range_size(const struct td_call *call)
{
    int64_t high = call->arg[call->arg[1].kind == TD_KIND_int].i;
    return (uint64_t)high - (uint64_t)td_range_low(call);
}

/* The seed that is an argument; without one, another each time, of the system's. */
uint64_t td_factory_seed(const struct td_call *call);

/* As many high bits as the type can hold at 0.5 and up, over 2^bits: from 0 to below 1. */
static inline int td_uniform_bits(enum td_dtype dtype)
{
    return dtype == TD_f64 ? 53 : dtype == TD_f32 ? 24 : dtype == TD_bf16 ? 8 : 11;
}
/* Of a block's two the one with that bit, by the polar form: the first number is above 0. */
static inline double td_normal(const uint32_t word[4], int which)
{
    double u = 1 - td_uniform(td_philox_word(word, 0), 53),
           v = td_uniform(td_philox_word(word, 1), 53);
    double r = sqrt(-2 * log(u)), turn = 2 * M_PI * v;
    return r * (which ? sin(turn) : cos(turn));
}

/* One of size numbers, 2^64 for 0: the high half of a product. */
static inline uint64_t td_one_of(uint64_t all, uint64_t size)
{
    return size ? (uint64_t)((unsigned __int128)all * size >> 64) : all;
}

/* 0 to n - 1, each once: in order, then from the last on each changed with one up to it. */
void td_factory_order(const struct td_call *call);

#endif
