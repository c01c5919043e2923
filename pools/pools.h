/* Pools: pinned workers behind bounded queues, the machine they stand on, and request memory.
 *
 * A pool owns a set of CPUs, split over its workers; each worker is one thread that leads an OpenMP
 * team, every member bound to a CPU of the worker's share. A job runs on exactly one worker and may
 * use that worker's team. A pool never uses another pool's CPUs. Nothing here knows what a job
 * computes, and a worker never touches a socket.
 *
 * Errors are 0 or a negative errno. Sentences for the user go to `problem`. */
#ifndef TD_POOLS_H
#define TD_POOLS_H

#include "pools/memory/budget.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_CPUS_TEXT 256 /* bytes of a formatted CPU list, "0-3,8" */
#define TD_POOL_NAME 64
#define TD_POOL_WARNING 320
#define TD_MAX_POOLS 64 /* in a set */

/* ---- the machine, as this process may use it ---- */

struct td_topology; /* process lifetime; any thread may read it */

/* Reads the machine and the process's limits: affinity mask, cpuset, CPU quota and memory limit of
 * the cgroup and its parents (v1 and v2). -ENOMEM, or -EIO when the machine cannot be read. */
int td_topology_create(struct td_topology **topology);
void td_topology_destroy(struct td_topology *topology); /* NULL is fine */

struct td_cache {
    int level;     /* 1, 2, 3, ... */
    char type;     /* 'd' data, 'i' instruction, 'u' unified */
    uint64_t size; /* bytes */
    int line;      /* bytes */
    char cpus[TD_CPUS_TEXT];
};

struct td_pu {
    int cpu;                      /* the operating system's number */
    int core, package, numa_node; /* logical indices; numa_node -1 when the machine has none */
    atomic_bool allowed;          /* this process may run there, for now */
};

struct td_machine_facts {
    int n_packages, n_numa_nodes, n_cores, n_pus;
    struct td_pu *pus;       /* borrowed, n_pus of them */
    struct td_cache *caches; /* borrowed */
    int n_caches;
    uint64_t memory;        /* bytes on its NUMA nodes, by hwloc */
    uint64_t system_memory; /* bytes that the kernel gives out; may be more or less: virtual
                               machines grow without their nodes */
    char allowed[TD_CPUS_TEXT];
    int n_allowed;
    double quota;          /* CPUs' worth of time that the cgroup grants, the tightest of it and
                              its parents; 0 when unlimited */
    uint64_t memory_limit; /* bytes that the cgroup and its parents grant; 0 when unlimited */
    char cgroup[256];      /* the group's path that was read; "" when none */
    int64_t nr_throttled;  /* periods in which the group was throttled; -1 unknown. Read anew at
                              each td_topology_facts */
    int default_threads;   /* min(allowed CPUs, quota rounded down), at least 1 */
    bool pin_by_default;   /* false when the quota is smaller than the allowed set */
    char decision[256];    /* one sentence that says why so */
};

/* Fills facts with how things are now: the limits may change while the process runs. What is
 * borrowed lives as long as the topology. */
void td_topology_facts(const struct td_topology *topology, struct td_machine_facts *facts);

/* Seconds that CPUs 0 to n - 1 have worked since the machine started; -1: Linux does not tell. */
void td_cpus_busy(double *seconds, int n);

/* ---- the OpenMP runtime and the binding of threads ---- */

/* The first thing main does: libgomp takes its settings from the environment when it is loaded, and
 * by default its members poll for 8 ms after each region. Unless the environment says how
 * (GOMP_SPINCOUNT, OMP_WAIT_POLICY), this sets about 0.1 ms and starts the program anew, with argv.
 * Returns if there is nothing to do, or no way to. */
void td_runtime_tune(char **argv);

/* Chooses how threads are bound: "pthread", "kmp" (through the functions of LLVM's or Intel's
 * runtime), "none" (not at all: only the default pool can be had, unpinned), or "auto": kmp where
 * there is such a runtime, else pthread. To be called by main before any other thread runs and
 * before td_pools_create, which otherwise chooses "auto". -EINVAL: no such backend; -ENOSYS: no kmp
 * runtime is loaded; -EBUSY: another one was chosen before. */
int td_runtime_init(const char *backend, char *problem, size_t problem_size);

struct td_runtime_facts {
    bool enabled; /* threads are bound */
    const char *backend;
    const char *openmp; /* the OpenMP runtime's file; "" when there is none: teams of one */
};
void td_runtime_facts(struct td_runtime_facts *facts);

/* ---- pools ---- */

struct td_pool_config {
    char name[TD_POOL_NAME]; /* [A-Za-z0-9._-]+ */
    char cpus[TD_CPUS_TEXT]; /* CPU list "0-3,8"; "" means all allowed ones */
    int numa_node;           /* -1: not asked for; else the node's CPUs, unless cpus are given */
    int threads;             /* team size of all workers together; 0: one a CPU, and no more
                                than default_threads */
    int streams;             /* workers, each with an equal share of the CPUs; 0: 1 */
    int spin_us;             /* microseconds a worker polls before it sleeps; -1: 0 unless
                                td_pools_set_io_cpus told that HTTP work sits elsewhere, then 50 */
    int queue_depth;         /* jobs that may wait; 0: 1024 */
    int pinned;              /* 1: each thread on a CPU of its own; 0: each on all of its worker's;
                                -1: 1 unless a CPU quota is less than the allowed CPUs */
};

/* A configuration with every field at its default. */
struct td_pool_config td_pool_config_default(const char *name);

/* Sets one field from its text; key is cpus, numa_node, threads, streams, spin_us, queue_depth, or
 * pinned, for which pin will do. -EINVAL with the sentence, which begins with the key, in problem.
 */
int td_pool_config_set(struct td_pool_config *config, const char *key, const char *value,
                       char *problem, size_t problem_size);
/* Parses NAME=CPUS[:key=value...], with the same keys. -EINVAL with the sentence in problem. */
int td_pool_config_parse(struct td_pool_config *config, const char *text, char *problem,
                         size_t problem_size);

struct td_worker;
struct td_pool;

struct td_job { /* embedded in what the caller wants done; stays the caller's */
    /* Runs on a worker; afterwards the pool does not look at the job again, so it may free itself.
     * worker: borrowed, valid during the call. */
    void (*run)(struct td_job *job, struct td_worker *worker);
    const char *what; /* names it, for the watchdog; lives as long as the process. NULL is fine */
    int priority;     /* larger runs first; 0 normal; beyond -3 and 3 no difference is made */
    int64_t deadline_ns; /* CLOCK_MONOTONIC after which it is late; 0 never. The pool still runs
                            a late job: job->late tells, and the job answers without computing */
    bool late;
    int64_t submitted_ns, started_ns; /* CLOCK_MONOTONIC, set by the pool */
};

/* The set of pools of the process. Its functions may be called from any thread. */
struct td_pools;
int td_pools_create(struct td_pools **pools, struct td_topology *topology /* borrowed */);
/* Stops every pool (queued jobs are run first), frees all. References to pools of the set may be
 * dropped later (their submits say -ESHUTDOWN), those to removed ones must be gone. */
void td_pools_destroy(struct td_pools *pools);
/* Tells where the threads that serve HTTP sit (a CPU list, "" when they share the pools' CPUs), for
 * the default spin_us of pools added later. -EINVAL with the sentence in problem, -ENOMEM. */
int td_pools_set_io_cpus(struct td_pools *pools, const char *cpus, char *problem,
                         size_t problem_size);

/* Creates a pool and starts its workers; the first one created is the default pool. What had to be
 * done otherwise than asked for is a warning in td_pool_stats.
 * -EEXIST (the name is taken), -EINVAL (no CPU of the list is allowed here, unknown node, counts
 * out of range; the sentence says which), -ENOMEM, -EAGAIN (no thread to be had), -ENOSYS (a second
 * pool with binding backend "none"). */
int td_pools_add(struct td_pools *pools, const struct td_pool_config *config, char *problem,
                 size_t problem_size);
/* The same, but a pool of that name is replaced: calls that have it already still run there, and it
 * is left as it is when the new one cannot be made. 0 new, 1 replaced, with a new reference to what
 * was made, even if it is removed at once; -EBUSY for the default pool. */
int td_pools_put(struct td_pools *pools, const struct td_pool_config *config, struct td_pool **pool,
                 char *problem, size_t problem_size);
/* Takes the pool out of the set and stops it once the last reference is gone; what is queued runs.
 * -ENOENT; -EBUSY for the default pool. */
int td_pools_remove(struct td_pools *pools, const char *name);
/* A new reference, for td_pool_unref; name NULL or "" is the default pool. NULL when unknown. */
struct td_pool *td_pools_find(struct td_pools *pools, const char *name);
/* New references to all pools, at most max, default first; returns how many. */
int td_pools_list(struct td_pools *pools, struct td_pool **list, int max);
void td_pool_unref(struct td_pool *pool);

/* Queues the job. -EAGAIN when the queue is full, -ESHUTDOWN when the pool is stopping. */
int td_pool_submit(struct td_pool *pool, struct td_job *job);

struct td_pool_thread {
    int tid; /* the kernel's */
    int cpu; /* the CPU it is bound to; -1 when not pinned */
    bool ok; /* the affinity read back is that CPU, or its worker's CPUs; where threads are bound */
};

struct td_pool_stats {
    struct td_pool_config config;  /* as effective: cpus filtered, counts filled in */
    char requested[TD_CPUS_TEXT];  /* cpus as asked for */
    char warning[TD_POOL_WARNING]; /* what is otherwise than asked for, or "" */
    int depth;                     /* jobs waiting now */
    int running;                   /* jobs being run now */
    int64_t done, rejected, late;  /* since start */
    int64_t busy_ns;               /* time spent in jobs, all workers */
    int n_threads;
    struct td_pool_thread threads[64]; /* the first 64 */
};
void td_pool_stats(struct td_pool *pool, struct td_pool_stats *stats);
struct td_pool_memory { /* where a worker's requests get their big blocks from */
    int numa_node; /* bound to it; -1: the node of the CPU that asks, as its CPUs lie on several */
    int found;     /* the node of a block just taken; -1: the kernel does not say */
};
/* Of the first max workers; returns how many. Takes a block for each, so some us. */
int td_pool_memory(struct td_pool *pool, struct td_pool_memory *memory, int max);
const char *td_pool_name(const struct td_pool *pool);
int td_pool_threads(const struct td_pool *pool); /* of all its workers */
int td_pool_streams(const struct td_pool *pool); /* its workers */
/* The first CPU of a part, of equal ones from 0 to parts - 1; -1 when not pinned. */
int td_pool_cpu(const struct td_pool *pool, int part, int parts);

/* OpenMP threads that its job may use, itself included; 1 for a while after a crowd. Its pool. */
int td_worker_threads(const struct td_worker *worker);
struct td_pool *td_worker_pool(const struct td_worker *worker); /* borrowed */
/* What the worker's job has come to, a constant, and until when it may take (0: not said). */
void td_worker_note(struct td_worker *worker, const char *what, int64_t due_ns);
/* The NUMA node of the worker's CPUs; -1 where the machine has one only, or they lie on several. */
int td_worker_numa_node(const struct td_worker *worker);
/* Up to how many seconds of one thread's work are done sooner by whoever has it in hand than by an
 * idle worker of the pool with its team; INFINITY when no worker is idle, or none has a team. */
double td_pool_worth_seconds(const struct td_pool *pool);
int td_pool_home_node(const struct td_pool *pool); /* the same for its first CPU's worker */

/* Runs run(arg, part, worker) for each part from 0 to parts - 1, once, on the worker and on others
 * of its pool that have time, and returns when all have. To be called from a job of this worker;
 * parts must not wait for futures. -ENOMEM: none has run. */
typedef void td_part(void *arg, int part, struct td_worker *worker);
int td_worker_share(struct td_worker *worker, int parts, td_part *run, void *arg);

/* How many streams "auto" (in any case: one for each CPU) or a number says, at most n_cpus; problem
 * is then a warning, else "". -EINVAL with the sentence in problem. */
int td_streams_parse(const char *text, int n_cpus, int *streams, char *problem,
                     size_t problem_size);

/* ---- what changes under the pools while they work ---- */

/* Looks once whether the process may now use other CPUs or another share of their time (a cpuset
 * that moved, a new quota), and then makes every pool anew from what it was asked to be, under its
 * name and with its counters; a pool of whose CPUs none is left takes all there are, with a
 * warning. Puts threads back that somebody has moved. The number of pools made anew, or -errno. The
 * calling thread may afterwards run on all CPUs that the process may use. */
int td_pools_look(struct td_pools *pools);

struct td_busy {                /* what a thread is in; written by that thread only */
    _Atomic(const char *) what; /* a constant, or NULL: it has no name */
    atomic_llong since_ns;      /* when it began that; 0: it is in nothing */
    atomic_llong due_ns;        /* until when it may take, by CLOCK_MONOTONIC; 0: nobody said */
};

/* Binds the calling thread to the first CPU of a part of the named pool (td_pool_cpu), or where
 * that is not pinned or not there to all allowed ones; and again whenever that changes, until
 * td_pools_unwatch. busy: watched until then, as the workers are. -ENOMEM, or what it says. */
int td_pools_seat(struct td_pools *pools, const char *name, int part, int parts,
                  struct td_busy *busy);

struct td_hung { /* a thread that does not come back; see td_pools_watch */
    char pool[TD_POOL_NAME];
    bool is_seat;     /* it is no worker, but has a seat at the pool */
    int index;        /* of the worker; of a seat its part */
    const char *what; /* td_busy.what, or "a job" */
    int64_t for_ns;
};
int td_pools_hung(struct td_pools *pools, struct td_hung *hung, int max); /* now; how many */
/* "pool a: worker 0 has been in matmul for 70 s". */
void td_hung_describe(const struct td_hung *hung, char *text, size_t size);

/* Starts a thread that looks twice a second. Hung is who has been in one job for hung_ns (0: none
 * is), and as long beyond its deadline. say: told there what was found. -EAGAIN: no thread. */
int td_pools_watch(struct td_pools *pools, int64_t hung_ns, void (*say)(const char *sentence));
/* Ends it, if there is one, and forgets the seats. To be called before td_pools_destroy. */
void td_pools_unwatch(struct td_pools *pools);

/* ---- scopes: a thread on a pool's CPUs without a job ---- */

/* From enter to leave the calling thread runs on the pool's CPUs, and leads an OpenMP team of the
 * pool's size there, beside the pool's workers; afterwards it has its former affinity and team.
 * Holds a reference to the pool. Scopes nest. -ENOSYS where nothing can be bound (backend "none"),
 * -ENOMEM, or what the kernel says about the affinity; the thread is then as before. */
struct td_scope;
int td_scope_enter(struct td_pool *pool, struct td_scope **scope);
/* -EINVAL: not the innermost scope of this thread; nothing is done. Else 0, or what the kernel says
 * when the former affinity is no longer possible; the scope is gone. */
int td_scope_leave(struct td_scope *scope);

/* ---- futures: calling a function on a pool, without HTTP ---- */

#define TD_FUTURE_PROBLEM 160

/* args: the future's own copy; what is to be returned may be put there. 0, or a negative errno with
 * a sentence in problem (TD_FUTURE_PROBLEM bytes, "" before). */
typedef int td_future_fn(void *args, struct td_worker *worker, char *problem, size_t problem_size);

struct td_future_config {
    td_future_fn *run;
    const void *args; /* args_bytes are copied at submission, 64-byte aligned */
    size_t args_bytes;
    void (*fini)(void *args); /* frees what the copy owns, with the last reference; may be NULL */
    const char *what;         /* as in td_job, as are the next two */
    int priority;             /* a late future ends with -ETIMEDOUT, not run */
    int64_t deadline_ns;
};

/* A call under way and its result: a future. Any thread may wait for it. */
struct td_future;
/* *future is a reference, for td_future_unref. As td_pool_submit, or -ENOMEM; fini is not called
 * then.
 */
int td_future_submit(struct td_future **future, struct td_pool *pool,
                     const struct td_future_config *config);
/* Waits at most timeout_ns (negative: for ever; 0: looks). 0: *result is what run gave, or
 * -ETIMEDOUT (late). -ETIMEDOUT: not ended yet. -EDEADLK: on a worker, for ever, for a future
 * that only workers could run which wait themselves, this one included. */
int td_future_wait(struct td_future *future, int64_t timeout_ns, int *result);
void *td_future_args(struct td_future *future);                /* the copy; not while it runs */
const char *td_future_problem(const struct td_future *future); /* once it has ended */
void td_future_unref(struct td_future *future);

/* ---- binding and time ---- */

/* OpenMP regions that the calling thread opens run on it alone, as after td_bind_cpus. */
void td_thread_alone(void);

/* Whether the calling worker's job has mostly waited for members of its team: better be alone. */
bool td_team_is_crowded(void);

/* Asks for short time slices, to be let in soon after waking (Linux from 6.12 on). */
void td_thread_brisk(void);

/* Gives the calling thread a nice value of 10: about a tenth of a CPU that others want. SCHED_IDLE
 * would give it 0.3 %, and others waited seconds for a lock that it held. */
void td_thread_give_way(void);

/* Binds the calling thread to a CPU list ("0-3,8"). 0 or -errno; -ENOSYS with backend "none",
 * -EINVAL when the CPUs do not exist or text is no list. */
int td_bind_cpus(const char *cpus);
/* How many CPUs the calling thread may run on, at least 1. */
int td_bound_cpus(void);
/* Undoes that: to all CPUs that this process may use. */
int td_bind_allowed(const struct td_topology *topology);

int64_t td_now_ns(void); /* CLOCK_MONOTONIC */

/* Part index of total cut into parts: the first (total mod parts) parts get one more. Parts beyond
 * total are empty. */
static inline void td_split(int64_t total, int64_t parts, int64_t index, int64_t *begin,
                            int64_t *count)
{
    int64_t least = total / parts, more = total % parts;
    *begin = index * least + (index < more ? index : more);
    *count = least + (index < more);
}

/* ---- bytes (budget.h) ---- */

/* Of td_memory's, those that are kept for the next request; given back when it is full. */
size_t td_memory_kept(void);

/* ---- request memory ---- */

/* Bytes of an arena with its first chunk: all that a small call needs, or each pays for another. */
#define TD_ARENA_FIRST (44 << 10)

/* An arena belongs to one request: whatever is allocated from it is freed with it, at once. One
 * thread at a time may use it. All of it is taken from td_memory, the first TD_ARENA_FIRST by
 * force. */
struct td_arena;
struct td_arena *td_arena_create(void); /* NULL when out of memory */
/* Its big blocks lie on the NUMA node; -1 is the node of the thread that allocates. */
struct td_arena *td_arena_create_on(int numa_node);
/* One holder more: destroy is then due once more, and frees with the last. */
void td_arena_ref(struct td_arena *arena);

struct td_arena_room {                    /* who is asked for an arena's bytes */
    int (*take)(void *arg, size_t bytes); /* 0 or a negative errno */
    void (*give)(void *arg, size_t bytes);
    void *arg;
};
/* One that stays: begins small, and all of it, the first bytes too, is taken from room, which must
 * outlive it. NULL when that says no. */
struct td_arena *td_arena_create_in(const struct td_arena_room *room);
/* Until it is reset or destroyed, it may take what td_memory holds back for requests by which
 * people look and delete. */
void td_arena_favour(struct td_arena *arena);
void td_arena_destroy(struct td_arena *arena); /* NULL is fine */
/* As destroy and create, for a thread's next request: the same arena, empty, unless others hold it.
 * NULL when out of memory. */
struct td_arena *td_arena_reset(struct td_arena *arena);
/* 64-byte aligned; all of 4 KiB and more begin alike modulo that; 64 bytes after the end may be
 * read. NULL when out of memory, td_memory's or the system's, or above 2^47. Not zeroed. */
void *td_arena_alloc(struct td_arena *arena, size_t bytes);
void *td_arena_zalloc(struct td_arena *arena, size_t bytes); /* zeroed */
/* As td_arena_alloc, but from 64 KiB up td_memory has what td_arena_fill was last asked for, before
 * so many bytes from the begin are written (-ENOMEM). */
void *td_arena_reserve(struct td_arena *arena, size_t bytes);
int td_arena_fill(struct td_arena *arena, void *block, size_t bytes);
void td_arena_drop(struct td_arena *arena, void *block); /* gives it back at once */
/* data itself, or where align does not divide its address, a copy of its bytes; NULL: no memory. */
void *td_arena_align(struct td_arena *arena, void *data, size_t bytes, size_t align);
char *td_arena_strdup(struct td_arena *arena, const char *text, size_t length);
char *td_arena_printf(struct td_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
