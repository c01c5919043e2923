/* What the rest of pools/ asks the topology. */
#ifndef TD_TOPOLOGY_H
#define TD_TOPOLOGY_H

#include "pools/machine/cpus.h"
#include "pools/pools.h"

/* td_topology_create with the control groups' files below root instead of /. */
int td_topology_create_at(struct td_topology **topology, const char *root);

/* Reads anew what may change: the CPUs that the process may use and the limits of its groups. 1:
 * other CPUs or another quota, 0: as before; -ENOMEM. The calling thread may afterwards run on all
 * CPUs that the process may use. */
int td_topology_refresh(struct td_topology *topology);

/* False on a synthetic machine (HWLOC_SYNTHETIC), and with backend "none". */
bool td_topology_can_bind(const struct td_topology *topology);

/* The allowed CPUs of a NUMA node, or of the machine with node -1, siblings of a core side by side.
 * cpus must be empty. -EINVAL: no such node; -ENOMEM. A machine without nodes has node 0. */
int td_topology_cpus(const struct td_topology *topology, int node, struct td_cpus *cpus);
bool td_topology_allows(const struct td_topology *topology, int cpu);
/* Reorders: one CPU of each core first, then the cores' other hardware threads. */
void td_topology_spread(const struct td_topology *topology, struct td_cpus *cpus);
/* The node that all the CPUs belong to, -1 when they span several. */
int td_topology_node(const struct td_topology *topology, const struct td_cpus *cpus);

int td_topology_nodes(const struct td_topology *topology);     /* at least 1 */
int td_topology_node_here(const struct td_topology *topology); /* of the calling thread */
/* The node on which the page at memory lies, which must have been touched; -1: the kernel does not
 * say. */
int td_topology_node_of(const struct td_topology *topology, const void *memory);
/* Puts pages not yet touched on the node. 0 or -errno. */
int td_topology_bind_memory(const struct td_topology *topology, void *memory, size_t bytes,
                            int node);

#endif
