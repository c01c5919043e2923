/* Splitting a loop over the calling worker's OpenMP team, and stopping it. Built with base flags;
 * without OpenMP (the thread-sanitizer build: libgomp is not instrumented) every loop runs on the
 * caller.
 *
 * Who can stop a call is known by thread, not by call: loops lie deep inside kernels, and most have
 * nobody to obey, whom it costs one look at a thread's own variable. */
#include "kernels/kernels.h"

#include <time.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#define GRAINS 16 /* in a piece, between two looks */

static _Thread_local unsigned teams;
_Thread_local const struct td_stop *td_stop_obeyed;

unsigned td_teams_opened(void)
{
    return teams;
}

int64_t td_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

bool td_stop_is_due(const struct td_stop *stop)
{
    if (atomic_load_explicit(&stop->asked, memory_order_relaxed))
        return true;
    if (!stop->deadline_ns)
        return false;
    struct timespec
        t; /* of the last tick, some ms ago: a look costs a fifth, and loops look often */
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec > stop->deadline_ns;
}

const struct td_stop *td_stop_obey(const struct td_stop *stop)
{
    const struct td_stop *before = td_stop_obeyed;
    td_stop_obeyed = stop;
    return before;
}

static void run(int64_t begin, int64_t end, int64_t grain, td_range *fn, void *arg)
{
    int64_t piece = td_stop_obeyed ? GRAINS * grain : end - begin;
    for (; begin < end && !td_stopped(); begin += piece)
        fn(arg, begin, end - begin < piece ? end : begin + piece);
}

void td_parallel(int threads, int64_t n, int64_t grain, td_range *fn, void *arg)
{
#ifdef _OPENMP
    if (threads > 1 && n >= 2 * grain) {
        const struct td_stop *stop = td_stop_obeyed;
        teams++;
#pragma omp parallel num_threads(threads)
        {
            int64_t parts = omp_get_num_threads(), me = omp_get_thread_num();
            const struct td_stop *before = td_stop_obey(stop);
            run(n * me / parts, n * (me + 1) / parts, grain, fn, arg);
            td_stop_obey(before);
        }
        return;
    }
#endif
    (void)threads;
    run(0, n, grain, fn, arg);
}
