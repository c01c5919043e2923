/* A call over and over on all workers of a pool at once: how long each takes, and how many there
 * are in a second. */
#include "server/bench/model.h"

#include <sched.h>
#include <stdlib.h>

struct lane {
    struct td_once *once;
    struct td_setting *s;
    double seconds;
    struct td_times times;
    double rate;
    int failed;
};

/* Once, for its plan; then all workers begin together. */
static int on_lane(void *args, struct td_worker *worker, char *problem, size_t problem_size)
{
    struct lane *lane = *(struct lane **)args;
    struct td_setting *s = lane->s;
    struct td_once *once = lane->once;
    (void)problem;
    (void)problem_size;
    lane->failed = td_once_time(once, worker, &s->call, &lane->times);
    td_times_free(&lane->times);
    for (atomic_fetch_add(&s->ready, 1); s->ready < s->workers;)
        sched_yield();
    int64_t begin = td_now_ns(), end = begin + (int64_t)(lane->seconds * 1e9), now = begin;
    long n = 0;
    for (; (!n || now < end) && !lane->failed; now = td_now_ns(), n++)
        lane->failed = td_once_time(once, worker, &s->call, &lane->times);
    lane->rate = now > begin ? (double)n * 1e9 / (double)(now - begin) : 0;
    return 0;
}

int td_bench_lanes(struct td_once *once, struct td_setting *s, double seconds)
{
    struct lane *lanes = calloc((size_t)s->workers, sizeof *lanes);
    struct td_future **futures = calloc((size_t)s->workers, sizeof(struct td_future *));
    struct td_pool *pool = td_pools_find(once->service.pools, s->pool);
    s->ready = 0;
    s->rate = 0;
    int failed = !lanes || !futures ? td_once_fail(once, "out of memory") : 0, result;
    for (int i = 0; i < s->workers && !failed; i++) {
        struct lane *lane = &lanes[i];
        struct td_future_config job = {
            .run = on_lane, .args = &lane, .args_bytes = sizeof lane, .what = "a model"};
        *lane = (struct lane){.once = once, .s = s, .seconds = seconds};
        if (td_future_submit(&futures[i], pool, &job)) {
            failed = td_once_fail(once, "out of memory");
            s->ready = s->workers; /* those that have begun wait for nobody */
        }
    }
    for (int i = 0; i < s->workers && lanes && futures; i++) {
        if (!futures[i])
            continue;
        td_future_wait(futures[i], -1, &result);
        td_future_unref(futures[i]);
        failed |= lanes[i].failed;
        s->rate += lanes[i].rate;
        td_times_join(&s->times, &lanes[i].times);
        td_times_free(&lanes[i].times);
    }
    td_times_sort(&s->times);
    td_pool_unref(pool);
    free(lanes);
    free(futures);
    return failed;
}
