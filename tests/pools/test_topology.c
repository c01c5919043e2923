/* pools/machine/topology.c: synthetic machines, and the real one as this process may use it. */
#include "pools/machine/topology.h"

#include "pools_test.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <time.h>

static struct td_machine_facts facts;

static struct td_topology *machine(const char *synthetic)
{
    struct td_topology *topology;
    setenv("HWLOC_SYNTHETIC", synthetic, 1);
    ck_assert_int_eq(td_topology_create(&topology), 0);
    unsetenv("HWLOC_SYNTHETIC");
    td_topology_facts(topology, &facts);
    return topology;
}

START_TEST(test_synthetic)
{
    struct td_topology *t = machine("package:2 [numa] l3:1(size=33554432) core:4 l1i:1 pu:2");
    ck_assert_int_eq(facts.n_packages, 2);
    ck_assert_int_eq(facts.n_numa_nodes, 2);
    ck_assert_int_eq(facts.n_cores, 8);
    ck_assert_int_eq(facts.n_pus, 16);
    ck_assert_int_eq(facts.n_allowed, 16);
    ck_assert_str_eq(facts.allowed, "0-15");
    ck_assert_int_eq(facts.default_threads, 16);
    ck_assert(facts.pin_by_default);
    ck_assert_int_eq(facts.quota, 0);
    ck_assert_int_eq(facts.nr_throttled, -1);
    ck_assert_str_eq(facts.cgroup, "");
    ck_assert_int_eq(facts.pus[15].core, 7);
    ck_assert_int_eq(facts.pus[15].package, 1);
    ck_assert_int_eq(facts.pus[15].numa_node, 1);
    int l3 = 0, instruction = 0;
    for (int i = 0; i < facts.n_caches; i++) {
        l3 += facts.caches[i].level == 3 && facts.caches[i].size == 33554432;
        instruction += facts.caches[i].type == 'i';
    }
    ck_assert_int_eq(l3, 2);
    ck_assert_int_eq(instruction, 8);
    td_topology_destroy(t);
}
END_TEST

/* RT-5: one hardware thread of each core comes before the others. */
START_TEST(test_physical_cores_first)
{
    struct td_topology *t = machine("package:2 [numa] core:2 pu:2");
    struct td_cpus cpus = {0};
    static const int want[] = {4, 6, 5, 7};
    ck_assert_int_eq(td_topology_cpus(t, 1, &cpus), 0);
    td_topology_spread(t, &cpus);
    ck_assert_int_eq(cpus.n, 4);
    ck_assert_mem_eq(cpus.cpu, want, sizeof want);
    ck_assert_int_eq(td_topology_node(t, &cpus), 1);
    ck_assert_int_eq(td_cpus_append(&cpus, 0), 0);
    ck_assert_int_eq(td_topology_node(t, &cpus), -1);
    td_cpus_fini(&cpus);
    ck_assert_int_eq(td_topology_cpus(t, 2, &cpus), -EINVAL);
    td_topology_destroy(t);
}
END_TEST

/* RT-7: pages can be put on a node that exists. */
START_TEST(test_memory_is_bound)
{
    struct td_topology *t = machine("package:2 [numa] core:2 pu:1");
    void *page = aligned_alloc(4096, 4096);
    ck_assert_int_eq(td_topology_nodes(t), 2);
    ck_assert_int_eq(td_topology_bind_memory(t, page, 4096, 1), 0);
    ck_assert_int_eq(td_topology_bind_memory(t, page, 4096, 2), -EINVAL);
    free(page);
    td_topology_destroy(t);
}
END_TEST

/* RT-3, RT-4: on the real machine the mask the process was started with is the allowed set. */
START_TEST(test_mask_of_the_process)
{
    struct td_cpus mask = {0};
    struct td_topology *t;
    ck_assert_int_eq(td_affinity_get(0, &mask), 0);
    ck_assert_int_eq(td_topology_create(&t), 0);
    td_topology_facts(t, &facts);
    ck_assert_int_le(facts.n_allowed, mask.n);
    for (int i = 0; i < facts.n_pus; i++)
        if (facts.pus[i].allowed)
            ck_assert(td_cpus_has(&mask, facts.pus[i].cpu));
    td_topology_destroy(t);

    int one = mask.cpu[mask.n - 1];
    ck_assert_int_eq(td_topology_create(&t), 0);
    ck_assert_int_eq(td_test_bind(one), 0);
    ck_assert_int_eq(td_bind_allowed(t), 0);
    struct td_cpus again = {0};
    ck_assert_int_eq(td_affinity_get(0, &again), 0);
    ck_assert_int_eq(again.n, facts.n_allowed);
    td_cpus_fini(&again);
    td_topology_destroy(t);
    ck_assert_int_eq(td_test_bind(one), 0);
    ck_assert_int_eq(td_topology_create(&t), 0);
    td_topology_facts(t, &facts);
    ck_assert_int_eq(facts.n_allowed, 1);
    ck_assert_int_eq(atoi(facts.allowed), one);
    ck_assert_int_eq(facts.default_threads, 1);
    for (int i = 0; i < facts.n_pus; i++) {
        bool is_it = facts.pus[i].cpu == one;
        ck_assert(facts.pus[i].allowed == is_it);
        ck_assert(td_topology_allows(t, facts.pus[i].cpu) == is_it);
    }
    td_topology_destroy(t);
    td_cpus_fini(&mask);
}
END_TEST

static int count_files(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* How long CPUs have worked: in seconds, of those there are, as often as one likes. */
START_TEST(test_busy)
{
    struct td_topology *t;
    double seconds[4096], later[4096];
    ck_assert_int_eq(td_topology_create(&t), 0);
    td_topology_facts(t, &facts);
    td_cpus_busy(seconds, 4096);
    int files = count_files();
    clock_t begin = clock();
    while (clock() - begin < CLOCKS_PER_SEC / 10)
        ;
    for (int i = 0; i < 10; i++)
        td_cpus_busy(later, 4096);
    ck_assert_int_eq(count_files(), files);
    double worked = 0;
    int n = 0;
    for (int cpu = 0; cpu < 4096; cpu++) {
        ck_assert(seconds[cpu] >= 0 || seconds[cpu] == -1);
        ck_assert(later[cpu] >= seconds[cpu]);
        worked += later[cpu] - seconds[cpu];
        n += seconds[cpu] >= 0;
    }
    ck_assert_int_ge(n, facts.n_allowed);
    ck_assert(worked > 0.05);
    td_topology_destroy(t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("topology");
    TCase *tcase = tcase_create("topology");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, test_synthetic);
    tcase_add_test(tcase, test_physical_cores_first);
    tcase_add_test(tcase, test_memory_is_bound);
    tcase_add_test(tcase, test_mask_of_the_process);
    tcase_add_test(tcase, test_busy);
    suite_add_tcase(suite, tcase);
    return td_test_run(suite);
}
