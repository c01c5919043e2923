/* A service with one pool of one worker, whose handlers are called without a socket. */
#ifndef TD_TESTS_FUZZ_SERVICE_H
#define TD_TESTS_FUZZ_SERVICE_H

#include "api/api.h"
#include "pools/machine/runtime.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>

static struct td_service service;

static inline void service_fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(2);
}

/* Tasks and models run for as long as WORK_NS. */
static inline void service_start(void)
{
    struct td_problem problem = {""};
    struct td_pool_config pool = td_pool_config_default("default");
    fuzz_start();
    pool.threads = 1;
    pool.pinned = 0;
    if (td_runtime_init("none", problem.text, sizeof problem.text) ||
        td_topology_create(&service.topology) ||
        td_pools_create(&service.pools, service.topology) ||
        td_pools_add(service.pools, &pool, problem.text, sizeof problem.text))
        service_fail(problem.text);
    service.limits = (struct td_limits){.body = 1 << 20,
                                        .headers = 1 << 13,
                                        .json_depth = 32,
                                        .task_ttl_s = 60,
                                        .tasks = 16,
                                        .task_bytes = 4 << 20,
                                        .store_bytes = 16 << 20,
                                        .session_bytes = 1 << 20,
                                        .session_ttl_s = 600,
                                        .timeout_ms = WORK_NS / 1000000};
    service.shm_clients = TD_SHM_off;
    if (td_service_init(&service))
        service_fail("no memory for the service");
}

/* What an input has left in it goes: the next one is to find it as this one did. */
static inline void service_renew(void)
{
    while (atomic_load(&service.front.in_flight)) /* tasks */
        usleep(100);
    td_service_fini(&service);
    if (td_service_init(&service))
        service_fail("no memory for the service");
}

#endif
