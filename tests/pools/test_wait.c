/* pools/future.c: a worker that waits for a future, and waits that could never end. */
#include "futures_test.h"

#include <errno.h>
#include <stdio.h>

struct inner {
    struct td_pool *pool, *next; /* next: where the inner future submits one itself */
    int result;
};

static int run_and_wait(void *args, struct td_worker *worker, char *problem, size_t size)
{
    struct inner *inner = args, below = {inner->next, NULL, 0};
    struct td_future *future;
    (void)worker, (void)problem, (void)size;
    if (!inner->pool)
        return 42;
    struct td_future_config config = {run_and_wait, &below, sizeof below, NULL, 0, 0};
    int error = td_future_submit(&future, inner->pool, &config);
    if (error)
        return error;
    error = td_future_wait(future, -1, &inner->result);
    td_future_unref(future);
    return error ? error : inner->result;
}

/* RT-23 */
START_TEST(test_self_wait)
{
    struct td_future *future =
        td_test_submit(a, run_and_wait, &(struct inner){a, NULL, 0}, sizeof(struct inner));
    ck_assert_int_eq(td_test_result(future), -EDEADLK);
    td_future_unref(future);
    future = td_test_submit(a, run_and_wait, &(struct inner){b, NULL, 0}, sizeof(struct inner));
    ck_assert_int_eq(td_test_result(future), 42); /* another pool: no harm */
    td_future_unref(future);
    future = td_test_submit(a, run_and_wait, &(struct inner){b, a, 0}, sizeof(struct inner));
    ck_assert_int_eq(td_test_result(future), -EDEADLK); /* a waits for b, which waits for a */
    td_future_unref(future);
}
END_TEST

/* With a second worker somebody can run it; three levels need three. */
START_TEST(test_wait_in_a_pool_of_two)
{
    struct td_pool *two = td_machine_pool(&machine, "two=:streams=2");
    struct td_pool_stats stats;
    td_pool_stats(two, &stats);
    if (stats.config.streams == 2) {
        struct td_future *future =
            td_test_submit(two, run_and_wait, &(struct inner){two, NULL, 0}, sizeof(struct inner));
        ck_assert_int_eq(td_test_result(future), 42);
        td_future_unref(future);
        future =
            td_test_submit(two, run_and_wait, &(struct inner){two, two, 0}, sizeof(struct inner));
        ck_assert_int_eq(td_test_result(future), -EDEADLK);
        td_future_unref(future);
    }
    td_pool_unref(two);
}
END_TEST

static int run_nothing(void *args, struct td_worker *worker, char *problem, size_t size)
{
    (void)args, (void)worker, (void)problem, (void)size;
    return 0;
}

static int run_timed_wait(void *args, struct td_worker *worker, char *problem, size_t size)
{
    struct td_future *future;
    struct td_future_config config = {run_nothing, NULL, 0, NULL, 0, 0};
    int result, error = td_future_submit(&future, td_worker_pool(worker), &config);
    (void)args, (void)problem, (void)size;
    if (!error)
        error = td_future_wait(future, 3000000, &result);
    td_future_unref(future);
    return error;
}

START_TEST(test_a_timed_wait_ends)
{
    struct td_future *future = td_test_submit(a, run_timed_wait, NULL, 0);
    ck_assert_int_eq(td_test_result(future), -ETIMEDOUT);
    td_future_unref(future);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wait");
    TCase *tcase = tcase_create("wait");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, test_self_wait);
    tcase_add_test(tcase, test_wait_in_a_pool_of_two);
    tcase_add_test(tcase, test_a_timed_wait_ends);
    suite_add_tcase(suite, tcase);
    return td_test_run(suite);
}
