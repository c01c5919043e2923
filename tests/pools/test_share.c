/* pools/share.c: cutting a batch, and one job over a pool's workers. */
#include "pools_test.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static const struct {
    int64_t total, parts, counts[4];
} splits[] = {
    {3, 2, {2, 1}},    /* 3 cores over 2 streams */
    {4, 3, {2, 1, 1}}, /* a batch of 4 over 3 */
    {2, 3, {1, 1, 0}}, /* fewer than the streams: the first ones get one each */
    {1, 4, {1, 0, 0, 0}}, {0, 2, {0, 0}}, {17, 4, {5, 4, 4, 4}},
    {8, 4, {2, 2, 2, 2}}, /* divisible, the case that the originals began with */
    {5, 1, {5}},
};

/* RT-28, RT-29, RT-30: the first parts get one more, whether of cores or of a batch. */
START_TEST(test_split)
{
    int64_t next = 0;
    for (int64_t part = 0; part < splits[_i].parts; part++) {
        int64_t begin, count;
        td_split(splits[_i].total, splits[_i].parts, part, &begin, &count);
        ck_assert_int_eq(begin, next);
        ck_assert_int_eq(count, splits[_i].counts[part]);
        next = begin + count;
    }
    ck_assert_int_eq(next, splits[_i].total);
}
END_TEST

static const struct {
    const char *text;
    int streams; /* on 4 CPUs; 0: refused */
    const char *says;
} texts[] = {
    {"auto", 4, ""},       {"AUTO", 4, ""},      {"Auto", 4, ""},
    {"1", 1, ""},          {"4", 4, ""},         {"9", 4, "reduced from 9 to the 4"},
    {"0", 0, "neither"},   {"-1", 0, "neither"}, {"", 0, "neither"},
    {"all", 0, "neither"}, {"2x", 0, "neither"}, {"99999999999999999999", 4, "reduced"},
};

/* RT-31, with the refusal that the original meant. */
START_TEST(test_parse)
{
    char problem[160];
    int streams = 0;
    int error = td_streams_parse(texts[_i].text, 4, &streams, problem, sizeof problem);
    ck_assert_int_eq(error, texts[_i].streams ? 0 : -EINVAL);
    ck_assert_int_eq(streams, texts[_i].streams);
    ck_assert_msg(strstr(problem, texts[_i].says) && !*problem == !*texts[_i].says, "%s", problem);
}
END_TEST

static struct td_machine machine;

static void set_up(void)
{
    td_machine_init(&machine, NULL);
}

static void tear_down(void)
{
    td_machine_fini(&machine);
}

#define BATCH 37

struct batch { /* y = 2x + 1, cut into streams */
    struct td_job job;
    int streams, error;
    float x[BATCH], y[BATCH];
    atomic_int runs[BATCH + 8], done;
    atomic_int together; /* how many parts wait for each other; 0: none does */
    atomic_int met;
};

static void run_part(void *arg, int part, struct td_worker *worker)
{
    struct batch *batch = arg;
    int64_t begin, count;
    (void)worker;
    atomic_fetch_add(&batch->runs[part], 1);
    if (batch->together) { /* goes on only once so many parts run at the same time */
        atomic_fetch_add(&batch->met, 1);
        while (atomic_load(&batch->met) < batch->together)
            sched_yield();
    }
    td_split(BATCH, batch->streams, part, &begin, &count);
    for (int64_t i = begin; i < begin + count; i++)
        batch->y[i] = 2 * batch->x[i] + 1;
}

static void run_batch(struct td_job *job, struct td_worker *worker)
{
    struct batch *batch = (struct batch *)job;
    batch->error = td_worker_share(worker, batch->streams, run_part, batch);
    atomic_store(&batch->done, 1);
}

static void submit(struct td_pool *pool, struct batch *batch, int streams)
{
    memset(batch, 0, sizeof *batch);
    batch->job.run = run_batch;
    batch->streams = streams;
    for (int i = 0; i < BATCH; i++)
        batch->x[i] = (float)i;
    ck_assert_int_eq(td_pool_submit(pool, &batch->job), 0);
}

static void check(struct batch *batch)
{
    while (!atomic_load(&batch->done))
        usleep(200);
    ck_assert_int_eq(batch->error, 0);
    for (int i = 0; i < BATCH; i++)
        ck_assert(batch->y[i] == 2 * (float)i + 1);
    for (int i = 0; i < batch->streams; i++)
        ck_assert_int_eq(atomic_load(&batch->runs[i]), 1);
}

/* As many streams as there are workers, fewer, more, and more than the batch. */
START_TEST(test_equal_to_plain)
{
    static const int streams[] = {1, 2, 3, 5, BATCH, BATCH + 8};
    struct td_pool *pool =
        td_machine_pool(&machine, _i ? "a=:streams=2" : "a=:streams=1:threads=1");
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        struct batch batch;
        submit(pool, &batch, streams[i]);
        check(&batch);
    }
    td_pool_unref(pool);
}
END_TEST

/* Two parts that wait for each other end only if two workers run them. */
START_TEST(test_parts_run_at_the_same_time)
{
    struct td_pool *pool = td_machine_pool(&machine, "a=:streams=2");
    struct td_pool_stats stats;
    td_pool_stats(pool, &stats);
    struct batch batch;
    memset(&batch, 0, sizeof batch);
    batch.job.run = run_batch;
    batch.streams = 2;
    batch.together = stats.config.streams; /* 1 where the process has one CPU */
    for (int i = 0; i < BATCH; i++)
        batch.x[i] = (float)i;
    ck_assert_int_eq(td_pool_submit(pool, &batch.job), 0);
    check(&batch);
    td_pool_unref(pool);
}
END_TEST

/* Every worker with a job that is cut, and jobs queued behind: none may wait for what nobody runs.
 * A queue of 1 leaves no room for helpers: then the parts are run by the job's own worker. */
START_TEST(test_no_deadlock)
{
    struct td_pool *pool =
        td_machine_pool(&machine, _i ? "a=:streams=2" : "a=:streams=2:queue_depth=1");
    static struct batch batches[200];
    for (int i = 0; i < 200; i++) {
        struct batch *batch = &batches[i];
        memset(batch, 0, sizeof *batch);
        batch->job.run = run_batch;
        batch->streams = 4;
        for (int k = 0; k < BATCH; k++)
            batch->x[k] = (float)k;
        while (td_pool_submit(pool, &batch->job) == -EAGAIN)
            sched_yield();
    }
    for (int i = 0; i < 200; i++)
        check(&batches[i]);
    td_pool_unref(pool);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("streams");
    TCase *tcase = tcase_create("split");
    tcase_add_loop_test(tcase, test_split, 0, sizeof splits / sizeof *splits);
    tcase_add_loop_test(tcase, test_parse, 0, sizeof texts / sizeof *texts);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("share");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, test_equal_to_plain, 0, 2);
    tcase_add_test(tcase, test_parts_run_at_the_same_time);
    tcase_add_loop_test(tcase, test_no_deadlock, 0, 2);
    suite_add_tcase(suite, tcase);
    return td_test_run(suite);
}
