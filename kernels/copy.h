/* Copying runs of bytes that are many and short. Include only from files built once per level. */
#ifndef TD_KERNELS_COPY_H
#define TD_KERNELS_COPY_H

#include "kernels/vec.h"

#define TD_COPY_PART 64                   /* bytes that are copied at a time */
#define TD_COPY_SHORT (16 * TD_COPY_PART) /* a run, for which a call of memcpy takes long */

/* At least n bytes and at most 2n: the last n of them are copied again where both parts meet. */
#define TD_COPY_TWICE(n)                                                                           \
    do {                                                                                           \
        char first[n], last[n];                                                                    \
        memcpy(first, from, n);                                                                    \
        memcpy(last, from + bytes - (n), n);                                                       \
        memcpy(to, first, n);                                                                      \
        memcpy(to + bytes - (n), last, n);                                                         \
    } while (0)

/* Whether addresses differ by less than a line, but for whole pages: the string instruction, which
 * memcpy takes for up to about 1 MB, is ten times as slow then. */
TD_INLINE bool td_copy_collides(const char *to, const char *from, int64_t bytes)
{
    return ((uintptr_t)to - (uintptr_t)from) % 4096 - 1 < TD_COPY_PART - 1 && bytes < 1 << 20;
}

static __attribute__((noinline, unused)) void td_copy_long(char *to, const char *from,
                                                           int64_t bytes)
{
    if (!td_copy_collides(to, from, bytes)) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    for (int64_t i = 0; i < bytes - TD_COPY_PART; i += TD_COPY_PART)
        memcpy(to + i, from + i, TD_COPY_PART);
    memcpy(to + bytes - TD_COPY_PART, from + bytes - TD_COPY_PART, TD_COPY_PART);
}

/* A run of any length, apart from where it goes. */
TD_INLINE void td_copy_run(char *to, const char *from, int64_t bytes)
{
    if (bytes > TD_COPY_SHORT) {
        td_copy_long(to, from, bytes);
    } else if (bytes >= TD_COPY_PART) {
        for (int64_t i = 0; i < bytes - TD_COPY_PART; i += TD_COPY_PART)
            memcpy(to + i, from + i, TD_COPY_PART);
        memcpy(to + bytes - TD_COPY_PART, from + bytes - TD_COPY_PART, TD_COPY_PART);
    } else if (bytes >= 32) {
        TD_COPY_TWICE(32);
    } else if (bytes >= 16) {
        TD_COPY_TWICE(16);
    } else if (bytes >= 8) {
        TD_COPY_TWICE(8);
    } else if (bytes >= 4) {
        TD_COPY_TWICE(4);
    } else {
        for (int64_t i = 0; i < bytes; i++)
            to[i] = from[i];
    }
}

/* n runs of 2 to 16 bytes each, by loops that know how many; false: they are others. */
TD_INLINE bool td_copy_brief(char *to, int64_t to_step, const char *from, int64_t from_step,
                             int64_t n, int64_t bytes)
{
#define TD_COPY_BRIEF(size)                                                                        \
    case size:                                                                                     \
        for (; n > 0; n--, from += from_step, to += to_step)                                       \
            memcpy(to, from, size);                                                                \
        return true;
    switch (bytes) {
        TD_COPY_BRIEF(2)
        TD_COPY_BRIEF(3)
        TD_COPY_BRIEF(4)
        TD_COPY_BRIEF(5)
        TD_COPY_BRIEF(6)
        TD_COPY_BRIEF(7)
        TD_COPY_BRIEF(8)
        TD_COPY_BRIEF(9)
        TD_COPY_BRIEF(10)
        TD_COPY_BRIEF(11)
        TD_COPY_BRIEF(12)
        TD_COPY_BRIEF(13)
        TD_COPY_BRIEF(14)
        TD_COPY_BRIEF(15)
        TD_COPY_BRIEF(16)
    default:
        return false;
    }
#undef TD_COPY_BRIEF
}

#endif
