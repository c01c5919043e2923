/* What the factories' reference and rows share: the value of an element. A factory makes a tensor
 * from numbers alone; its last four arguments are dtype, layout, device and pin_memory. */
#ifndef TD_KERNELS_FACTORY_H
#define TD_KERNELS_FACTORY_H

#include "kernels/elementwise.h"

static const struct td_value td_zero = {.kind = TD_KIND_int},
                             td_one = {.kind = TD_KIND_int, .i = 1};

/* Element i becomes the Scalar, as its type has it. */
static inline void td_factory_put(const struct td_tensor *t, int64_t i, const struct td_value *v)
{
    if (t->dtype == TD_bool)
        td_put_whole(t, i, td_scalar(v) != 0);
    else if (v->kind == TD_KIND_float && td_dtype_kind(t->dtype) == 'f')
        td_put_real(t, i, v->f);
    else
        td_put_whole(t, i, td_scalar_int(v));
}

/* arange's start and step, which its first arguments say: end; start, end; start, end, step. */
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

/* The seed that a call's argument generator is; without one, another each time, of the system's. */
uint64_t td_factory_seed(const struct td_call *call);

/* Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
 * 2011): four words that depend on the seed and the number of the block alone, so that any thread
 * may make any part of a tensor. */
static inline void td_philox(uint64_t seed, uint64_t block, uint32_t word[4])
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    word[0] = (uint32_t)block;
    word[1] = (uint32_t)(block >> 32);
    word[2] = word[3] = 0;
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xd2511f53 * word[0], b = (uint64_t)0xcd9e8d57 * word[2];
        word[0] = (uint32_t)(b >> 32) ^ word[1] ^ key[0];
        word[1] = (uint32_t)b;
        word[2] = (uint32_t)(a >> 32) ^ word[3] ^ key[1];
        word[3] = (uint32_t)a;
        key[0] += 0x9e3779b9;
        key[1] += 0xbb67ae85;
    }
}

/* Of a block's two elements the one with that bit: as many high bits as its type can hold at 0.5
 * and up, over 2^bits: from 0 to below 1. */
static inline double td_uniform(const uint32_t word[4], int which, int bits)
{
    uint64_t all = (uint64_t)word[2 * which] << 32 | word[2 * which + 1];
    return (double)(all >> (64 - bits)) / (double)(UINT64_C(1) << bits);
}

#endif
