/* pools/pool.c: what a pool promises about jobs, whatever they compute. */
#include "pools/memory/buffer.h"
#include "pools_test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct note { /* a job that says when it ran */
    struct td_job job;
    atomic_int *clock, *done;
    int order;
    int64_t sleep_us;
};

static void run_note(struct td_job *job, struct td_worker *worker)
{
    struct note *note = (struct note *)job;
    (void)worker;
    if (note->sleep_us)
        usleep(note->sleep_us);
    note->order = note->clock ? atomic_fetch_add(note->clock, 1) : 0;
    if (note->done)
        atomic_fetch_add(note->done, 1);
}

static void await(atomic_int *value, int wanted)
{
    for (int i = 0; i < 20000 && atomic_load(value) < wanted; i++)
        usleep(500);
    ck_assert_int_eq(atomic_load(value), wanted);
}

/* A job that holds the worker until it is let go. */
struct gate {
    struct td_job job;
    atomic_int entered, open;
};

static void run_gate(struct td_job *job, struct td_worker *worker)
{
    struct gate *gate = (struct gate *)job;
    (void)worker;
    atomic_store(&gate->entered, 1);
    while (!atomic_load(&gate->open))
        usleep(200);
}

static void close_gate(struct td_pool *pool, struct gate *gate)
{
    *gate = (struct gate){.job.run = run_gate};
    ck_assert_int_eq(td_pool_submit(pool, &gate->job), 0);
    await(&gate->entered, 1);
}

static struct td_machine machine;

static void set_up(void)
{
    td_machine_init(&machine, NULL);
}

static void tear_down(void)
{
    td_machine_fini(&machine);
}

/* RT-17: one queue for whoever submits, first come first served, the worker asleep in between. */
START_TEST(test_jobs_run_in_order_and_are_counted)
{
    struct td_pool *pool = td_machine_pool(&machine, "a=:threads=1");
    atomic_int clock = 0, done = 0;
    struct note notes[100];
    for (int i = 0; i < 100; i++) {
        notes[i] = (struct note){.job.run = run_note, .clock = &clock, .done = &done};
        ck_assert_int_eq(td_pool_submit(pool, &notes[i].job), 0);
    }
    await(&done, 100);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(notes[i].order, i);
        ck_assert_int_ge(notes[i].job.started_ns, notes[i].job.submitted_ns);
        ck_assert(!notes[i].job.late);
    }
    struct td_pool_stats stats;
    for (int i = 0; i < 2000; i++) { /* the last one counts itself after it has run */
        td_pool_stats(pool, &stats);
        if (stats.done == 100 && !stats.running)
            break;
        usleep(500);
    }
    ck_assert_int_eq(stats.done, 100);
    ck_assert_int_eq(stats.depth, 0);
    ck_assert_int_eq(stats.running, 0);
    ck_assert_int_eq(stats.rejected, 0);
    ck_assert_int_gt(stats.busy_ns, 0);
    td_pool_unref(pool);
}
END_TEST

START_TEST(test_larger_priority_first)
{
    struct td_pool *pool = td_machine_pool(&machine, "a=:threads=1");
    static const int priorities[] = {0, -1, 5, 0, 1, -9, 3, 2, 1};
    static const int order[] = {5, 7, 0, 6, 3, 8, 1, 2, 4}; /* 5 and 3 are of one class */
    struct gate gate;
    close_gate(pool, &gate);
    atomic_int clock = 0, done = 0;
    struct note notes[9];
    for (int i = 0; i < 9; i++) {
        notes[i] = (struct note){
            .job = {.run = run_note, .priority = priorities[i]}, .clock = &clock, .done = &done};
        ck_assert_int_eq(td_pool_submit(pool, &notes[i].job), 0);
    }
    struct td_pool_stats stats;
    td_pool_stats(pool, &stats);
    ck_assert_int_eq(stats.depth, 9);
    ck_assert_int_eq(stats.running, 1);
    atomic_store(&gate.open, 1);
    await(&done, 9);
    for (int i = 0; i < 9; i++)
        ck_assert_int_eq(notes[i].order, order[i]);
    td_pool_unref(pool);
}
END_TEST

START_TEST(test_a_full_queue_refuses)
{
    struct td_pool *pool = td_machine_pool(&machine, "a=:threads=1:queue_depth=3");
    struct gate gate;
    close_gate(pool, &gate);
    atomic_int done = 0;
    struct note notes[5];
    for (int i = 0; i < 5; i++) {
        notes[i] = (struct note){.job = {.run = run_note, .priority = i - 2}, .done = &done};
        ck_assert_int_eq(td_pool_submit(pool, &notes[i].job), i < 3 ? 0 : -EAGAIN);
    }
    struct td_pool_stats stats;
    td_pool_stats(pool, &stats);
    ck_assert_int_eq(stats.rejected, 2);
    ck_assert_int_eq(stats.depth, 3);
    atomic_store(&gate.open, 1);
    await(&done, 3);
    ck_assert_int_eq(td_pool_submit(pool, &notes[4].job), 0); /* there is room again */
    await(&done, 4);
    td_pool_unref(pool);
}
END_TEST

START_TEST(test_late_jobs_are_told)
{
    struct td_pool *pool = td_machine_pool(&machine, "a=:threads=1");
    struct gate gate;
    close_gate(pool, &gate);
    atomic_int done = 0;
    struct note late = {.job = {.run = run_note, .deadline_ns = td_now_ns() + 1000}, .done = &done};
    struct note soon = {.job = {.run = run_note, .deadline_ns = td_now_ns() + INT64_C(60000000000)},
                        .done = &done};
    ck_assert_int_eq(td_pool_submit(pool, &late.job), 0);
    ck_assert_int_eq(td_pool_submit(pool, &soon.job), 0);
    usleep(2000);
    atomic_store(&gate.open, 1);
    await(&done, 2);
    ck_assert(late.job.late);
    ck_assert(!soon.job.late);
    struct td_pool_stats stats;
    td_pool_stats(pool, &stats);
    ck_assert_int_eq(stats.late, 1);
    td_pool_unref(pool);
}
END_TEST

static void run_freeing(struct td_job *job, struct td_worker *worker)
{
    (void)worker;
    free(job); /* ASan tells when the pool looks at it afterwards */
}

#define SUBMITTERS 4
#define EACH 3000

static void *submit_many(void *arg)
{
    struct td_pool *pool = arg;
    for (int i = 0; i < EACH; i++) {
        struct td_job *job = calloc(1, sizeof *job);
        job->run = run_freeing;
        job->priority = i % 3 - 1;
        while (td_pool_submit(pool, job) == -EAGAIN)
            sched_yield();
    }
    return NULL;
}

/* Every wake-up counts here: a lost one leaves the test hanging. */
START_TEST(test_many_submitters)
{
    static const char *const texts[] = {"a=:threads=1:queue_depth=8", "a=:streams=2:queue_depth=64",
                                        "a=:streams=2:queue_depth=64:spin_us=20"};
    struct td_pool *pool = td_machine_pool(&machine, texts[_i]);
    pthread_t threads[SUBMITTERS];
    for (int i = 0; i < SUBMITTERS; i++)
        pthread_create(&threads[i], NULL, submit_many, pool);
    for (int i = 0; i < SUBMITTERS; i++)
        pthread_join(threads[i], NULL);
    struct td_pool_stats stats;
    for (int i = 0; i < 20000; i++) {
        td_pool_stats(pool, &stats);
        if (stats.done == SUBMITTERS * EACH)
            break;
        usleep(500);
    }
    ck_assert_int_eq(stats.done, SUBMITTERS * EACH);
    td_pool_unref(pool);
}
END_TEST

/* RT-18: what was accepted runs, what comes later is refused. */
START_TEST(test_stop_drains_and_refuses)
{
    struct td_pool *pool = td_machine_pool(&machine, "a=:threads=1");
    atomic_int done = 0;
    struct note notes[20];
    for (int i = 0; i < 20; i++) {
        notes[i] = (struct note){.job.run = run_note, .done = &done, .sleep_us = 500};
        ck_assert_int_eq(td_pool_submit(pool, &notes[i].job), 0);
    }
    td_pools_destroy(machine.pools);
    ck_assert_int_eq(atomic_load(&done), 20);
    ck_assert_int_eq(td_pool_submit(pool, &notes[0].job), -ESHUTDOWN);
    td_pool_unref(pool);
    ck_assert_int_eq(td_pools_create(&machine.pools, machine.topology), 0);
}
END_TEST

struct last {
    struct td_job job;
    struct td_pool *pool;
    atomic_int *done;
};

static void run_last(struct td_job *job, struct td_worker *worker)
{
    struct last *last = (struct last *)job;
    ck_assert_ptr_eq(td_worker_pool(worker), last->pool);
    atomic_int *done = last->done;
    usleep(2000);
    td_pool_unref(last->pool);
    atomic_fetch_add(done, 1);
}

/* The last reference is dropped by a job, on the very worker that would have to be joined. */
START_TEST(test_remove_while_a_job_holds_the_pool)
{
    td_pool_unref(td_machine_pool(&machine, "main=:threads=1"));
    atomic_int done = 0;
    for (int i = 0; i < 20; i++) {
        struct last last = {
            .job.run = run_last, .pool = td_machine_pool(&machine, "b=:threads=1"), .done = &done};
        ck_assert_int_eq(td_pool_submit(last.pool, &last.job), 0);
        ck_assert_int_eq(td_pools_remove(machine.pools, "b"), 0);
        ck_assert_ptr_null(td_pools_find(machine.pools, "b"));
        await(&done, i + 1);
    }
}
END_TEST

static atomic_int blocked; /* 1 and 2 for the two kinds */

static void run_signals(struct td_job *job, struct td_worker *worker)
{
    sigset_t set;
    (void)job, (void)worker;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    atomic_store(&blocked, 4 | sigismember(&set, SIGTERM) | sigismember(&set, SIGILL) << 1);
}

/* Signals go to the main thread; only what a fault raises arrives on the worker it happens on. */
START_TEST(test_signals)
{
    struct td_pool *pool = td_machine_pool(&machine, "a=:threads=1");
    struct td_job job = {.run = run_signals};
    ck_assert_int_eq(td_pool_submit(pool, &job), 0);
    await(&blocked, 5);
    td_pool_unref(pool);
}
END_TEST

static void run_allocating(struct td_job *job, struct td_worker *worker)
{
    struct td_arena *arena = td_arena_create();
    (void)job, (void)worker;
    memset(td_arena_alloc(arena, 4 << 20), 1, 4 << 20);
    td_arena_destroy(arena);
}

/* What requests leave behind is kept for the next ones, and given back by a worker at rest. */
START_TEST(test_idle_workers_give_memory_back)
{
    struct td_pool *pool = td_machine_pool(&machine, "a=:threads=1");
    struct td_job job = {.run = run_allocating};
    ck_assert_int_eq(td_pool_submit(pool, &job), 0);
    for (int i = 0; i < 10000 && !td_memory_kept(); i++)
        usleep(200);
    ck_assert_uint_ge(td_memory_kept(), 4 << 20);
    for (int i = 0; i < 1000 && td_memory_kept(); i++)
        usleep(10000);
    ck_assert_uint_eq(td_memory_kept(), 0);
    td_pool_unref(pool);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool");
    TCase *tcase = tcase_create("pool");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_jobs_run_in_order_and_are_counted);
    tcase_add_test(tcase, test_larger_priority_first);
    tcase_add_test(tcase, test_a_full_queue_refuses);
    tcase_add_test(tcase, test_late_jobs_are_told);
    tcase_add_loop_test(tcase, test_many_submitters, 0, 3);
    tcase_add_test(tcase, test_stop_drains_and_refuses);
    tcase_add_test(tcase, test_remove_while_a_job_holds_the_pool);
    tcase_add_test(tcase, test_signals);
    tcase_add_test(tcase, test_idle_workers_give_memory_back);
    suite_add_tcase(suite, tcase);
    return td_test_run(suite);
}
