/* A worker's OpenMP team, each member on its CPU.
 *
 * The runtime keeps one set of threads per leader and starts them when the leader first opens a
 * region; they inherit the leader's mask, which is one CPU. So each has to bind itself, from
 * inside a region. Doing that once at start is not enough: libgomp dismisses members when a region
 * is smaller than the last one (oneDNN opens such regions for small work) and starts new ones for
 * the next, unbound. Hence the two doors through which compiled regions come are wrapped here:
 * GOMP_parallel, and GOMP_parallel_start of compilers before GCC 4.9, with one of which oneDNN's
 * wheel was built. Every member compares a thread-local note with the team that the region belongs
 * to, and binds itself when they differ: a comparison per member and region. Regions inside regions
 * are left alone; they run on their opener.
 *
 * A struct td_team is written by its opener; members write only their own tid. */
#include "pools/team.h"

#include "pools/runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static _Thread_local struct td_team *current; /* of the thread that leads it */
static _Thread_local struct {
    uint64_t id;
    int member;
} bound; /* what this thread was last bound for */

static uint64_t new_id(void)
{
    static atomic_uint_least64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

int td_team_init(struct td_team *team, int n, enum td_binding binding, struct td_cpus *cpus)
{
    *team = (struct td_team){
        .id = new_id(), .n = td_runtime()->library ? n : 1, .binding = binding, .cpus = *cpus};
    *cpus = (struct td_cpus){0};
    team->tid = calloc(team->n, sizeof *team->tid);
    if (!team->tid) {
        td_team_fini(team);
        return -ENOMEM;
    }
    return 0;
}

void td_team_fini(struct td_team *team)
{
    td_cpus_fini(&team->cpus);
    free(team->tid);
    team->tid = NULL;
}

static struct td_cpus cpus_of(const struct td_team *team, int member)
{
    if (team->binding == TD_BIND_each && team->cpus.n)
        return (struct td_cpus){1, &team->cpus.cpu[member % team->cpus.n]};
    return team->cpus;
}

static void bind_member(struct td_team *team, int member)
{
    struct td_cpus cpus = cpus_of(team, member);
    int error = team->binding == TD_BIND_none ? 0 : td_runtime_bind(&cpus);
    if (error)
        atomic_store(&team->broken, error);
    if (member < team->n) /* regions may be larger than the team; those members do not count */
        atomic_store(&team->tid[member], gettid());
    bound.id = team->id;
    bound.member = member;
}

#ifndef TD_NO_TEAMS

static void member(void *arg)
{
    struct td_team *team = arg;
    int me = td_runtime()->get_thread_num();
    if (bound.id != team->id || bound.member != me)
        bind_member(team, me);
    team->fn(team->data);
}

/* The team whose members the region is for, with the region's function; NULL: leave it alone. */
static struct td_team *team_for(void (*fn)(void *), void *data, unsigned threads)
{
    struct td_team *team = current;
    if (!team || td_runtime()->get_level())
        return NULL;
    if (threads > 1) { /* a region of one leaves the others where they are */
        team->shrunk = team->shrunk || (int)threads < team->n;
        team->widest = (int)threads > team->widest ? (int)threads : team->widest;
    }
    team->fn = fn;
    team->data = data; /* no member still needs the last ones: regions end with a barrier */
    return team;
}

#define TD_EXPORTED __attribute__((visibility("default")))

TD_EXPORTED void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
TD_EXPORTED void GOMP_parallel_start(void (*fn)(void *), void *data, unsigned threads);

void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags)
{
    if (!td_runtime()->library) { /* nothing else in the program has needed the runtime */
        fn(data);
        return;
    }
    struct td_team *team = team_for(fn, data, threads);
    td_runtime()->parallel(team ? member : fn, team ? team : data, threads, flags);
}

/* The caller runs the function itself, as member 0, and then calls GOMP_parallel_end. */
void GOMP_parallel_start(void (*fn)(void *), void *data, unsigned threads)
{
    struct td_team *team = team_for(fn, data, threads);
    td_runtime()->parallel_start(team ? member : fn, team ? team : data, threads);
}

static void nothing(void *data)
{
    (void)data;
}

/* Opens a region of n members, so that each is there and bound. */
static void gather(int n)
{
    if (n > 1)
        GOMP_parallel(nothing, NULL, n, 0);
}

#else

static void gather(int n)
{
    (void)n;
}

#endif

int td_team_open(struct td_team *team)
{
    const struct td_runtime *runtime = td_runtime();
    team->outer = current;
    current = team;
    if (runtime->library) {
        team->outer_threads = runtime->get_max_threads();
        team->outer_dynamic = runtime->get_dynamic();
        team->outer_levels = runtime->get_max_active_levels();
        runtime->set_dynamic(0);
        runtime->set_num_threads(team->n);
        runtime->set_max_active_levels(1); /* a region inside a region runs on its opener */
    }
    bind_member(team, 0);
    gather(team->n);
    return atomic_load(&team->broken);
}

void td_team_close(struct td_team *team, const struct td_cpus *outside)
{
    const struct td_runtime *runtime = td_runtime();
    if (!team->outer && team->widest > 1) { /* members live on, for regions of no team */
        struct td_team rest = {.id = new_id(), .binding = TD_BIND_share, .cpus = *outside};
        current = &rest;
        gather(team->widest);
    }
    current = team->outer;
    bound.id = 0;
    if (runtime->library) {
        runtime->set_dynamic(team->outer_dynamic);
        runtime->set_num_threads(team->outer_threads);
        runtime->set_max_active_levels(team->outer_levels);
    }
}

void td_team_mend(struct td_team *team)
{
    if (!team->shrunk)
        return;
    gather(team->n);
    team->shrunk = false;
}

void td_team_look(const struct td_team *team, int member, struct td_pool_thread *thread)
{
    struct td_cpus wanted = cpus_of(team, member), is = {0};
    thread->tid = atomic_load(&team->tid[member]);
    thread->cpu = team->binding == TD_BIND_each ? wanted.cpu[0] : -1;
    thread->ok = thread->tid && team->binding != TD_BIND_none &&
                 !td_affinity_get(thread->tid, &is) && td_cpus_equal(&is, &wanted);
    td_cpus_fini(&is);
}

/* Members that have left stand here with the number of a thread that may now be anybody's: only
 * those of this process are touched, and such a one is bound when it enters a region. */
static bool is_ours(pid_t tid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d", (int)tid);
    return !access(path, F_OK);
}

bool td_team_rebind(struct td_team *team)
{
    bool any = false;
    for (int i = 0; i < team->n; i++) {
        struct td_pool_thread thread;
        struct td_cpus cpus = cpus_of(team, i);
        td_team_look(team, i, &thread);
        if (thread.tid && !thread.ok && is_ours(thread.tid))
            any = !td_affinity_set(thread.tid, &cpus) || any;
    }
    return any;
}
