/* What a thread asks for itself: on which CPUs it runs, how soon it is let in, what time it is. */
#include "pools/pools.h"

#include "pools/machine/cpus.h"
#include "pools/machine/runtime.h"

#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLICE_NS 100000 /* the shortest that Linux gives */

int64_t td_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void td_thread_brisk(void)
{
    struct { /* sched_attr of sched_setattr(2) */
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attr = {.size = sizeof attr, .policy = SCHED_OTHER, .runtime = SLICE_NS};
    attr.nice = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid)); /* stays as it is */
    syscall(SYS_sched_setattr, 0, &attr, 0); /* not taken: slower, not wrong */
}

void td_thread_give_way(void)
{
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 10); /* not taken: not wrong */
}

int td_bind_cpus(const char *text)
{
    struct td_cpus cpus = {0};
    char problem[128];
    td_thread_alone();
    int error = td_cpus_parse(&cpus, text, problem, sizeof problem);
    if (!error)
        error = td_runtime_bind(&cpus);
    td_cpus_fini(&cpus);
    return error;
}

int td_bound_cpus(void)
{
    struct td_cpus cpus = {0};
    int n = td_affinity_get(0, &cpus) ? 0 : cpus.n;
    td_cpus_fini(&cpus);
    return n > 0 ? n : 1;
}
