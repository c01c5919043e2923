/* Which OpenMP runtime this process has, and how threads are bound.
 *
 * Nothing here is linked against: the functions are looked up once, by the main thread before there
 * are workers, in whatever is loaded. libgomp, LLVM's and Intel's runtime all export GOMP_parallel,
 * so one way of opening a team serves the three; without any, workers run alone and everything else
 * works. LLVM's and Intel's also export kmp_*: they keep masks of their own, which a plain
 * sched_setaffinity would leave stale, so they are asked when all six functions are there. */
#include "pools/machine/runtime.h"

#include "pools/pools.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Stores a function's address in *function, a pointer to it. */
static bool find(void *scope, const char *name, void *function)
{
    return (*(void **)function = dlsym(scope, name));
}

static bool find_kmp(void)
{
    return find(RTLD_DEFAULT, "kmp_create_affinity_mask", &kmp.create) &&
           find(RTLD_DEFAULT, "kmp_destroy_affinity_mask", &kmp.destroy) &&
           find(RTLD_DEFAULT, "kmp_set_affinity_mask_proc", &kmp.add) &&
           find(RTLD_DEFAULT, "kmp_set_affinity", &kmp.set) &&
           find(RTLD_DEFAULT, "kmp_get_affinity", &kmp.get) &&
           find(RTLD_DEFAULT, "kmp_get_affinity_max_proc", &kmp.max);
}

/* RTLD_NEXT: the ones in this program are team.c's wrappers. */
static void find_openmp(void)
{
#ifndef TD_NO_TEAMS
    struct td_runtime r = {0};
    Dl_info info;
    const struct {
        const char *name;
        void *function; /* where its address goes */
    } wanted[] = {{"omp_set_num_threads", &r.set_num_threads},
                  {"omp_get_max_threads", &r.get_max_threads},
                  {"omp_get_thread_num", &r.get_thread_num},
                  {"omp_get_level", &r.get_level},
                  {"omp_set_dynamic", &r.set_dynamic},
                  {"omp_get_dynamic", &r.get_dynamic},
                  {"omp_set_max_active_levels", &r.set_max_active_levels},
                  {"omp_get_max_active_levels", &r.get_max_active_levels}};
    bool all = find(RTLD_NEXT, "GOMP_parallel", &r.parallel) &&
               find(RTLD_NEXT, "GOMP_parallel_start", &r.parallel_start) &&
               find(RTLD_NEXT, "GOMP_parallel_end", &r.parallel_end);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        all = find(RTLD_DEFAULT, wanted[i].name, wanted[i].function) && all;
    if (all && dladdr(*(void **)&r.parallel, &info)) {
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

/* 4000 is about 0.1 ms on a machine where 300000, the default, is 8 ms. Regions of one model follow
 * each other faster than that. At one region a millisecond on two CPUs the process used 0.99 CPUs
 * of pure polling by default, 0.11 with 4000; a region then starts in 25 us instead of 2. */
void td_runtime_tune(char **argv)
{
    void *present;
    char path[4096] = "";
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY") ||
        !find(RTLD_NEXT, "GOMP_parallel", &present) || setenv("GOMP_SPINCOUNT", "4000", 1))
        return;
    if (readlink("/proc/self/exe", path, sizeof path - 1) > 0) /* by name, which ps shows */
        execv(path, argv);
}

void td_thread_alone(void)
{
    if (td_runtime()->library)
        runtime.set_num_threads(1);
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
