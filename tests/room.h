/* Memory and random numbers for tests that make many calls. */
#ifndef TD_TESTS_ROOM_H
#define TD_TESTS_ROOM_H

#include "tests/run_tests.h"

#include <stdint.h>

static size_t room_used; /* 0 takes all back */

/* 64-byte aligned memory: struct td_options.alloc. */
static inline void *room(void *arg, size_t bytes)
{
    static _Alignas(64) char all[16 << 20]; /* a test is a process of its own */
    size_t before = room_used;
    (void)arg;
    room_used += (bytes + 63) & ~(size_t)63;
    ck_assert_uint_le(room_used, sizeof all);
    return all + before;
}

static uint32_t draw_seed = 1;

/* A random number below n. */
static inline uint32_t draw(uint32_t n)
{
    draw_seed = draw_seed * 1664525 + 1013904223;
    return (draw_seed >> 8) % n;
}

#endif
