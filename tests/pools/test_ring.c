/* pools/ring.c: order, bound, reuse of cells, and many threads at both ends. */
#include "pools/ring.h"

#include "pools/pools.h"
#include "pools_test.h"

#include <pthread.h>

START_TEST(test_order_and_bound)
{
    struct td_ring ring;
    struct td_job jobs[4];
    ck_assert_int_eq(td_ring_init(&ring, 4), 0);
    ck_assert(!td_ring_ready(&ring));
    ck_assert_ptr_null(td_ring_take(&ring));
    for (int lap = 0; lap < 1000; lap++) {
        for (int i = 0; i < 4; i++)
            ck_assert(td_ring_put(&ring, &jobs[i]));
        ck_assert(!td_ring_put(&ring, &jobs[0]));
        ck_assert(td_ring_ready(&ring));
        for (int i = 0; i < 4; i++)
            ck_assert_ptr_eq(td_ring_take(&ring), &jobs[i]);
        ck_assert(!td_ring_ready(&ring));
        ck_assert_ptr_null(td_ring_take(&ring));
    }
    td_ring_fini(&ring);
}
END_TEST

#define PUTTERS 3
#define TAKERS 3
#define EACH 20000

static struct td_ring shared;
static struct td_job jobs[PUTTERS][EACH];
static atomic_int taken;

static void *put_all(void *arg)
{
    struct td_job *mine = arg;
    for (int i = 0; i < EACH; i++)
        while (!td_ring_put(&shared, &mine[i]))
            sched_yield();
    return NULL;
}

/* Counts each job in its `priority`, and that one putter's jobs come in their order. */
static void *take_all(void *arg)
{
    struct td_job *last[PUTTERS] = {0};
    long out_of_order = 0;
    while (atomic_load(&taken) < PUTTERS * EACH) {
        struct td_job *job = td_ring_take(&shared);
        if (!job) {
            sched_yield();
            continue;
        }
        atomic_fetch_add(&taken, 1);
        job->priority++;
        for (int p = 0; p < PUTTERS; p++)
            if (job >= jobs[p] && job < jobs[p] + EACH) {
                out_of_order += job < last[p];
                last[p] = job;
            }
    }
    *(long *)arg = out_of_order;
    return NULL;
}

START_TEST(test_many_threads)
{
    pthread_t putters[PUTTERS], takers[TAKERS];
    long out_of_order[TAKERS];
    ck_assert_int_eq(td_ring_init(&shared, 16), 0); /* small, so that it is full and empty often */
    for (int i = 0; i < TAKERS; i++)
        pthread_create(&takers[i], NULL, take_all, &out_of_order[i]);
    for (int i = 0; i < PUTTERS; i++)
        pthread_create(&putters[i], NULL, put_all, jobs[i]);
    for (int i = 0; i < PUTTERS; i++)
        pthread_join(putters[i], NULL);
    for (int i = 0; i < TAKERS; i++) {
        pthread_join(takers[i], NULL);
        ck_assert_int_eq(out_of_order[i], 0);
    }
    for (int p = 0; p < PUTTERS; p++)
        for (int i = 0; i < EACH; i++)
            ck_assert_int_eq(jobs[p][i].priority, 1); /* none lost, none doubled */
    td_ring_fini(&shared);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ring");
    TCase *tcase = tcase_create("ring");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, test_order_and_bound);
    tcase_add_test(tcase, test_many_threads);
    suite_add_tcase(suite, tcase);
    return td_test_run(suite);
}
