/* Which OpenMP runtime this process has, and how threads are bound.
 *
 * Nothing here is linked against: the functions are looked up once, by the main thread before there
 * are workers, in whatever is loaded. libgomp, LLVM's and Intel's runtime all export GOMP_parallel,
 * so one way of opening a team serves the three; without any, workers run alone and everything else
 * works. LLVM's and Intel's also export kmp_*: they keep masks of their own, which a plain
 * sched_setaffinity would leave stale, so they are asked when all six functions are there. */
#include "pools/runtime.h"

#include "pools/pools.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct td_runtime runtime;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static struct { /* the masks of LLVM's and Intel's runtime */
    void (*create)(void **mask);
    void (*destroy)(void **mask);
    int (*add)(int cpu, void **mask);
    int (*set)(void **mask);
    int (*get)(void **mask);
    int (*max)(void);
} kmp;

/* dlsym gives data pointers; POSIX says they may be functions' all the same. */
static void *found(void *scope, const char *name)
{
    return dlsym(scope, name);
}

static bool find_kmp(void)
{
    *(void **)&kmp.create = found(RTLD_DEFAULT, "kmp_create_affinity_mask");
    *(void **)&kmp.destroy = found(RTLD_DEFAULT, "kmp_destroy_affinity_mask");
    *(void **)&kmp.add = found(RTLD_DEFAULT, "kmp_set_affinity_mask_proc");
    *(void **)&kmp.set = found(RTLD_DEFAULT, "kmp_set_affinity");
    *(void **)&kmp.get = found(RTLD_DEFAULT, "kmp_get_affinity");
    *(void **)&kmp.max = found(RTLD_DEFAULT, "kmp_get_affinity_max_proc");
    return kmp.create && kmp.destroy && kmp.add && kmp.set && kmp.get && kmp.max;
}

/* RTLD_NEXT for GOMP_parallel: the one in this program is team.c's wrapper. */
static void find_openmp(void)
{
#ifndef TD_NO_TEAMS
    struct td_runtime r = {0};
    Dl_info info;
    *(void **)&r.parallel = found(RTLD_NEXT, "GOMP_parallel");
    *(void **)&r.set_num_threads = found(RTLD_DEFAULT, "omp_set_num_threads");
    *(void **)&r.get_max_threads = found(RTLD_DEFAULT, "omp_get_max_threads");
    *(void **)&r.get_thread_num = found(RTLD_DEFAULT, "omp_get_thread_num");
    *(void **)&r.get_level = found(RTLD_DEFAULT, "omp_get_level");
    *(void **)&r.set_dynamic = found(RTLD_DEFAULT, "omp_set_dynamic");
    *(void **)&r.set_max_active_levels = found(RTLD_DEFAULT, "omp_set_max_active_levels");
    if (r.parallel && r.set_num_threads && r.get_max_threads && r.get_thread_num && r.get_level &&
        r.set_dynamic && r.set_max_active_levels && dladdr(*(void **)&r.parallel, &info)) {
        r.library = info.dli_fname;
        runtime = r;
    }
#endif
}

static const char *asked = "auto";
static bool refused; /* "kmp" was asked for and is not there */

static void choose(void)
{
    find_openmp();
    bool has_kmp = runtime.library && find_kmp();
    refused = !strcmp(asked, "kmp") && !has_kmp;
    if (!strcmp(asked, "none"))
        runtime.backend = "none";
    else
        runtime.backend = has_kmp && strcmp(asked, "pthread") ? "kmp" : "pthread";
}

const struct td_runtime *td_runtime(void)
{
    pthread_once(&once, choose);
    return &runtime;
}

int td_runtime_init(const char *backend, char *problem, size_t problem_size)
{
    static const char *const names[] = {"auto", "pthread", "kmp", "none"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(backend, names[i]))
            continue;
        if (!runtime.backend)
            asked = names[i];
        td_runtime();
        if (!refused && (i == 0 || !strcmp(runtime.backend, names[i])))
            return 0;
        snprintf(problem, problem_size, "pin backend %s: %s", backend,
                 refused ? "no runtime with the kmp_* functions is loaded"
                         : "another one is in use since start");
        return refused ? -ENOSYS : -EBUSY;
    }
    snprintf(problem, problem_size, "pin backend %.40s: valid are auto, pthread, kmp, none",
             backend);
    return -EINVAL;
}

void td_runtime_facts(struct td_runtime_facts *facts)
{
    const struct td_runtime *r = td_runtime();
    *facts = (struct td_runtime_facts){
        .enabled = strcmp(r->backend, "none"),
        .backend = r->backend,
        .openmp = r->library ? r->library : "",
    };
}

int td_runtime_bind(const struct td_cpus *cpus)
{
    const struct td_runtime *r = td_runtime();
    if (!strcmp(r->backend, "none"))
        return -ENOSYS;
    void *mask = NULL;
    int error = -1;
    if (!strcmp(r->backend, "kmp")) {
        kmp.create(&mask);
        error = 0;
        for (int i = 0; i < cpus->n && !error; i++)
            error = kmp.add(cpus->cpu[i], &mask);
        if (!error)
            error = kmp.set(&mask);
        kmp.destroy(&mask);
    }
    /* The plain call also where the runtime refuses (KMP_AFFINITY=disabled). */
    return error ? td_affinity_set(0, cpus) : 0;
}
