/* What runs of a model take: their times, kept so that shares of them can be told, in bounded
 * memory. */
#include "server/commands/run.h"

#include <stdlib.h>
#include <string.h>

#define MOST (1 << 20) /* that are kept: beyond it, half of them, evenly */

void td_times_add(struct td_times *times, double us)
{
    times->every = times->every ? times->every : 1;
    if (times->seen++ % times->every)
        return;
    if (times->n == times->room && times->room < MOST) {
        long room = times->room ? 2 * times->room : 1024;
        float *more = realloc(times->us, (size_t)room * sizeof *more);
        if (!more)
            return;
        times->us = more;
        times->room = room;
    } else if (times->n == times->room) {
        for (long i = 0; i < times->n / 2; i++)
            times->us[i] = times->us[2 * i];
        times->n /= 2;
        times->every *= 2;
    }
    times->us[times->n++] = (float)us;
}

void td_times_join(struct td_times *times, const struct td_times *more)
{
    for (long i = 0; i < more->n; i++)
        td_times_add(times, (double)more->us[i]);
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

void td_times_sort(struct td_times *times)
{
    if (times->n)
        qsort(times->us, (size_t)times->n, sizeof *times->us, by_value);
}

double td_times_within(const struct td_times *times, double share)
{
    long at = (long)(share * (double)times->n);
    return times->n ? (double)times->us[at < times->n ? at : times->n - 1] : 0;
}

void td_times_free(struct td_times *times)
{
    free(times->us);
    *times = (struct td_times){0};
}

int td_once_time(struct td_once *once, struct td_worker *worker, const struct td_writer *call,
                 struct td_times *times)
{
    struct td_answer answer = {td_arena_create(), NULL};
    if (!answer.arena)
        return td_once_fail(once, "out of memory");
    int failed = td_once_infer(once, worker, &answer, call->text, call->length);
    if (!failed)
        td_times_add(times, (double)answer.req->trail.compute_ns * 1e-3);
    td_once_forget(&answer);
    return failed;
}
