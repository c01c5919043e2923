/* Splitting a loop over the calling worker's OpenMP team. Built with base flags; without OpenMP
 * (the thread-sanitizer build: libgomp is not instrumented) every loop runs on the caller. */
#include "kernels/kernels.h"

#ifdef _OPENMP
#include <omp.h>
#endif

static _Thread_local unsigned teams;

unsigned td_teams_opened(void)
{
    return teams;
}

void td_parallel(int threads, int64_t n, int64_t grain, td_range *fn, void *arg)
{
#ifdef _OPENMP
    if (threads > 1 && n >= 2 * grain) {
        teams++;
#pragma omp parallel num_threads(threads)
        {
            int64_t parts = omp_get_num_threads(), me = omp_get_thread_num();
            int64_t begin = n * me / parts, end = n * (me + 1) / parts;
            if (begin < end)
                fn(arg, begin, end);
        }
        return;
    }
#endif
    (void)threads;
    (void)grain;
    if (n > 0)
        fn(arg, 0, n);
}
