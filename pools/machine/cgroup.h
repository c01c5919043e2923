/* What the process's control groups grant, inside pools/ only. */
#ifndef TD_CGROUP_H
#define TD_CGROUP_H

#include "pools/machine/cpus.h"

#include <stdint.h>

struct td_cgroup {
    char path[256];        /* the process's group for CPU time; "" when there is none */
    double quota;          /* CPUs' worth of time, the least of the group and its parents; 0 none */
    char stat[1040];       /* the cpu.stat of the group whose quota counts; "" when there is none */
    struct td_cpus cpuset; /* the group's CPUs; empty when it does not say */
    uint64_t memory;       /* bytes, the least of the group and its parents; 0 no limit */
};

/* Reads ROOT/proc/self/{cgroup,mountinfo} and the files below ROOT/<mount point>; root is "" for
 * the real machine. Never fails: what cannot be read is absent. */
void td_cgroup_init(struct td_cgroup *group, const char *root);
void td_cgroup_fini(struct td_cgroup *group);
int64_t td_cgroup_throttled(const struct td_cgroup *group); /* nr_throttled now; -1 unknown */

#endif
