/* A hash of bytes, FNV-1a: for tables of this process. */
#ifndef TD_KERNELS_HASH_H
#define TD_KERNELS_HASH_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t td_hash_bytes(const void *bytes, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    return h;
}

#endif
