/* What tests of futures begin with: a machine with two pools, anew for each test. */
#ifndef TD_FUTURES_TEST_H
#define TD_FUTURES_TEST_H

#include "pools_test.h"

static struct td_machine machine;
static struct td_pool *a, *b;

static inline void set_up(void)
{
    td_machine_init(&machine, NULL);
    td_machine_two_pools(&machine, &a, &b);
}

static inline void tear_down(void)
{
    td_pool_unref(a);
    td_pool_unref(b);
    td_machine_fini(&machine);
}

#endif
