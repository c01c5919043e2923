/* The machine from the inside: what topology.c reads and places.c answers from. */
#ifndef TD_MACHINE_H
#define TD_MACHINE_H

#include "pools/machine/cgroup.h"
#include "pools/machine/topology.h"

#include <hwloc.h>
#include <pthread.h>

struct td_topology {
    hwloc_topology_t hwloc;
    hwloc_bitmap_t wanted; /* the CPUs to ask the kernel for */
    char root[256];        /* of the control groups' files */
    pthread_mutex_t lock;  /* of what follows */
    hwloc_bitmap_t allowed;
    struct td_cgroup cgroup;
    struct td_machine_facts facts;
};

#endif
