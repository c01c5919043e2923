/* What pools/ asks of the system, which is one of 4096 CPUs and two NUMA nodes here: the linker
 * gives its calls to this file (--wrap). */
#include "pools/machine/cpus.h"
#include "pools/memory/buffer.h"
#include "pools_test.h"

#include <errno.h>
#include <hwloc.h>
#include <sched.h>
#include <string.h>

#define CPUS 4096
#define MASK (CPUS / 8) /* bytes */

static unsigned char mask[MASK]; /* of the calling thread */
static int refused;              /* calls with a mask that is too small */

int __wrap_sched_getaffinity(pid_t tid, size_t size, cpu_set_t *set);       /* NOLINT */
int __wrap_sched_setaffinity(pid_t tid, size_t size, const cpu_set_t *set); /* NOLINT */

/* As Linux does: a mask smaller than its own is refused. */
int __wrap_sched_getaffinity(pid_t tid, size_t size, cpu_set_t *set)
{
    (void)tid;
    if (size < MASK) {
        refused++;
        errno = EINVAL;
        return -1;
    }
    memset(set, 0, size);
    memcpy(set, mask, MASK);
    return 0;
}

/* Here a smaller one is filled up with zeros. */
int __wrap_sched_setaffinity(pid_t tid, size_t size, const cpu_set_t *set)
{
    (void)tid;
    memset(mask, 0, MASK);
    memcpy(mask, set, size < MASK ? size : MASK);
    return 0;
}

/* RT-6: masks are as large as the machine needs, both ways. */
START_TEST(test_more_cpus_than_1024)
{
    static const int want[] = {0, 1023, 1024, 2999, 4095};
    static const int n = sizeof want / sizeof *want;
    for (int k = 1; k <= n; k++) {
        struct td_cpus cpus = {0}, is = {0};
        char text[TD_CPUS_TEXT];
        ck_assert_int_eq(td_cpus_copy(&cpus, want, k), 0);
        ck_assert_int_eq(td_affinity_set(0, &cpus), 0);
        int members = 0;
        for (int cpu = 0; cpu < CPUS; cpu++)
            members += mask[cpu / 8] >> cpu % 8 & 1;
        ck_assert_int_eq(members, k);
        refused = 0;
        ck_assert_int_eq(td_affinity_get(0, &is), 0);
        ck_assert_int_eq(refused, 2); /* of 1024 and 2048 */
        td_cpus_format(&is, text, sizeof text);
        ck_assert_msg(td_cpus_equal(&is, &cpus), "%s", text);
        td_cpus_fini(&is);
        td_cpus_fini(&cpus);
    }
}
END_TEST

static struct { /* the last area that was bound */
    char *begin;
    size_t bytes;
    int node, times;
    bool strictly;
} bound;

int __wrap_hwloc_set_area_membind(hwloc_topology_t topology, const void *begin, size_t bytes,
                                  hwloc_const_bitmap_t set, hwloc_membind_policy_t policy,
                                  int flags);

int __wrap_hwloc_set_area_membind(hwloc_topology_t topology, const void *begin, size_t bytes,
                                  hwloc_const_bitmap_t set, hwloc_membind_policy_t policy,
                                  int flags)
{
    ck_assert_ptr_nonnull(topology);
    ck_assert_int_eq(hwloc_bitmap_weight(set), 1);
    bound.begin = (char *)begin;
    bound.bytes = bytes;
    bound.node = hwloc_bitmap_first(set);
    bound.strictly = policy == HWLOC_MEMBIND_BIND && flags == HWLOC_MEMBIND_BYNODESET;
    bound.times++;
    return 0;
}

static void expect_bound(const char *block, size_t bytes, int node)
{
    ck_assert(bound.strictly && bound.times == 1 && bound.node == node);
    ck_assert(bound.begin <= block && block + bytes <= bound.begin + bound.bytes);
    bound.times = 0;
}

/* RT-7: each new block is bound to its node, with all its bytes, whichever way it is asked for; a
 * block that is used again is not bound anew. */
START_TEST(test_blocks_are_bound)
{
    struct td_machine machine;
    td_machine_init(&machine, "package:2 [numa] core:4 pu:1");
    for (size_t bytes = 100000; bytes < 9000000; bytes *= 8)
        for (int node = 0; node < 2; node++) {
            bound.times = 0;
            struct td_buffer *block = td_buffer_get(bytes, node);
            ck_assert_ptr_nonnull(block);
            expect_bound((char *)block + TD_BUFFER_HEADER, bytes, node);
            td_buffer_put(block);
            ck_assert_ptr_eq(td_buffer_get(bytes, node), block);
            ck_assert_int_eq(bound.times, 0);
            struct td_buffer *later = td_buffer_reserve(bytes, node);
            ck_assert_ptr_nonnull(later);
            expect_bound((char *)later + TD_BUFFER_HEADER, bytes, node);
            td_buffer_put(later);
            td_buffer_put(block);
        }
    td_machine_fini(&machine);
    ck_assert_uint_eq(td_memory_kept(), 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_more_cpus_than_1024, test_blocks_are_bound};
    return td_run_tests("system", tests, sizeof tests / sizeof *tests);
}
