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
 * A region waits for all its members, so one whose CPU somebody else keeps busy holds up the whole
 * team, milliseconds each time: a model of 60 regions and 0.8 ms took 100 ms on two threads beside
 * one process that only counted. So the opener looks how long it has waited when its own part was
 * done. Where a job has spent most of its time on that, its team rests: the worker is alone for
 * 50 ms, and for twice as long each time that this does not help, up to 2 s.
 *
 * A struct td_team is written by its opener; members write only their own tid. */
#include "pools/team.h"

#include "pools/machine/runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LATE_NS 1000000 /* a wake-up takes 0.03 ms, a turn of somebody else's 3 */
#define REST_NS INT64_C(50000000)
#define LONGEST_REST_NS INT64_C(2000000000)

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
    if (!me && team->begin_ns)
        team->own_ns = td_now_ns();
}

static void nothing(void *data)
{
    (void)data;
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
    bool is_looked_at = threads > 1 && fn != nothing && team->n <= team->cpus.n;
    team->begin_ns = is_looked_at ? td_now_ns() : 0; /* members on one CPU wait for each other */
    team->fn = fn;
    team->data = data; /* no member still needs the last ones: regions end with a barrier */
    return team;
}

/* The region has ended. Parts may be unequal, but not so unequal. */
static void look_back(struct td_team *team)
{
    int64_t waited = team->begin_ns ? td_now_ns() - team->own_ns : 0;
    if (waited > LATE_NS && waited > 2 * (team->own_ns - team->begin_ns))
        team->lost_ns += waited;
    team->begin_ns = 0;
}

#define TD_EXPORTED __attribute__((visibility("default")))

TD_EXPORTED void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
TD_EXPORTED void GOMP_parallel_start(void (*fn)(void *), void *data, unsigned threads);
TD_EXPORTED void GOMP_parallel_end(void);

void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags)
{
    if (!td_runtime()->library) { /* nothing else in the program has needed the runtime */
        fn(data);
        return;
    }
    struct td_team *team = team_for(fn, data, threads);
    td_runtime()->parallel(team ? member : fn, team ? team : data, threads, flags);
    if (team)
        look_back(team);
}

/* The caller runs the function itself, as member 0, and then calls GOMP_parallel_end. */
void GOMP_parallel_start(void (*fn)(void *), void *data, unsigned threads)
{
    struct td_team *team = team_for(fn, data, threads);
    td_runtime()->parallel_start(team ? member : fn, team ? team : data, threads);
}

void GOMP_parallel_end(void)
{
    struct td_team *team = td_runtime()->get_level() == 1 ? current : NULL;
    if (team && team->begin_ns)
        team->own_ns = td_now_ns();
    td_runtime()->parallel_end();
    if (team)
        look_back(team);
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

void td_team_begin(struct td_team *team, int64_t now)
{
    team->since_ns = now;
    team->lost_ns = 0;
    team->crowded = false;
}

bool td_team_is_crowded(void)
{
    struct td_team *team = current;
    if (team && team->lost_ns && 2 * team->lost_ns > td_now_ns() - team->since_ns)
        team->crowded = true;
    return team && team->crowded;
}

void td_team_end(struct td_team *team)
{
    if (!td_team_is_crowded())
        return;
    int64_t now = td_now_ns();
    bool again = now < team->rests_until + 2 * team->rest_ns;
    team->rest_ns = again ? 2 * team->rest_ns : REST_NS;
    if (team->rest_ns > LONGEST_REST_NS)
        team->rest_ns = LONGEST_REST_NS;
    team->rests_until = now + team->rest_ns;
}

int td_team_threads(const struct td_team *team)
{
    return team->rests_until && td_now_ns() < team->rests_until ? 1 : team->n;
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
