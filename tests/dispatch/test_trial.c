/* Trials: a row that cannot win is stopped early, as few runs as possible decide, and a crowded
 * team is measured as well. */
#include "dispatch/choice/kinds.h"
#include "dispatch/choice/peaks.h"
#include "dispatch/choice/rivals.h"
#include "pools/pools.h"
#include "tests/dispatch/dispatch_test.h"

#include <math.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#define LONG 1000000 /* iterations, each of about a millisecond */

static int quick_ran, quick_threads, endless_ran, endless_ended, turned_ran;

static void quick(const struct td_call *call)
{
    quick_ran++;
    quick_threads = call->threads;
    toy_run(call);
}

/* A kernel that takes minutes unless it is asked to stop, which it checks in each iteration. */
static void endless(const struct td_call *call)
{
    int i = 0;
    (void)call;
    endless_ran++;
    for (; i < LONG && !td_stopped(); i++)
        for (volatile int k = 0; k < 1000000; k++)
            ;
    endless_ended += i == LONG;
}

static void turned(const struct td_call *call)
{
    turned_ran++;
    toy_run(call);
}

static const char *takes_turned(const struct td_call *call, struct td_prepared *prepared)
{
    (void)call;
    prepared->rearranges = true;
    return NULL;
}

static double flops(const struct td_call *call)
{
    return (double)td_numel(&call->out[0]);
}

static const struct td_impl rows[] = {
    {.name = "quick", .run = quick, .dtypes = TD_ALL, .library = true, .prepare = takes},
    {.name = "endless", .run = endless, .dtypes = TD_ALL, .prepare = takes},
    {.name = "quick, again", .run = quick, .dtypes = TD_ALL, .prepare = takes},
    {.name = "turned", .run = turned, .dtypes = TD_ALL, .prepare = takes_turned},
    {.name = "ref", .run = toy_run, .dtypes = TD_ALL},
    {0}};
static const struct td_op op = {.schema = "toy_tried(Tensor self) -> Tensor",
                                .rule = toy_rule,
                                .dtypes = TD_ALL,
                                .impls = rows,
                                .flops = flops};

static struct td_problem problem;

static void bind_tried(struct td_run *run, struct td_options *options)
{
    struct td_kernel_def def = {.key = TD_KEY_CPU, .rows = rows, .origin = TD_HERE};
    struct td_tensor self = {.dtype = TD_f32, .rank = 1, .shape = {100}};
    struct td_named arg = {.value = {.kind = TD_KIND_tensor, .tensor = self}};
    *options = (struct td_options){.alloc = td_alloc_in_arena, .alloc_arg = td_arena_create()};
    start();
    ck_assert_int_eq(td_define(&op, "here:1", &problem), 0);
    ck_assert_int_eq(td_register("toy_tried", &def, NULL, &problem), 0);
    ck_assert_int_eq(td_run_bind(run, "toy_tried", &arg, 1, options), 0);
}

START_TEST(test_hopeless)
{
    struct td_options options;
    struct td_run run;
    struct td_measured m;
    bind_tried(&run, &options);
    ck_assert(td_try_rows(run.rows, &run.call, false, &m));
    ck_assert_str_eq(m.row->name, "quick");
    ck_assert_int_ge(quick_ran, 2);
    ck_assert_int_eq(endless_ended, 0);
    ck_assert_int_le(endless_ran, 3); /* it runs again if it had to wait for a CPU */
    ck_assert_int_eq(turned_ran, 0);
    ck_assert_int_eq(m.n, 2);
    td_arena_destroy(options.alloc_arg);
}
END_TEST

static double endless_flops(const struct td_call *call)
{
    (void)call;
    return 1e15; /* the call takes microseconds: no CPU is so fast */
}

/* Once a row comes near the CPU's peak, the rows after it are not timed, unless a client asked for
 * the trial. */
START_TEST(test_near_peak)
{
    struct td_options options;
    struct td_run run;
    struct td_measured m;
    struct td_op fast = op;
    bind_tried(&run, &options);
    fast.flops = endless_flops;
    run.call.op = &fast;
    ck_assert(td_try_rows(run.rows, &run.call, false, &m));
    ck_assert_str_eq(m.row->name, "quick");
    ck_assert_int_eq(m.n, 1);
    ck_assert_int_eq(quick_ran, 1); /* its first run is enough */
    ck_assert_int_eq(endless_ran, 0);
    td_arena_destroy(options.alloc_arg);
}
END_TEST

/* Two kernels that take equally long, and longer than a round has to last. */
static int steady_ran[2], steady_us[2] = {100, 100}, first_us;
static int steady_stopped; /* runs that others kept off the CPU: each is repeated, up to twice */

static void steady(const struct td_call *call, int row)
{
    int us = row && !steady_ran[row] && first_us ? first_us : steady_us[row];
    for (clock_t begin = clock(); clock() - begin < us;)
        ;
    steady_ran[row]++;
    steady_stopped += !row && td_stopped();
    toy_run(call);
}

static void steady_own(const struct td_call *call)
{
    steady(call, 0);
}

static void steady_library(const struct td_call *call)
{
    steady(call, 1);
}

/* Rows of equal speed run a few times each; more runs are made only if a client asked. */
START_TEST(test_rounds)
{
    const struct td_impl level[] = {
        {.name = "own", .run = steady_own, .dtypes = TD_ALL, .prepare = takes},
        {.name = "library",
         .run = steady_library,
         .dtypes = TD_ALL,
         .library = true,
         .prepare = takes},
        {.name = "own, again", .run = steady_own, .dtypes = TD_ALL, .prepare = takes},
        rows[4],
        {0}};
    struct td_options options;
    struct td_run run;
    struct td_measured m;
    bind_tried(&run, &options);
    ck_assert(td_try_rows(level, &run.call, false, &m));
    ck_assert_int_eq(m.n, 2);
    ck_assert_int_le(steady_ran[0] - steady_stopped, 5);
    ck_assert_int_le(steady_ran[1], 5);
    td_arena_destroy(options.alloc_arg);
}
END_TEST

/* Slow rows run once, and so does a library's row that is far slower than another. A library's row
 * wins if only its first run was slow. */
START_TEST(test_first_run)
{
    const struct td_impl own = {.run = steady_own, .dtypes = TD_ALL, .prepare = takes};
    const struct td_impl library = {
        .run = steady_library, .dtypes = TD_ALL, .library = true, .prepare = takes};
    const struct td_impl both[] = {own, library, own, rows[4], {0}};
    struct td_options options;
    struct td_run run;
    struct td_measured m;
    bind_tried(&run, &options);
    run.call.threads = 1;
    for (int row = 0; row < 2; row++) {
        steady_ran[0] = steady_ran[1] = 0;
        steady_us[0] = row ? 100 : 12000;
        steady_us[1] = 12000;
        ck_assert(td_try_rows(both, &run.call, false, &m));
        ck_assert_int_eq(m.n, 2);
        ck_assert_int_eq(steady_ran[0], 1 + row);
        ck_assert_int_eq(steady_ran[1], 1);
    }
    steady_ran[0] = steady_ran[1] = 0;
    steady_us[0] = 200;
    steady_us[1] = 20;
    first_us = 4000;
    ck_assert(td_try_rows(both, &run.call, false, &m));
    ck_assert_int_gt(steady_ran[1], 1);
    ck_assert_ptr_eq(m.row, &both[1]);
    td_arena_destroy(options.alloc_arg);
}
END_TEST

static double ten_us_flops(const struct td_call *call)
{
    (void)call;
    return td_peaks_glance() * 10e-6;
}

/* A library's row is not timed behind one that leaves it too little to save (JIT-6). */
START_TEST(test_pay)
{
    const struct td_impl both[] = {
        {.run = steady_own, .dtypes = TD_ALL, .prepare = takes},
        {.run = steady_library, .dtypes = TD_ALL, .library = true, .prepare = takes},
        rows[4],
        {0}};
    struct td_timing t = {.peak_ns = 10000, .times = 1};
    ck_assert(!td_timing_may_pay(&t, 30500));
    ck_assert(td_timing_may_pay(&t, 31000));
    t.copy.arg[0] = (struct td_value){
        .kind = TD_KIND_tensor,
        .tensor = {.dtype = TD_f32, .rank = 1, .shape = {250000}, .weight = (void *)&t}};
    t.copy.call.n_args = 1; /* a million bytes to pack */
    ck_assert(!td_timing_may_pay(&t, 40500));
    ck_assert(td_timing_may_pay(&t, 41500));
    t.copy.call.n_args = 0;
    t.times = 2; /* of a part, of which a call has two */
    ck_assert(td_timing_may_pay(&t, 20500));
    ck_assert(td_timing_may_pay(&t, INFINITY));
    t.peak_ns = 0;
    ck_assert(td_timing_may_pay(&t, 10));
    struct td_options options;
    struct td_run run;
    struct td_measured m = {0};
    struct td_op fast = op;
    bind_tried(&run, &options);
    run.call.threads = 1;
    fast.flops = ten_us_flops;
    run.call.op = &fast;
    steady_us[0] = 14;
    for (int i = 0; i < 50 && m.n != 1; i++) /* a run may have been longer than it spins */
        ck_assert(td_try_rows(both, &run.call, false, &m));
    ck_assert_int_eq(m.n, 1);
    steady_us[0] = 100;
    ck_assert(td_try_rows(both, &run.call, false, &m));
    ck_assert_int_eq(m.n, 2);
    td_arena_destroy(options.alloc_arg);
}
END_TEST

static const void *given, *made;

static void look(const struct td_call *call)
{
    given = call->arg[0].tensor.data;
    made = call->out[0].data;
    ck_assert_int_eq(*(const unsigned char *)given, 0x3c);
    toy_run(call);
}

/* All trials of a plan's calls use the same memory, which is freed after the last one. */
START_TEST(test_same_memory)
{
    const struct td_impl two[] = {
        {.name = "look", .run = look, .dtypes = TD_ALL, .library = true, .prepare = takes},
        rows[2],
        rows[4],
        {0}};
    const struct td_impl single[] = {rows[0], rows[4], {0}};
    struct td_options options;
    struct td_run run;
    struct td_measured m;
    bind_tried(&run, &options);
    size_t used = td_memory.used;
    td_trials_begin();
    td_trials_begin();
    ck_assert(td_try_rows(two, &run.call, false, &m));
    const void *given_first = given, *made_first = made;
    size_t kept = td_memory.used;
    ck_assert_uint_gt(kept, used);
    td_trials_end();
    ck_assert(td_try_rows(single, &run.call, false, &m)); /* needs no memory, and frees none */
    ck_assert_uint_eq(td_memory.used, kept);
    ck_assert(td_try_rows(two, &run.call, false, &m));
    ck_assert_ptr_eq(given, given_first);
    ck_assert_ptr_eq(made, made_first);
    ck_assert_uint_eq(td_memory.used, kept);
    ck_assert(td_try_rows(two, &run.call, true, &m)); /* a client asked: it is freed */
    ck_assert_uint_eq(td_memory.used, used);
    ck_assert(td_try_rows(two, &run.call, false, &m));
    td_trials_end();
    ck_assert_uint_eq(td_memory.used, used);
    td_arena_destroy(options.alloc_arg);
}
END_TEST

/* If only one row takes the call, nothing is timed, and the call is not copied. */
START_TEST(test_single)
{
    const struct td_impl single[] = {rows[0], rows[4], {0}};
    struct td_options options;
    struct td_run run;
    struct td_measured m;
    bind_tried(&run, &options);
    size_t used = td_memory.used;
    td_memory.limit = used; /* nothing more can be allocated */
    ck_assert(td_try_rows(single, &run.call, false, &m));
    ck_assert_str_eq(m.row->name, "quick");
    ck_assert_int_eq(m.n, 1);
    ck_assert_int_eq(quick_ran, 0);
    ck_assert(!td_try_rows(rows, &run.call, false, &m)); /* a copy needs memory */
    ck_assert_uint_eq(td_memory.used, used);
    td_arena_destroy(options.alloc_arg);
}
END_TEST

#ifdef _OPENMP
struct crowded { /* a job that waits for its team, and then times rows */
    struct td_job job;
    struct td_run run;
    struct td_measured m;
    bool was_crowded, done;
    atomic_int ended;
};

static void try_crowded(struct td_job *job, struct td_worker *worker)
{
    struct crowded *c = (struct crowded *)job;
    (void)worker;
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num())
        usleep(200000);
    c->was_crowded = td_team_is_crowded();
    c->done = td_try_rows(c->run.rows, &c->run.call, false, &c->m);
    atomic_store(&c->ended, 1);
}

/* The first call of a kind is measured even if the machine is busy, because its result serves all
 * later calls. */
START_TEST(test_crowded)
{
    struct crowded c = {.job.run = try_crowded};
    struct td_options options;
    struct td_topology *topology;
    struct td_pools *pools;
    struct td_pool_config config = td_pool_config_default("all");
    char why[256];
    bind_tried(&c.run, &options);
    c.run.call.threads = 2;
    ck_assert_int_eq(td_topology_create(&topology), 0);
    ck_assert_int_eq(td_pools_create(&pools, topology), 0);
    ck_assert_int_eq(td_pools_add(pools, &config, why, sizeof why), 0);
    struct td_pool *pool = td_pools_find(pools, NULL);
    ck_assert_int_eq(td_pool_submit(pool, &c.job), 0);
    while (!atomic_load(&c.ended))
        usleep(1000);
    ck_assert(c.done);
    ck_assert_str_eq(c.m.row->name, "quick");
    ck_assert_int_eq(quick_threads, c.was_crowded ? 1 : 2);
    ck_assert_uint_eq(c.m.signature, td_kind_signature(&c.run.call));
    td_pool_unref(pool);
    td_pools_destroy(pools);
    td_topology_destroy(topology);
    td_arena_destroy(options.alloc_arg);
}
END_TEST
#endif

int main(void)
{
    const TTest *const tests[] = {
        test_hopeless, test_near_peak,   test_rounds, test_first_run,
        test_pay,      test_same_memory, test_single,
#ifdef _OPENMP
        test_crowded,
#endif
    };
    return td_run_tests("trial", tests, sizeof tests / sizeof *tests);
}
