/* Runs of elements in reverse order, 16 bytes at a time: several short runs by one shuffle, or
 * pieces of a longer one from its end. From AVX2 on, which has shuffles of bytes. */
#ifndef TD_KERNELS_MOVE_REVERSE_H
#define TD_KERNELS_MOVE_REVERSE_H

#include "kernels/vec.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define TD_REVERSE_MOST 256 /* bytes of a run; beyond it wider vectors are faster */

typedef uint8_t td_bytes __attribute__((vector_size(16)));

/* For each byte that is written, which one of the 16 that are read it is: of runs of `run` bytes,
 * of elements of `size`. Those behind the last whole run stay. */
static inline td_bytes td_reverse_mask(int run, int size)
{
    td_bytes mask = {0};
    for (int i = 0; i < 16; i++) {
        int at = i % run;
        mask[i] =
            (uint8_t)(i - at < 16 / run * run ? i - at + run - size - at + 2 * (at % size) : i);
    }
    return mask;
}

static inline void td_reverse_16(char *to, const char *from, td_bytes mask)
{
    td_bytes v;
    memcpy(&v, from, sizeof v);
    v = __builtin_shuffle(v, mask);
    memcpy(to, &v, sizeof v);
}

/* n runs of `bytes` each, which lie to_step and from_step bytes apart; from: the first byte of the
 * first one. The result is how many of them are done, from the first one on: 0 where they are too
 * long, or short and not side by side. */
static inline int64_t td_reverse_runs(char *to, int64_t to_step, const char *from,
                                      int64_t from_step, int64_t n, int64_t bytes, int size)
{
    if (TD_VBYTES < 32 || bytes > TD_REVERSE_MOST)
        return 0;
    if (bytes < 16 && (to_step != bytes || from_step != bytes))
        return 0;
    td_bytes mask = td_reverse_mask(bytes < 16 ? (int)bytes : 16, size);
    if (bytes < 16) { /* a store goes over the next runs, which are written later */
        int64_t at_once = 16 / bytes, i = 0;
        for (; (n - i) * bytes >= 16; i += at_once)
            td_reverse_16(to + i * bytes, from + i * bytes, mask);
        return i;
    }
    for (int64_t i = 0; i < n; i++, to += to_step, from += from_step) {
        const char *end = from + bytes - 16;
        for (int64_t at = 0; at + 16 <= bytes; at += 16)
            td_reverse_16(to + at, end - at, mask);
        if (bytes % 16)
            td_reverse_16(to + bytes - 16, from, mask);
    }
    return n;
}

#endif
