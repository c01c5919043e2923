/* pools/pool.c: how a worker without work waits for some. */
#include "pools/pool.h"
#include "pools_test.h"

#include <stdatomic.h>
#include <unistd.h>

#define MS INT64_C(1000000)

struct look { /* a job that looks how long its worker expects to be idle */
    struct td_job job;
    int64_t expects_ns, takes_us;
    atomic_int done;
};

static void run_look(struct td_job *job, struct td_worker *worker)
{
    struct look *look = (struct look *)job;
    look->expects_ns = worker->idle_ns;
    usleep((useconds_t)look->takes_us);
    atomic_store(&look->done, 1);
}

static int64_t expects(struct td_pool *pool)
{
    struct look look = {.job.run = run_look};
    ck_assert_int_eq(td_pool_submit(pool, &look.job), 0);
    while (!atomic_load(&look.done))
        usleep(100);
    return look.expects_ns;
}

/* Whether the pool's only worker is asleep, or soon is. */
static bool falls_asleep(struct td_pool *pool, int64_t within_ns)
{
    for (int64_t end = td_now_ns() + within_ns; td_now_ns() < end; usleep(500))
        if (atomic_load(&pool->idle))
            return true;
    return false;
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

/* RT-17: a worker polls for spin_us after a job, and sleeps then; at once where that is 0. */
START_TEST(test_polls_and_sleeps)
{
    struct td_pool *asleep = td_machine_pool(&machine, "a=:threads=1:spin_us=0");
    expects(asleep);
    ck_assert(falls_asleep(asleep, 10000 * MS));
    td_pool_unref(asleep);
    struct td_pool *awake = td_machine_pool(&machine, "b=:threads=1:spin_us=1000000");
    expects(awake);
    int64_t begin = td_now_ns();
    bool slept = falls_asleep(awake, 100 * MS);
    ck_assert(!slept || td_now_ns() - begin > 900 * MS); /* unless this thread was held up */
    ck_assert(falls_asleep(awake, 10000 * MS));
    td_pool_unref(awake);
}
END_TEST

/* A pool that stops does not wait until its worker has polled for a second. */
START_TEST(test_stops_polling)
{
    int64_t begin = td_now_ns();
    for (int i = 0; i < 5; i++) {
        struct td_pool *pool = td_machine_pool(&machine, "a=:threads=1:spin_us=1000000");
        atomic_int *alive = pool->alive;
        expects(pool);
        ck_assert_int_eq(atomic_load(alive), 1);
        td_pools_destroy(machine.pools); /* the pool is the default one, which cannot be removed */
        td_pool_unref(pool);
        ck_assert_int_eq(td_pools_create(&machine.pools, machine.topology), 0);
    }
    ck_assert_int_lt(td_now_ns() - begin, 3000 * MS);
}
END_TEST

/* A long time without work counts as four times the polling, so that one is enough to end it; after
 * some short ones it is worth while again. */
START_TEST(test_polling_follows_the_load)
{
    struct td_pool *pool = td_machine_pool(&machine, "a=:threads=1:spin_us=100000");
    ck_assert_int_lt(expects(pool), 100 * MS);
    bool at_once = false;
    for (int i = 0; i < 5 && !at_once; i++) { /* again where this thread was held up */
        ck_assert(falls_asleep(pool, 10000 * MS));
        usleep(500000);
        ck_assert_int_ge(expects(pool), 100 * MS);
        int64_t begin = td_now_ns();
        ck_assert(falls_asleep(pool, 10000 * MS));
        at_once = td_now_ns() - begin < 90 * MS;
    }
    ck_assert(at_once);
    int64_t expected = 100 * MS;
    for (int i = 0; i < 1000 && expected > 50 * MS; i++)
        expected = expects(pool);
    ck_assert_int_le(expected, 50 * MS);
    td_pool_unref(pool);
}
END_TEST

/* A job that waited for another one has found no worker without work. */
START_TEST(test_jobs_in_a_row)
{
    struct td_pool *pool = td_machine_pool(&machine, "a=:threads=1:spin_us=1000");
    struct look first = {.job.run = run_look, .takes_us = 50000}, next = {.job.run = run_look};
    ck_assert_int_eq(td_pool_submit(pool, &first.job), 0);
    ck_assert_int_eq(td_pool_submit(pool, &next.job), 0);
    while (!atomic_load(&next.done))
        usleep(100);
    ck_assert_int_ge(next.expects_ns, 0);
    ck_assert_int_le(next.expects_ns, first.expects_ns);
    td_pool_unref(pool);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("polling");
    TCase *tcase = tcase_create("polling");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_polls_and_sleeps);
    tcase_add_test(tcase, test_stops_polling);
    tcase_add_test(tcase, test_polling_follows_the_load);
    tcase_add_test(tcase, test_jobs_in_a_row);
    suite_add_tcase(suite, tcase);
    return td_test_run(suite);
}
