/* What the tests of pools/ share: one suite a file, and a set of pools on a machine of choice. */
#ifndef TD_POOLS_TEST_H
#define TD_POOLS_TEST_H

#include "pools/pools.h"

#include "tests/run_tests.h"

#include <stdio.h>
#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static inline int td_test_run(Suite *suite)
{
#ifdef _OPENMP
    omp_get_level(); /* else the linker leaves the runtime out, and teams are of one */
#endif
    return td_run_suite(suite);
}

static inline int td_test_has_teams(void)
{
    struct td_runtime_facts facts;
    td_runtime_facts(&facts);
    return *facts.openmp != 0;
}

static inline int td_test_bind(int cpu)
{
    char text[16];
    snprintf(text, sizeof text, "%d", cpu);
    return td_bind_cpus(text);
}

struct td_machine {
    struct td_topology *topology;
    struct td_pools *pools;
    char problem[256];
};

/* synthetic: hwloc's description of a machine, NULL for the real one. */
static inline void td_machine_init(struct td_machine *machine, const char *synthetic)
{
    if (synthetic)
        setenv("HWLOC_SYNTHETIC", synthetic, 1);
    ck_assert_int_eq(td_topology_create(&machine->topology), 0);
    ck_assert_int_eq(td_pools_create(&machine->pools, machine->topology), 0);
    machine->problem[0] = 0;
}

static inline void td_machine_fini(struct td_machine *machine)
{
    td_pools_destroy(machine->pools);
    td_topology_destroy(machine->topology);
    unsetenv("HWLOC_SYNTHETIC");
}

/* Adds a pool from its text form and returns a reference. */
static inline struct td_pool *td_machine_pool(struct td_machine *machine, const char *text)
{
    struct td_pool_config config;
    ck_assert_int_eq(td_pool_config_parse(&config, text, machine->problem, sizeof machine->problem),
                     0);
    int error = td_pools_add(machine->pools, &config, machine->problem, sizeof machine->problem);
    ck_assert_msg(!error, "%s: %d: %s", text, error, machine->problem);
    struct td_pool *pool = td_pools_find(machine->pools, config.name);
    ck_assert_ptr_nonnull(pool);
    return pool;
}

/* A future with a copy of args; and the result of one, once it has ended. */
static inline struct td_future *td_test_submit(struct td_pool *pool, td_future_fn *run,
                                               const void *args, size_t bytes)
{
    struct td_future *future;
    struct td_future_config config = {.run = run, .args = args, .args_bytes = bytes};
    ck_assert_int_eq(td_future_submit(&future, pool, &config), 0);
    return future;
}

static inline int td_test_result(struct td_future *future)
{
    int result = 1;
    ck_assert_int_eq(td_future_wait(future, -1, &result), 0);
    return result;
}

/* The first CPU that this process may use, and the last. */
static inline void td_machine_cpus(const struct td_machine *machine, int *first, int *last)
{
    struct td_machine_facts facts;
    td_topology_facts(machine->topology, &facts);
    *first = *last = -1;
    for (int i = 0; i < facts.n_pus; i++)
        if (facts.pus[i].allowed) {
            *first = *first < 0 ? facts.pus[i].cpu : *first;
            *last = facts.pus[i].cpu;
        }
}

/* Two pools of one worker: a on the first of those CPUs, b on the last. */
static inline void td_machine_two_pools(struct td_machine *machine, struct td_pool **a,
                                        struct td_pool **b)
{
    char text[64];
    int first, last;
    td_machine_cpus(machine, &first, &last);
    snprintf(text, sizeof text, "a=%d", first);
    *a = td_machine_pool(machine, text);
    snprintf(text, sizeof text, "b=%d", last);
    *b = td_machine_pool(machine, text);
}

#endif
