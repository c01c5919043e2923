/* Control groups laid out below a directory of the test's own, for machines that hwloc makes up. */
#ifndef TD_GROUPS_TEST_H
#define TD_GROUPS_TEST_H

#include "pools/machine/topology.h"
#include "pools_test.h"

#include <string.h>
#include <sys/stat.h>

static char root[64];

static inline void set_up(void)
{
    strcpy(root, "/tmp/td_cgroup_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static inline void tear_down(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    ck_assert_int_eq(system(command), 0);
    unsetenv("HWLOC_SYNTHETIC");
}

/* Writes a file below root, making its directories. */
static inline void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(full, 0755);
    }
    FILE *file = fopen(full, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static struct td_machine_facts facts;

static inline struct td_topology *machine(const char *synthetic)
{
    struct td_topology *topology;
    setenv("HWLOC_SYNTHETIC", synthetic, 1);
    ck_assert_int_eq(td_topology_create_at(&topology, root), 0);
    td_topology_facts(topology, &facts);
    return topology;
}

#define MOUNT_V2 "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"

#endif
