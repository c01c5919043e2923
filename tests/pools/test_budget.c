/* pools/memory/budget.c, and that arenas, kept blocks and queues take what they have from
 * td_memory. */
#include "pools/memory/buffer.h"
#include "pools_test.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static struct td_budget whole, part, other;

static void set_up(void)
{
    td_budget_init(&whole, NULL, 1 << 20, ENOMEM);
    td_budget_init(&part, &whole, 1 << 19, ENOSPC);
    td_budget_init(&other, &whole, SIZE_MAX, ENOBUFS);
    td_memory.limit = SIZE_MAX;
    td_memory.reserve = 0;
}

START_TEST(test_a_part_takes_from_the_whole)
{
    ck_assert_int_eq(td_budget_take(&part, 1 << 19), 0);
    ck_assert_uint_eq(whole.used, 1 << 19);
    ck_assert_int_eq(td_budget_take(&part, 1), -ENOSPC);
    ck_assert_uint_eq(whole.used, 1 << 19);
    ck_assert_int_eq(td_budget_take(&other, 1 << 19), 0);
    ck_assert_int_eq(td_budget_take(&other, 1), -ENOMEM); /* the whole's word, and nothing taken */
    ck_assert_uint_eq(other.used, 1 << 19);
    ck_assert_uint_eq(whole.refused, 1);
    td_budget_give(&part, 1 << 19);
    td_budget_give(&other, 1 << 19);
    ck_assert(!whole.used && !part.used && !other.used);
    ck_assert_uint_eq(whole.most, 1 << 20);
    ck_assert_int_eq(td_budget_take(&whole, SIZE_MAX), -ENOMEM);
    ck_assert_int_eq(td_budget_take(&other, SIZE_MAX), -ENOMEM);
}
END_TEST

START_TEST(test_the_reserve_is_for_small_ones)
{
    whole.reserve = 1 << 17;
    ck_assert_int_eq(td_budget_take(&whole, 7 << 17), 0);
    ck_assert_int_eq(td_budget_take(&whole, 1 << 16), -ENOMEM);
    ck_assert_int_eq(td_budget_take(&whole, (1 << 16) - 1), 0);
    ck_assert_int_eq(td_budget_take(&whole, (1 << 16) - 1), 0);
    ck_assert_int_eq(td_budget_take(&whole, 3), -ENOMEM);
    td_budget_force(&part, 100); /* beyond it, in both */
    ck_assert_uint_eq(whole.used, (1 << 20) + 98);
    ck_assert_uint_eq(part.used, 100);
    ck_assert_int_eq(td_budget_take(&whole, 1), -ENOMEM);
}
END_TEST

START_TEST(test_the_last_is_for_control)
{
    whole.reserve = 1 << 17;
    whole.control = 1 << 16;
    ck_assert_int_eq(td_budget_take(&whole, 7 << 17), 0);
    ck_assert_int_eq(td_budget_take(&whole, (1 << 16) - 1), 0);
    ck_assert_int_eq(td_budget_take(&whole, (1 << 16) - 1), -ENOMEM);
    ck_assert_int_eq(td_budget_take_favoured(&whole, (1 << 16) - 1), 0);
    ck_assert_int_eq(td_budget_take_favoured(&whole, 3), -ENOMEM);
}
END_TEST

static void relieve(void)
{
    td_budget_give(&whole, 1 << 19);
}

START_TEST(test_what_is_only_kept_goes_first)
{
    ck_assert_int_eq(td_budget_take(&whole, 1 << 20), 0);
    whole.relieve = relieve;
    ck_assert_int_eq(td_budget_take(&part, 1 << 19), 0);
    ck_assert_uint_eq(whole.refused, 0);
}
END_TEST

static void *take_and_give(void *arg)
{
    long held = 0, refused = 0;
    for (int i = 0; i < 100000; i++) {
        size_t bytes = (size_t)(i % 7 + 1) << 15;
        if (td_budget_take(arg, bytes)) {
            refused++;
            continue;
        }
        held += whole.used > (1 << 20);
        td_budget_give(arg, bytes);
    }
    return (void *)(held ? -1 : refused);
}

START_TEST(test_many_threads)
{
    pthread_t thread[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&thread[i], NULL, take_and_give, i % 2 ? &part : &whole);
    for (int i = 0; i < 8; i++) {
        void *result;
        pthread_join(thread[i], &result);
        ck_assert_int_ge((long)result, 0);
    }
    ck_assert(!whole.used && !part.used);
    ck_assert_uint_le(whole.most, 1 << 20);
    ck_assert_uint_le(part.most, 1 << 19);
}
END_TEST

START_TEST(test_arenas)
{
    struct td_machine machine; /* blocks that are kept go when memory is full only with pools */
    td_machine_init(&machine, NULL);
    size_t before = td_memory.used;
    td_memory.limit = before + (8 << 20);
    struct td_arena *arena = td_arena_create(), *second;
    ck_assert_ptr_nonnull(td_arena_alloc(arena, 3 << 20));
    ck_assert_uint_gt(td_memory.used, before + (3 << 20));
    ck_assert_ptr_nonnull(td_arena_alloc(arena, 3 << 20));
    ck_assert_ptr_null(td_arena_alloc(arena, 3 << 20));
    int small = 0;
    while (td_arena_alloc(arena, 60 << 10))
        small++;
    ck_assert_int_ge(small, 10);
    ck_assert_ptr_nonnull(second = td_arena_create()); /* a request can still be answered */
    ck_assert_ptr_nonnull(td_arena_alloc(second, 8000));
    td_arena_destroy(second);
    td_arena_destroy(arena);
    ck_assert_uint_ge(td_memory_kept(), 6 << 20);
    ck_assert_uint_ge(td_memory.used, before + td_memory_kept());
    arena = td_arena_create();
    ck_assert_ptr_nonnull(td_arena_alloc(arena, 7 << 20)); /* in place of those that were kept */
    ck_assert_uint_eq(td_memory_kept(), 0);
    ck_assert_uint_le(td_memory.used, td_memory.limit);
    arena = td_arena_reset(arena);
    td_buffers_trim(0);
    td_arena_destroy(arena);
    ck_assert_uint_eq(td_memory.used, before);
    td_machine_fini(&machine);
}
END_TEST

static int take_of_part(void *arg, size_t bytes)
{
    return td_budget_take(arg, bytes);
}

static void give_to_part(void *arg, size_t bytes)
{
    td_budget_give(arg, bytes);
}

/* What a model or a plan holds: small at first, and all of it counts, blocks too. */
START_TEST(test_arenas_that_stay)
{
    struct td_budget store;
    size_t before = td_memory.used;
    td_budget_init(&store, &td_memory, 4 << 20, ENOSPC);
    const struct td_arena_room room = {take_of_part, give_to_part, &store};
    struct td_arena *arena = td_arena_create_in(&room);
    ck_assert_ptr_nonnull(arena);
    ck_assert_uint_gt(store.used, 0);
    ck_assert_uint_le(store.used, 4 << 10);
    for (int i = 0; i < 100; i++)
        memset(td_arena_alloc(arena, 3000), 1, 3000);
    ck_assert_uint_gt(store.used, 300000);
    memset(td_arena_alloc(arena, 2 << 20), 1, 2 << 20);
    ck_assert_uint_gt(store.used, (2 << 20) + 300000);
    ck_assert_uint_eq(td_memory.used, before + store.used);
    ck_assert_ptr_null(td_arena_alloc(arena, 2 << 20));
    ck_assert_uint_le(td_memory.used, before + store.used + td_memory_kept() + 8192);
    td_arena_destroy(arena);
    ck_assert_uint_eq(store.used, 0);
    td_buffers_trim(0);
    ck_assert_uint_eq(td_memory.used, before);
    store.limit = 100;
    ck_assert_ptr_null(td_arena_create_in(&room));
    ck_assert_uint_eq(store.used, 0);
}
END_TEST

/* A request that may, where others may not. */
START_TEST(test_favoured_arenas)
{
    size_t before = td_memory.used;
    td_memory.limit = before + (2 << 20);
    td_memory.reserve = td_memory.control = 1 << 20;
    struct td_arena *full = td_arena_create(), *arena = td_arena_create();
    while (td_arena_alloc(full, 8000))
        ;
    ck_assert_ptr_null(td_arena_alloc(arena, 60000));
    td_arena_favour(arena);
    ck_assert_ptr_nonnull(td_arena_alloc(arena, 60000));
    ck_assert_ptr_nonnull(td_arena_alloc(arena, 600000));
    ck_assert_ptr_null(td_arena_alloc(arena, 600000));
    arena = td_arena_reset(arena);
    ck_assert_ptr_null(td_arena_alloc(arena, 60000));
    td_arena_destroy(arena);
    td_arena_destroy(full);
    td_buffers_trim(0);
    ck_assert_uint_eq(td_memory.used, before);
}
END_TEST

START_TEST(test_queues)
{
    struct td_machine machine;
    size_t before = td_memory.used;
    td_machine_init(&machine, NULL);
    td_memory.limit = before + (1 << 20);
    struct td_pool_config config = td_pool_config_default("deep");
    config.queue_depth = 100000;
    ck_assert_int_eq(td_pools_add(machine.pools, &config, machine.problem, sizeof machine.problem),
                     -ENOMEM);
    config.queue_depth = 100;
    ck_assert_int_eq(td_pools_add(machine.pools, &config, machine.problem, sizeof machine.problem),
                     0);
    ck_assert_uint_gt(td_memory.used, before);
    td_machine_fini(&machine);
    ck_assert_uint_eq(td_memory.used, before);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("budget");
    TCase *tcase = tcase_create("budget");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, set_up, NULL);
    tcase_add_test(tcase, test_a_part_takes_from_the_whole);
    tcase_add_test(tcase, test_the_reserve_is_for_small_ones);
    tcase_add_test(tcase, test_the_last_is_for_control);
    tcase_add_test(tcase, test_what_is_only_kept_goes_first);
    tcase_add_test(tcase, test_many_threads);
    tcase_add_test(tcase, test_arenas);
    tcase_add_test(tcase, test_arenas_that_stay);
    tcase_add_test(tcase, test_favoured_arenas);
    tcase_add_test(tcase, test_queues);
    suite_add_tcase(suite, tcase);
    return td_test_run(suite);
}
