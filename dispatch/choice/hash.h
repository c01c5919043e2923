/* Hashes of calls: the keys of measurements. Internal to dispatch/. */
#ifndef TD_DISPATCH_HASH_H
#define TD_DISPATCH_HASH_H

#include "kernels/kernels.h"

static inline uint64_t td_hash(uint64_t h, uint64_t x)
{
    __uint128_t wide = (__uint128_t)(h ^ x) * 0xa0761d6478bd642fu;
    return (uint64_t)wide ^ (uint64_t)(wide >> 64) ^ (h << 7);
}

/* Adds a value to the hash: types, shapes, numbers and texts, but no elements of tensors. */
uint64_t td_hash_value(uint64_t h, const struct td_value *v);

#endif
