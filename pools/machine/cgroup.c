/* The CPU time, CPUs and memory that control groups leave to this process, for versions 1 and 2.
 *
 * A limit holds for a group and all below it, so the least one on the way up to the mount point
 * counts; a container usually sees only its own group there, and its runtime's limit is then that
 * group's. The mount table says where each controller lives and which part of the hierarchy is
 * mounted, since neither is the same inside and outside a container. Files are small, and read anew
 * twice a second (watch.c); a root other than "" lets tests lay out machines of their own. */
#include "pools/machine/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH 1024
#define MEMORY_MAX (UINT64_C(1) << 60) /* bytes; from here on it is no limit */

/* Whether the comma-separated list holds the word. */
static bool lists(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ',') && (at[n] == ',' || !at[n]))
            return true;
    return false;
}

/* Reads the first line of DIR/NAME. */
static bool line(char *text, size_t size, const char *dir, const char *name)
{
    char path[PATH + 64];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    bool got = fgets(text, (int)size, file);
    fclose(file);
    if (got)
        text[strcspn(text, "\n")] = 0;
    return got;
}

/* The process's group in the hierarchy of a controller; controller "" is version 2's hierarchy. */
static bool group_of(const char *root, const char *controller, char *group, size_t size)
{
    char path[PATH], text[PATH];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "r");
    bool found = false;
    while (file && !found && fgets(text, sizeof text, file)) {
        char *list = strchr(text, ':'), *at = list ? strchr(list + 1, ':') : NULL;
        if (!at)
            continue;
        *list++ = *at++ = 0;
        at[strcspn(at, "\n")] = 0;
        found = *controller ? lists(list, controller) : !strcmp(text, "0") && !*list;
        if (found)
            snprintf(group, size, "%s", at);
    }
    if (file)
        fclose(file);
    return found;
}

/* Where the controller's hierarchy is mounted (point) and which group of it is seen there (top). */
static bool mount_of(const char *root, const char *controller, char *point, char *top, size_t size)
{
    char path[PATH], text[2 * PATH], type[32], options[PATH];
    snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
    FILE *file = fopen(path, "r");
    bool found = false;
    while (file && !found && fgets(text, sizeof text, file)) {
        char from[512], to[512];
        const char *rest = strstr(text, " - ");
        if (!rest || sscanf(text, "%*s %*s %*s %511s %511s", from, to) != 2 ||
            sscanf(rest, " - %31s %*s %1023s", type, options) != 2)
            continue;
        found = *controller ? !strcmp(type, "cgroup") && lists(options, controller)
                            : !strcmp(type, "cgroup2");
        if (found) {
            snprintf(point, size, "%s%s", root, to);
            snprintf(top, size, "%s", from);
        }
    }
    if (file)
        fclose(file);
    return found;
}

/* The directory of the process's group for the controller, and the length of its mount point. */
static bool directory(const char *root, const char *controller, char *group, size_t group_size,
                      char *dir, size_t dir_size, size_t *mount_length)
{
    char top[PATH];
    if (!group_of(root, controller, group, group_size) ||
        !mount_of(root, controller, dir, top, dir_size))
        return false;
    size_t n = strcmp(top, "/") ? strlen(top) : 0;
    const char *below = group;
    if (!strncmp(group, top, n) && (group[n] == '/' || !group[n]))
        below = group + n;
    else
        below = ""; /* mounted from elsewhere: what is seen at the mount point is all there is */
    *mount_length = strlen(dir);
    if (strcmp(below, "/"))
        snprintf(dir + *mount_length, dir_size - *mount_length, "%s", below);
    return true;
}

/* One step up; false at the mount point. */
static bool up(char *dir, size_t mount_length)
{
    char *slash = strrchr(dir, '/');
    if (!slash || (size_t)(slash - dir) < mount_length)
        return false;
    *slash = 0;
    return true;
}

/* The quota that one directory states, 0 when none. */
static double quota_at(const char *dir, bool v2)
{
    char text[64];
    double quota, period = 100000;
    if (v2) {
        if (!line(text, sizeof text, dir, "cpu.max") ||
            sscanf(text, "%lf %lf", &quota, &period) < 1) /* "max" is no number */
            return 0;
    } else {
        if (!line(text, sizeof text, dir, "cpu.cfs_quota_us"))
            return 0;
        quota = strtod(text, NULL);
        if (line(text, sizeof text, dir, "cpu.cfs_period_us"))
            period = strtod(text, NULL);
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}

static void read_quota(struct td_cgroup *group, const char *root, bool v2)
{
    char dir[PATH], name[sizeof group->path], text[64];
    size_t top;
    if (!directory(root, v2 ? "" : "cpu", name, sizeof name, dir, sizeof dir, &top))
        return;
    if (!group->path[0] || !v2)
        snprintf(group->path, sizeof group->path, "%s", name);
    do {
        double quota = quota_at(dir, v2);
        bool least = quota > 0 && (group->quota <= 0 || quota < group->quota);
        if (least)
            group->quota = quota;
        if ((least || !group->stat[0]) && line(text, sizeof text, dir, "cpu.stat"))
            snprintf(group->stat, sizeof group->stat, "%.*s/cpu.stat", PATH, dir);
    } while (up(dir, top));
}

static void read_cpuset(struct td_cgroup *group, const char *root, bool v2)
{
    static const char *const files[] = {"cpuset.effective_cpus", "cpuset.cpus"};
    char dir[PATH], name[256], text[4096], problem[128];
    size_t top;
    if (!directory(root, v2 ? "" : "cpuset", name, sizeof name, dir, sizeof dir, &top))
        return;
    do { /* the nearest group that says anything; it lies within its parents' */
        if (v2 ? line(text, sizeof text, dir, "cpuset.cpus.effective")
               : line(text, sizeof text, dir, files[0]) || line(text, sizeof text, dir, files[1]))
            td_cpus_parse(&group->cpuset, text, problem, sizeof problem);
    } while (!group->cpuset.n && up(dir, top));
}

/* Version 1 writes "no limit" as the highest multiple of a page, version 2 as "max". */
static void read_memory(struct td_cgroup *group, const char *root, bool v2)
{
    char dir[PATH], name[256], text[64];
    size_t top;
    if (!directory(root, v2 ? "" : "memory", name, sizeof name, dir, sizeof dir, &top))
        return;
    do {
        if (!line(text, sizeof text, dir, v2 ? "memory.max" : "memory.limit_in_bytes"))
            continue;
        uint64_t limit = strtoull(text, NULL, 10);
        if (limit > 0 && limit < MEMORY_MAX && (!group->memory || limit < group->memory))
            group->memory = limit;
    } while (up(dir, top));
}

void td_cgroup_init(struct td_cgroup *group, const char *root)
{
    *group = (struct td_cgroup){0};
    read_quota(group, root, true);
    read_quota(group, root, false);
    read_cpuset(group, root, true);
    if (!group->cpuset.n)
        read_cpuset(group, root, false);
    read_memory(group, root, true);
    read_memory(group, root, false);
}

void td_cgroup_fini(struct td_cgroup *group)
{
    td_cpus_fini(&group->cpuset);
}

int64_t td_cgroup_throttled(const struct td_cgroup *group)
{
    int64_t throttled = -1;
    char text[128];
    FILE *file = group->stat[0] ? fopen(group->stat, "r") : NULL;
    while (file && fgets(text, sizeof text, file)) {
        long long value;
        if (sscanf(text, "nr_throttled %lld", &value) == 1)
            throttled = value;
    }
    if (file)
        fclose(file);
    return throttled;
}
