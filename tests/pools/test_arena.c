/* pools/memory/arena.c and pools/memory/buffer.c: alignment, padding, what is kept and what is
 * given back. */
#include "pools/memory/buffer.h"
#include "pools_test.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const size_t sizes[] = {
    0, 1, 63, 64, 65, 4000, 4096, (64 << 10) - 1, 64 << 10, (1 << 20) + 7, 5 << 20, 17 << 20};
#define N_SIZES (sizeof sizes / sizeof *sizes)

static int all_are(const unsigned char *block, size_t bytes, int value)
{
    size_t equal = 0;
    for (size_t i = 0; i < bytes; i++)
        equal += block[i] == value;
    return equal == bytes;
}

START_TEST(test_alignment_and_padding)
{
    struct td_arena *arena = td_arena_create();
    unsigned char *blocks[N_SIZES];
    for (size_t i = 0; i < N_SIZES; i++) {
        blocks[i] = td_arena_alloc(arena, sizes[i]);
        ck_assert_ptr_nonnull(blocks[i]);
        ck_assert_uint_eq((uintptr_t)blocks[i] % 64, 0);
        memset(blocks[i], (int)i + 1, sizes[i]);
    }
    for (size_t i = 0; i < N_SIZES; i++) {
        ck_assert(all_are(blocks[i], sizes[i], (int)i + 1)); /* no two overlap */
        unsigned sum = 0;
        for (size_t k = 0; k < 64; k++) /* ASan and the kernel object if this is not ours */
            sum += blocks[i][sizes[i] + k];
        ck_assert_uint_le(sum, 64 * 255);
    }
    td_arena_destroy(arena);
    td_arena_destroy(NULL);
}
END_TEST

/* A load so many KiB behind a store waits for it. */
START_TEST(test_large_begin_alike)
{
    struct td_arena *arena = td_arena_create();
    static const size_t large[] = {4096, 100, 5000, 65535, 1, 65536, 1 << 20, 4095, 30000, 40000};
    uintptr_t first = (uintptr_t)td_arena_alloc(arena, 4097);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        char *block = td_arena_alloc(arena, large[i]);
        ck_assert_ptr_nonnull(block);
        memset(block, 1, large[i] + 64);
        ck_assert(large[i] < 4096 || !(((uintptr_t)block - first) % 4096));
    }
    td_arena_destroy(arena);
}
END_TEST

START_TEST(test_many_small)
{
    struct td_arena *arena = td_arena_create();
    char *texts[5000];
    for (int i = 0; i < 5000; i++)
        texts[i] = td_arena_printf(arena, "number %d", i);
    for (int i = 0; i < 5000; i++) {
        char want[32];
        snprintf(want, sizeof want, "number %d", i);
        ck_assert_str_eq(texts[i], want);
    }
    ck_assert_str_eq(td_arena_strdup(arena, "abcdef", 3), "abc");
    ck_assert_str_eq(td_arena_strdup(arena, "", 0), "");
    td_arena_destroy(arena);
}
END_TEST

START_TEST(test_zeroed)
{
    for (int round = 0; round < 3; round++) { /* from the second on it is recycled memory */
        struct td_arena *arena = td_arena_create();
        for (size_t i = 0; i < N_SIZES; i++) {
            unsigned char *block = td_arena_zalloc(arena, sizes[i]);
            ck_assert(all_are(block, sizes[i], 0));
            memset(block, 0xff, sizes[i]);
        }
        td_arena_destroy(arena);
    }
}
END_TEST

/* Whoever is last frees it, whichever holder that is; ASan tells when nobody does. */
START_TEST(test_several_holders)
{
    struct td_arena *arena = td_arena_create();
    char *text = td_arena_strdup(arena, "kept", 4);
    td_arena_ref(arena);
    td_arena_ref(arena);
    td_arena_destroy(arena);
    td_arena_destroy(arena);
    ck_assert_str_eq(text, "kept");
    ck_assert_ptr_nonnull(td_arena_alloc(arena, 1 << 20));
    td_arena_destroy(arena);
}
END_TEST

/* After a reset everything is there again, and nothing of before is kept. */
START_TEST(test_reset)
{
    struct td_arena *arena = td_arena_create_on(0);
    unsigned char *first = td_arena_alloc(arena, 100);
    for (int round = 0; round < 100; round++) {
        for (size_t i = 0; i < N_SIZES; i++)
            memset(td_arena_alloc(arena, sizes[i]), round, sizes[i]);
        td_arena_reset(arena);
        ck_assert_ptr_eq(td_arena_alloc(arena, 100), first);
    }
    size_t kept = td_memory_kept();
    td_arena_reset(arena);
    td_arena_reset(arena);
    ck_assert_uint_eq(td_memory_kept(), kept);
    td_arena_ref(arena); /* one that others hold is left to them */
    struct td_arena *other = td_arena_reset(arena);
    ck_assert_ptr_ne(other, arena);
    td_arena_destroy(other);
    td_arena_destroy(arena);
}
END_TEST

START_TEST(test_absurd_sizes)
{
    struct td_arena *arena = td_arena_create();
    ck_assert_ptr_null(td_arena_alloc(arena, ((size_t)1 << 47) + 1));
    ck_assert_ptr_null(td_arena_alloc(arena, SIZE_MAX));
    ck_assert_ptr_null(td_arena_zalloc(arena, SIZE_MAX - 63));
    ck_assert_ptr_null(td_arena_strdup(arena, "", SIZE_MAX));
    ck_assert_ptr_nonnull(td_arena_alloc(arena, 8)); /* still of use */
    td_arena_destroy(arena);
}
END_TEST

START_TEST(test_buffers_are_kept_within_a_bound)
{
    ck_assert_uint_eq(td_memory_kept(), 0);
    void *first = NULL;
    for (int round = 0; round < 4; round++) {
        struct td_arena *arena = td_arena_create();
        void *block = td_arena_alloc(arena, 3 << 20);
        ck_assert(!first || block == first); /* the same touched memory again */
        first = block;
        td_arena_destroy(arena);
        ck_assert_uint_ge(td_memory_kept(), 3 << 20);
    }
    struct td_arena *arena = td_arena_create();
    for (int i = 0; i < 40; i++)
        ck_assert_ptr_nonnull(td_arena_alloc(arena, 3 << 20));
    td_arena_destroy(arena);
    ck_assert_uint_le(td_memory_kept(), 32 << 20);
    ck_assert_uint_ge(td_memory_kept(), 24 << 20);

    arena = td_arena_create();
    ck_assert_ptr_nonnull(td_arena_alloc(arena, 100 << 20));
    td_arena_destroy(arena); /* larger than the bound: never kept */
    ck_assert_uint_le(td_memory_kept(), 32 << 20);
    td_buffers_trim(INT64_C(3600000000000));
    ck_assert_uint_gt(td_memory_kept(), 0);
    td_buffers_trim(0);
    ck_assert_uint_eq(td_memory_kept(), 0);
}
END_TEST

/* What is only announced is not taken; what has come is, and at most as much again, 4 MiB, and a
 * huge page. */
START_TEST(test_reserved)
{
    static const size_t big[] = {64 << 10, 450000, (2 << 20) - 100, 2 << 20, 9 << 20, 100 << 20};
    for (size_t i = 0; i < sizeof big / sizeof *big; i++) {
        struct td_arena *arena = td_arena_create();
        size_t before = td_memory.used, limit = td_memory.limit, most = 0;
        unsigned char *block = td_arena_reserve(arena, big[i]), *at = block;
        ck_assert_ptr_nonnull(block);
        ck_assert_uint_eq((uintptr_t)block % 64, 0);
        ck_assert_uint_le(td_memory.used - before, 4096);
        td_memory.limit = td_memory.used;
        ck_assert_int_eq(td_arena_fill(arena, block, big[i]), -ENOMEM);
        td_memory.limit = limit;
        for (size_t n = 1; n < big[i]; n += n < 100000 ? 9000 : big[i] / 9) {
            ck_assert_int_eq(td_arena_fill(arena, block, n), 0);
            memset(at, 7, n - (size_t)(at - block));
            at = block + n;
            ck_assert_uint_ge(td_memory.used - before, n);
            size_t ahead = n < 4 << 20 ? n : 4 << 20;
            ck_assert_uint_le(td_memory.used - before,
                              n + ahead + (n < 1 << 20 ? 20 << 10 : 2 << 20));
            most = n;
        }
        ck_assert_int_eq(td_arena_fill(arena, block, big[i]), 0);
        memset(at, 7, big[i] - most);
        ck_assert(all_are(block, big[i], 7));
        td_arena_drop(arena, block);
        ck_assert_ptr_nonnull(td_arena_alloc(arena, big[i])); /* in whole, or another one */
        td_arena_destroy(arena);
        td_buffers_trim(0);
        ck_assert_uint_eq(td_memory.used, before - TD_ARENA_FIRST);
    }
    struct td_arena *arena = td_arena_create(); /* a small one is the arena's own */
    unsigned char *small = td_arena_reserve(arena, 1000);
    ck_assert_int_eq(td_arena_fill(arena, small, 1000), 0);
    memset(small, 1, 1000);
    td_arena_drop(arena, small);
    td_arena_destroy(arena);
}
END_TEST

static void *churn(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < 300; i++) {
        struct td_arena *arena = td_arena_create();
        size_t bytes = (size_t)(rand_r(&seed) % 400) << 10;
        unsigned char *a = td_arena_alloc(arena, bytes + 1), *b = td_arena_alloc(arena, bytes + 1);
        memset(a, i, bytes + 1);
        memset(b, i + 1, bytes + 1);
        if (a[bytes] != (unsigned char)i || a[0] != (unsigned char)i)
            return arg;
        td_arena_destroy(arena);
    }
    return NULL;
}

START_TEST(test_many_threads)
{
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
    for (int i = 0; i < 4; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        ck_assert_ptr_null(bad);
    }
}
END_TEST

/* RT-7: with several nodes, a block is used again by its own node's requests only. */
START_TEST(test_nodes_do_not_share_buffers)
{
    struct td_machine machine;
    td_machine_init(&machine, "package:2 [numa] core:4 pu:1");
    void *on[2];
    for (int node = 0; node < 2; node++) {
        struct td_arena *arena = td_arena_create_on(node);
        on[node] = td_arena_alloc(arena, 1 << 20);
        ck_assert_ptr_nonnull(on[node]);
        td_arena_destroy(arena);
    }
    ck_assert_ptr_ne(on[0], on[1]);
    for (int node = 0; node < 2; node++) {
        struct td_arena *arena = td_arena_create_on(node);
        ck_assert_ptr_eq(td_arena_alloc(arena, 1 << 20), on[node]);
        ck_assert_ptr_nonnull(td_arena_alloc(arena, 1 << 20));
        td_arena_destroy(arena);
    }
    td_machine_fini(&machine);
    ck_assert_uint_eq(td_memory_kept(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arena");
    TCase *tcase = tcase_create("arena");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, test_alignment_and_padding);
    tcase_add_test(tcase, test_large_begin_alike);
    tcase_add_test(tcase, test_many_small);
    tcase_add_test(tcase, test_zeroed);
    tcase_add_test(tcase, test_several_holders);
    tcase_add_test(tcase, test_reset);
    tcase_add_test(tcase, test_absurd_sizes);
    tcase_add_test(tcase, test_buffers_are_kept_within_a_bound);
    tcase_add_test(tcase, test_reserved);
    tcase_add_test(tcase, test_many_threads);
    tcase_add_test(tcase, test_nodes_do_not_share_buffers);
    suite_add_tcase(suite, tcase);
    return td_test_run(suite);
}
