/* Where things are on the machine: CPUs and their nodes, and on which node memory lies. All of it
 * is constant but for which CPUs are allowed, so no lock is taken. */
#include "pools/machine/machine.h"
#include "pools/machine/runtime.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

int td_topology_cpus(const struct td_topology *topology, int node, struct td_cpus *cpus)
{
    const struct td_machine_facts *facts = &topology->facts;
    if (node >= td_topology_nodes(topology))
        return -EINVAL;
    for (int i = 0; i < facts->n_pus; i++) {
        const struct td_pu *pu = &facts->pus[i];
        bool there = node < 0 || (pu->numa_node < 0 ? 0 : pu->numa_node) == node;
        if (there && pu->allowed && td_cpus_append(cpus, pu->cpu)) {
            td_cpus_fini(cpus);
            return -ENOMEM;
        }
    }
    return 0;
}

int td_bind_allowed(const struct td_topology *topology)
{
    struct td_cpus cpus = {0};
    int error = td_topology_cpus(topology, -1, &cpus);
    if (!error)
        error = td_runtime_bind(&cpus);
    td_cpus_fini(&cpus);
    return error;
}

static const struct td_pu *pu_of(const struct td_topology *topology, int cpu)
{
    for (int i = 0; i < topology->facts.n_pus; i++)
        if (topology->facts.pus[i].cpu == cpu)
            return &topology->facts.pus[i];
    return NULL;
}

bool td_topology_allows(const struct td_topology *topology, int cpu)
{
    const struct td_pu *pu = pu_of(topology, cpu);
    return pu && pu->allowed;
}

void td_topology_spread(const struct td_topology *topology, struct td_cpus *cpus)
{
    int placed = 0;
    for (int i = 0; i < cpus->n; i++) { /* a CPU whose core has none before it moves forward */
        int cpu = cpus->cpu[i], core = pu_of(topology, cpu)->core;
        bool taken = false;
        for (int k = 0; k < placed; k++)
            taken = taken || (core >= 0 && pu_of(topology, cpus->cpu[k])->core == core);
        if (taken)
            continue;
        memmove(cpus->cpu + placed + 1, cpus->cpu + placed, (i - placed) * sizeof(int));
        cpus->cpu[placed++] = cpu;
    }
}

int td_topology_node(const struct td_topology *topology, const struct td_cpus *cpus)
{
    int node = cpus->n ? pu_of(topology, cpus->cpu[0])->numa_node : -1;
    for (int i = 1; i < cpus->n; i++)
        if (pu_of(topology, cpus->cpu[i])->numa_node != node)
            return -1;
    return node;
}

int td_topology_nodes(const struct td_topology *topology)
{
    return topology->facts.n_numa_nodes > 1 ? topology->facts.n_numa_nodes : 1;
}

int td_topology_node_here(const struct td_topology *topology)
{
    unsigned cpu, number;
    if (td_topology_nodes(topology) == 1 || getcpu(&cpu, &number))
        return 0;
    hwloc_obj_t node = hwloc_get_numanode_obj_by_os_index(topology->hwloc, number);
    return node ? (int)node->logical_index : 0;
}

int td_topology_node_of(const struct td_topology *topology, const void *memory)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    int node = -1;
    if (set && hwloc_topology_is_thissystem(topology->hwloc) &&
        !hwloc_get_area_memlocation(topology->hwloc, memory, 1, set, HWLOC_MEMBIND_BYNODESET)) {
        hwloc_obj_t obj =
            hwloc_get_numanode_obj_by_os_index(topology->hwloc, (unsigned)hwloc_bitmap_first(set));
        node = obj ? (int)obj->logical_index : -1;
    }
    hwloc_bitmap_free(set);
    return node;
}

int td_topology_bind_memory(const struct td_topology *topology, void *memory, size_t bytes,
                            int node)
{
    hwloc_obj_t obj = hwloc_get_obj_by_type(topology->hwloc, HWLOC_OBJ_NUMANODE, node);
    if (!obj)
        return -EINVAL;
    if (hwloc_set_area_membind(topology->hwloc, memory, bytes, obj->nodeset, HWLOC_MEMBIND_BIND,
                               HWLOC_MEMBIND_BYNODESET))
        return -errno;
    return 0;
}
