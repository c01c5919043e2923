/* Splitting a loop over the calling worker's OpenMP team, and stopping it. Built with base flags;
 * without OpenMP (the thread-sanitizer build: libgomp is not instrumented) every loop runs on the
 * caller.
 *
 * Who can stop a call is known by thread, not by call: loops lie deep inside kernels, and most have
 * nobody to obey, whom it costs one look at a thread's own variable. */
#include "kernels/trap.h"

#include <time.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#define GRAINS 16       /* in a piece, between two looks */
#define WAKING 8        /* grains of td_parallel_brief that pay for a thread that sleeps */
#define AWAKE_NS 100000 /* about how long libgomp's threads spin for work before they sleep */

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

#ifdef _OPENMP

struct part { /* of a member */
    int64_t begin, end, grain;
    td_range *fn;
    void *arg;
};

static void run_part(void *arg)
{
    const struct part *part = arg;
    run(part->begin, part->end, part->grain, part->fn, part->arg);
}

/* A member that traps leaves its part, and is there for the barrier; the first one's is told. */
static void run_caught(struct td_net *lifted, atomic_flag *told, struct part *part)
{
    struct td_net mine = {.outer = lifted->outer};
    td_net_under(&mine, run_part, part);
    if (mine.signal && !atomic_flag_test_and_set(told)) {
        lifted->impl = mine.impl;
        lifted->call = mine.call;
        lifted->address = mine.address;
        lifted->signal = mine.signal;
    }
}

static void run_team(int threads, int64_t n, int64_t grain, td_range *fn, void *arg)
{
    const struct td_stop *stop = td_stop_obeyed;
    atomic_flag told = ATOMIC_FLAG_INIT;
    struct td_net lifted;
    teams++;
    td_net_lift(&lifted);
#pragma omp parallel num_threads(threads)
    {
        int64_t parts = omp_get_num_threads(), me = omp_get_thread_num();
        const struct td_stop *before = td_stop_obey(stop);
        struct part part = {n * me / parts, n * (me + 1) / parts, grain, fn, arg};
        run_caught(&lifted, &told, &part);
        td_stop_obey(before);
    }
    td_net_drop(&lifted);
}

#endif

void td_parallel_brief(int threads, int64_t n, int64_t grain, td_range *fn, void *arg)
{
    static _Thread_local int64_t asked_ns; /* when a loop worth two awake threads last ended */
    if (threads < 2 || n / 2 < grain) {
        run(0, n, grain, fn, arg);
        return;
    }
    bool pays = n / 2 / WAKING >= grain || td_clock_ns() - asked_ns < AWAKE_NS;
    td_parallel(pays ? threads : 1, n, grain, fn, arg);
    asked_ns = td_clock_ns();
}

void td_parallel(int threads, int64_t n, int64_t grain, td_range *fn, void *arg)
{
#ifdef _OPENMP
    if (threads > 1 && n / 2 >= grain) {
        run_team(threads, n, grain, fn, arg);
        return;
    }
#endif
    (void)threads;
    run(0, n, grain, fn, arg);
}
