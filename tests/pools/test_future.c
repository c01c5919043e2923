/* pools/future.c: calls on a pool and their futures, without HTTP. */
#include "futures_test.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- softmax on 100 x 8276, which the original's sample does not return ---- */

#define ROWS 100
#define COLUMNS 8276

struct softmax { /* input shared, output in place or not */
    const float *x;
    float *y;
};

static void softmax(const float *x, float *y)
{
    for (int r = 0; r < ROWS; r++) {
        const float *from = x + r * COLUMNS;
        float *to = y + r * COLUMNS, max = from[0];
        double sum = 0;
        for (int i = 1; i < COLUMNS; i++)
            max = from[i] > max ? from[i] : max;
        for (int i = 0; i < COLUMNS; i++)
            sum += to[i] = expf(from[i] - max);
        for (int i = 0; i < COLUMNS; i++)
            to[i] = (float)(to[i] / sum);
    }
}

static int run_softmax(void *args, struct td_worker *worker, char *problem, size_t size)
{
    struct softmax *s = args;
    (void)worker, (void)problem, (void)size;
    softmax(s->x, s->y);
    return 0;
}

/* RT-14, RT-15, RT-22: one input for two futures on two pools, one of them in place after.
 */
START_TEST(test_softmax)
{
    size_t bytes = ROWS * COLUMNS * sizeof(float);
    float *x = malloc(bytes), *want = malloc(bytes), *y1 = malloc(bytes), *y2 = malloc(bytes);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = (float)(i % 997 * 7919 % 1000) / 100;
    softmax(x, want);
    struct td_future *t1 =
        td_test_submit(a, run_softmax, &(struct softmax){x, y1}, sizeof(struct softmax));
    struct td_future *t2 =
        td_test_submit(b, run_softmax, &(struct softmax){x, y2}, sizeof(struct softmax));
    ck_assert_int_eq(td_test_result(t1), 0);
    ck_assert_int_eq(td_test_result(t2), 0);
    ck_assert(!memcmp(y1, want, bytes) && !memcmp(y2, want, bytes));
    td_future_unref(t1);
    td_future_unref(t2);
    t1 = td_test_submit(a, run_softmax, &(struct softmax){x, x}, sizeof(struct softmax));
    ck_assert_int_eq(td_test_result(t1), 0);
    ck_assert(!memcmp(x, want, bytes));
    td_future_unref(t1);
    free(x);
    free(want);
    free(y1);
    free(y2);
}
END_TEST

/* Each of two futures ends only when it has seen the other run. */
struct meet {
    atomic_int *mine, *other;
};

static int run_meet(void *args, struct td_worker *worker, char *problem, size_t size)
{
    struct meet *meet = args;
    (void)worker, (void)problem, (void)size;
    atomic_store(meet->mine, 1);
    while (!atomic_load(meet->other))
        sched_yield();
    return 0;
}

/* RT-16 */
START_TEST(test_two_pools_at_the_same_time)
{
    atomic_int x = 0, y = 0;
    struct td_future *t1 = td_test_submit(a, run_meet, &(struct meet){&x, &y}, sizeof(struct meet));
    struct td_future *t2 = td_test_submit(b, run_meet, &(struct meet){&y, &x}, sizeof(struct meet));
    ck_assert_int_eq(td_test_result(t1), 0);
    ck_assert_int_eq(td_test_result(t2), 0);
    td_future_unref(t1);
    td_future_unref(t2);
}
END_TEST

/* 100 submissions of one function under way, each with data of its own, and several results. */
struct numbers {
    int values[500];
    long sum, max;
};

static int run_numbers(void *args, struct td_worker *worker, char *problem, size_t size)
{
    struct numbers *numbers = args;
    (void)worker, (void)problem, (void)size;
    for (int i = 0; i < 500; i++) {
        numbers->sum += numbers->values[i];
        numbers->max = numbers->values[i] > numbers->max ? numbers->values[i] : numbers->max;
    }
    return 0;
}

/* RT-21, RT-22 */
START_TEST(test_overlapping_submissions)
{
    struct td_future *futures[100];
    struct numbers numbers; /* one storage, overwritten for each submission */
    for (int i = 0; i < 100; i++) {
        memset(&numbers, 0, sizeof numbers);
        for (int k = 0; k < 500; k++)
            numbers.values[k] = i * 1000 + k;
        futures[i] = td_test_submit(i % 2 ? a : b, run_numbers, &numbers, sizeof numbers);
    }
    memset(&numbers, 0xff, sizeof numbers);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(td_test_result(futures[i]), 0);
        const struct numbers *got = td_future_args(futures[i]);
        ck_assert_uint_eq((uintptr_t)got % 64, 0);
        ck_assert_int_eq(got->sum, 500L * i * 1000 + 499 * 250);
        ck_assert_int_eq(got->max, i * 1000 + 499);
        td_future_unref(futures[i]);
    }
}
END_TEST

/* What went wrong arrives at the wait, with its sentence, and as often as one asks. */
static int run_failing(void *args, struct td_worker *worker, char *problem, size_t size)
{
    (void)worker;
    snprintf(problem, size, "no value %d", *(int *)args);
    return -EDOM;
}

/* RT-19 */
START_TEST(test_errors)
{
    struct td_future *future = td_test_submit(a, run_failing, &(int){7}, sizeof(int));
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(td_test_result(future), -EDOM);
        ck_assert_str_eq(td_future_problem(future), "no value 7");
    }
    td_future_unref(future);
    td_future_unref(NULL);
}
END_TEST

/* A future that holds its worker until it is let go. */
struct gate {
    atomic_int *entered, *open;
};

static int run_gate(void *args, struct td_worker *worker, char *problem, size_t size)
{
    struct gate *gate = args;
    (void)worker, (void)problem, (void)size;
    atomic_store(gate->entered, 1);
    while (!atomic_load(gate->open))
        usleep(200);
    return 0;
}

static atomic_int entered, open_;

static struct td_future *close_gate(struct td_pool *pool)
{
    atomic_store(&entered, 0);
    atomic_store(&open_, 0);
    struct td_future *future =
        td_test_submit(pool, run_gate, &(struct gate){&entered, &open_}, sizeof(struct gate));
    while (!atomic_load(&entered))
        usleep(200);
    return future;
}

static atomic_int frees;

static void count_free(void *args)
{
    free(*(void **)args);
    atomic_fetch_add(&frees, 1);
}

static int run_owning(void *args, struct td_worker *worker, char *problem, size_t size)
{
    (void)worker, (void)problem, (void)size;
    return **(int **)args;
}

static struct td_future_config owning(int value)
{
    static int *argument;
    argument = malloc(sizeof(int));
    *argument = value;
    return (struct td_future_config){
        .run = run_owning, .args = &argument, .args_bytes = sizeof argument, .fini = count_free};
}

START_TEST(test_timeouts_and_ownership)
{
    struct td_future *gate = close_gate(a), *late, *run;
    struct td_future_config config = owning(2);
    int result = 1;
    config.deadline_ns = td_now_ns() + 1000;
    ck_assert_int_eq(td_future_submit(&late, a, &config), 0);
    config = owning(3);
    ck_assert_int_eq(td_future_submit(&run, a, &config), 0);

    ck_assert_int_eq(td_future_wait(run, 0, &result), -ETIMEDOUT);
    ck_assert_int_eq(td_future_wait(run, 2000000, &result), -ETIMEDOUT);
    atomic_store(&open_, 1);
    ck_assert_int_eq(td_test_result(late), -ETIMEDOUT);
    ck_assert_ptr_nonnull(strstr(td_future_problem(late), "deadline"));
    ck_assert_int_eq(td_test_result(run), 3);
    td_future_unref(gate);
    td_future_unref(late);
    td_future_unref(run);
    for (int i = 0; i < 10000 && atomic_load(&frees) < 2; i++)
        usleep(200); /* the queue's references */
    ck_assert_int_eq(atomic_load(&frees), 2);
}
END_TEST

/* RT-18: accepted futures run although the pool is stopped and nobody waits for them; then no more.
 */
START_TEST(test_stop)
{
    struct td_future *gate = close_gate(a), *future, *none;
    struct td_future_config config = owning(5);
    ck_assert_int_eq(td_future_submit(&future, a, &config), 0);
    config = owning(6);
    ck_assert_int_eq(td_future_submit(&none, b, &config), 0);
    td_future_unref(none);
    atomic_store(&open_, 1);
    td_pools_destroy(machine.pools);
    ck_assert_int_eq(td_test_result(future), 5);
    config = owning(7);
    ck_assert_int_eq(td_future_submit(&none, a, &config), -ESHUTDOWN);
    free(*(void *const *)config.args); /* refused: still ours */
    td_future_unref(future);
    td_future_unref(gate);
    ck_assert_int_eq(atomic_load(&frees), 2);
    ck_assert_int_eq(td_pools_create(&machine.pools, machine.topology), 0);
}
END_TEST

/* Two waiters and the worker at the same future, many times. */
static void *wait_too(void *arg)
{
    int result;
    td_future_wait(arg, -1, &result);
    return NULL;
}

START_TEST(test_races)
{
    for (int i = 0; i < 300; i++) {
        struct td_future_config config = owning(9);
        struct td_future *future;
        pthread_t thread;
        ck_assert_int_eq(td_future_submit(&future, i % 2 ? a : b, &config), 0);
        pthread_create(&thread, NULL, wait_too, future);
        int result;
        ck_assert_int_eq(td_future_wait(future, -1, &result), 0);
        ck_assert_int_eq(result, 9);
        pthread_join(thread, NULL);
        td_future_unref(future);
    }
    for (int i = 0; i < 10000 && atomic_load(&frees) < 300; i++)
        usleep(200);
    ck_assert_int_eq(atomic_load(&frees), 300);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("future");
    TCase *tcase = tcase_create("future");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_softmax);
    tcase_add_test(tcase, test_two_pools_at_the_same_time);
    tcase_add_test(tcase, test_overlapping_submissions);
    tcase_add_test(tcase, test_errors);
    tcase_add_test(tcase, test_timeouts_and_ownership);
    tcase_add_test(tcase, test_stop);
    tcase_add_test(tcase, test_races);
    suite_add_tcase(suite, tcase);
    return td_test_run(suite);
}
