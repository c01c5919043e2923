/* Numbers by chance that follow from a seed and their place alone. */
#ifndef TD_KERNELS_CHANCE_H
#define TD_KERNELS_CHANCE_H

#include <stdint.h>

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

/* Of a block's two elements the one with that bit. */
static inline uint64_t td_philox_word(const uint32_t word[4], int which)
{
    return (uint64_t)word[2 * which] << 32 | word[2 * which + 1];
}

/* So many high bits over 2^bits: from 0 to below 1. */
static inline double td_uniform(uint64_t all, int bits)
{
    return (double)(all >> (64 - bits)) / (double)(UINT64_C(1) << bits);
}

#endif
