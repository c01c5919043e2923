/* The machine as this process may use it: what hwloc sees, less the CPUs outside the affinity mask
 * and the cpuset, and the CPU time that the control groups grant.
 *
 * The machine is read once at start (about 2 ms). What the process may use of it can change while
 * it runs (a kubelet that hands out CPUs, `docker update`) and is read anew by td_topology_refresh;
 * `lock` guards that part, but for the CPUs' flags, which are set one by one.
 *
 * The affinity mask counts as the one the process was started with (taskset, numactl): whoever
 * restricts the process thereby restricts every pool. Asked for it again, the kernel gives what is
 * left of it within the cpuset of that moment; a process that was started on all that its cpuset
 * had asks for everything. On a synthetic machine all CPUs count as allowed, so that tests can lay
 * out pools of any size. */
#include "pools/machine/machine.h"
#include "pools/machine/runtime.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Its CPUs are this machine's, and threads can be bound to them. */
static bool is_real(const struct td_topology *topology)
{
    return hwloc_topology_is_thissystem(topology->hwloc);
}

static void format(hwloc_const_bitmap_t set, char *text, size_t size)
{
    struct td_cpus cpus = {0};
    int cpu;
    hwloc_bitmap_foreach_begin(cpu, set) if (td_cpus_append(&cpus, cpu)) break;
    hwloc_bitmap_foreach_end();
    td_cpus_format(&cpus, text, size);
    td_cpus_fini(&cpus);
}

static int load(struct td_topology *t)
{
    if (hwloc_topology_init(&t->hwloc)) {
        t->hwloc = NULL;
        return -ENOMEM;
    }
    hwloc_topology_set_flags(t->hwloc, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    hwloc_topology_set_icache_types_filter(t->hwloc, HWLOC_TYPE_FILTER_KEEP_ALL);
    return hwloc_topology_load(t->hwloc) ? -EIO : 0;
}

static hwloc_const_bitmap_t all_of(const struct td_topology *t)
{
    return hwloc_topology_get_complete_cpuset(t->hwloc);
}

/* Asks the kernel for CPUs (NULL: not for others), and says what the calling thread has then. NULL:
 * none of them are granted, or out of memory. */
static hwloc_bitmap_t ask(const struct td_topology *t, hwloc_const_bitmap_t cpus)
{
    hwloc_bitmap_t mask = hwloc_bitmap_alloc();
    if (mask && (!cpus || !hwloc_set_cpubind(t->hwloc, cpus, HWLOC_CPUBIND_THREAD)) &&
        !hwloc_get_cpubind(t->hwloc, mask, HWLOC_CPUBIND_THREAD))
        return mask;
    hwloc_bitmap_free(mask);
    return NULL;
}

/* All, unless the process was started on fewer CPUs than its cpuset has. */
static int find_wanted(struct td_topology *t)
{
    hwloc_bitmap_t mask = is_real(t) ? ask(t, NULL) : NULL, most = mask ? ask(t, all_of(t)) : NULL;
    bool fewer = mask && !(most && hwloc_bitmap_isequal(mask, most));
    t->wanted = hwloc_bitmap_dup(fewer ? mask : all_of(t));
    hwloc_bitmap_free(mask);
    hwloc_bitmap_free(most);
    return t->wanted ? 0 : -ENOMEM;
}

/* What the kernel and the groups grant now. NULL: out of memory. */
static hwloc_bitmap_t find_allowed(const struct td_topology *t, const struct td_cgroup *cgroup)
{
    hwloc_bitmap_t allowed = is_real(t) ? ask(t, t->wanted) : NULL, group = hwloc_bitmap_alloc();
    if (!allowed)
        allowed = is_real(t) ? ask(t, all_of(t)) : NULL;
    if (!allowed)
        allowed = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(t->hwloc));
    for (int i = 0; i < cgroup->cpuset.n && group; i++)
        hwloc_bitmap_set(group, cgroup->cpuset.cpu[i]);
    if (allowed && group && hwloc_bitmap_intersects(allowed, group)) /* else stale, or foreign */
        hwloc_bitmap_and(allowed, allowed, group);
    hwloc_bitmap_free(group);
    return allowed;
}

static int logical(hwloc_topology_t hwloc, hwloc_obj_type_t type, hwloc_obj_t below)
{
    hwloc_obj_t obj = hwloc_get_ancestor_obj_by_type(hwloc, type, below);
    return obj ? (int)obj->logical_index : -1;
}

static int node_of(hwloc_topology_t hwloc, hwloc_const_bitmap_t cpuset)
{
    hwloc_obj_t node = NULL;
    while ((node = hwloc_get_next_obj_by_type(hwloc, HWLOC_OBJ_NUMANODE, node)))
        if (hwloc_bitmap_isincluded(cpuset, node->cpuset))
            return (int)node->logical_index;
    return -1;
}

static int list_pus(struct td_topology *t)
{
    struct td_machine_facts *facts = &t->facts;
    facts->pus = calloc(facts->n_pus ? facts->n_pus : 1, sizeof *facts->pus);
    if (!facts->pus)
        return -ENOMEM;
    hwloc_obj_t pu = NULL;
    for (int i = 0; (pu = hwloc_get_next_obj_by_type(t->hwloc, HWLOC_OBJ_PU, pu)); i++)
        facts->pus[i] = (struct td_pu){
            .cpu = (int)pu->os_index,
            .core = logical(t->hwloc, HWLOC_OBJ_CORE, pu),
            .package = logical(t->hwloc, HWLOC_OBJ_PACKAGE, pu),
            .numa_node = node_of(t->hwloc, pu->cpuset),
        };
    return 0;
}

static int list_caches(struct td_topology *t)
{
    struct td_machine_facts *facts = &t->facts;
    for (int depth = 0; depth < hwloc_topology_get_depth(t->hwloc); depth++) {
        if (!hwloc_obj_type_is_cache(hwloc_get_depth_type(t->hwloc, depth)))
            continue;
        int n = (int)hwloc_get_nbobjs_by_depth(t->hwloc, depth);
        struct td_cache *more = realloc(facts->caches, (facts->n_caches + n) * sizeof *more);
        if (!more)
            return -ENOMEM;
        facts->caches = more;
        for (int i = 0; i < n; i++) {
            hwloc_obj_t obj = hwloc_get_obj_by_depth(t->hwloc, depth, i);
            struct hwloc_cache_attr_s *attr = &obj->attr->cache;
            struct td_cache *cache = &more[facts->n_caches++];
            *cache = (struct td_cache){(int)attr->depth, "udi"[attr->type], attr -> size,
                                       (int)attr -> linesize, ""};
            format(obj->cpuset, cache->cpus, sizeof cache->cpus);
        }
    }
    return 0;
}

/* How many threads by default, and whether to pin them. A quota smaller than the mask is spent by
 * all threads together: more of them than it pays for get the group throttled, and a pinned thread
 * cannot move to where there is time. */
static void decide(struct td_topology *t)
{
    struct td_machine_facts *facts = &t->facts;
    facts->default_threads = facts->n_allowed;
    facts->pin_by_default = true;
    if (facts->quota > 0 && facts->quota < facts->n_allowed) {
        facts->default_threads = facts->quota < 1 ? 1 : (int)facts->quota;
        facts->pin_by_default = false;
        snprintf(facts->decision, sizeof facts->decision,
                 "%d thread%s, not pinned: the control group grants %.2f CPUs' worth of time, "
                 "rounded down, on %d allowed CPUs",
                 facts->default_threads, facts->default_threads == 1 ? "" : "s", facts->quota,
                 facts->n_allowed);
    } else {
        snprintf(facts->decision, sizeof facts->decision,
                 "%d thread%s, pinned: one for each allowed CPU, and no smaller quota",
                 facts->n_allowed, facts->n_allowed == 1 ? "" : "s");
    }
}

/* What follows from the allowed CPUs and the group's limits. */
static void read_limits(struct td_topology *t)
{
    struct td_machine_facts *facts = &t->facts;
    for (int i = 0; i < facts->n_pus; i++)
        facts->pus[i].allowed = hwloc_bitmap_isset(t->allowed, facts->pus[i].cpu);
    facts->n_allowed = hwloc_bitmap_weight(t->allowed);
    format(t->allowed, facts->allowed, sizeof facts->allowed);
    facts->quota = t->cgroup.quota;
    facts->memory_limit = t->cgroup.memory;
    memcpy(facts->cgroup, t->cgroup.path, sizeof facts->cgroup);
    decide(t);
}

static int read_facts(struct td_topology *t)
{
    struct td_machine_facts *facts = &t->facts;
    facts->n_packages = hwloc_get_nbobjs_by_type(t->hwloc, HWLOC_OBJ_PACKAGE);
    facts->n_numa_nodes = hwloc_get_nbobjs_by_type(t->hwloc, HWLOC_OBJ_NUMANODE);
    facts->n_cores = hwloc_get_nbobjs_by_type(t->hwloc, HWLOC_OBJ_CORE);
    facts->n_pus = hwloc_get_nbobjs_by_type(t->hwloc, HWLOC_OBJ_PU);
    facts->memory = hwloc_get_root_obj(t->hwloc)->total_memory;
    facts->system_memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    int error = list_pus(t);
    if (!error)
        error = list_caches(t);
    if (!error)
        read_limits(t);
    return error;
}

static int read_allowed(struct td_topology *t)
{
    t->allowed = find_allowed(t, &t->cgroup);
    return !t->allowed ? -ENOMEM : hwloc_bitmap_weight(t->allowed) > 0 ? 0 : -EIO;
}

/* This machine's groups mean nothing on another. */
static void read_cgroup(const struct td_topology *t, struct td_cgroup *cgroup)
{
    *cgroup = (struct td_cgroup){0};
    if (*t->root || is_real(t))
        td_cgroup_init(cgroup, t->root);
}

int td_topology_create_at(struct td_topology **topology, const char *root)
{
    struct td_topology *t = calloc(1, sizeof *t);
    if (!t)
        return -ENOMEM;
    pthread_mutex_init(&t->lock, NULL);
    snprintf(t->root, sizeof t->root, "%s", root);
    int error = load(t);
    if (!error)
        error = find_wanted(t);
    if (!error) {
        read_cgroup(t, &t->cgroup);
        error = read_allowed(t);
    }
    if (!error)
        error = read_facts(t);
    if (error) {
        td_topology_destroy(t);
        return error;
    }
    *topology = t;
    return 0;
}

int td_topology_refresh(struct td_topology *t)
{
    struct td_cgroup cgroup;
    read_cgroup(t, &cgroup);
    hwloc_bitmap_t allowed = find_allowed(t, &cgroup);
    if (!allowed || hwloc_bitmap_iszero(allowed)) {
        hwloc_bitmap_free(allowed);
        td_cgroup_fini(&cgroup);
        return allowed ? 0 : -ENOMEM;
    }
    pthread_mutex_lock(&t->lock);
    bool changed = !hwloc_bitmap_isequal(allowed, t->allowed) || cgroup.quota != t->cgroup.quota;
    hwloc_bitmap_t old_allowed = t->allowed;
    struct td_cgroup old = t->cgroup;
    t->allowed = allowed;
    t->cgroup = cgroup;
    read_limits(t);
    pthread_mutex_unlock(&t->lock);
    hwloc_bitmap_free(old_allowed);
    td_cgroup_fini(&old);
    return changed;
}

int td_topology_create(struct td_topology **topology)
{
    return td_topology_create_at(topology, "");
}

void td_topology_destroy(struct td_topology *topology)
{
    if (!topology)
        return;
    if (topology->hwloc)
        hwloc_topology_destroy(topology->hwloc);
    hwloc_bitmap_free(topology->allowed);
    hwloc_bitmap_free(topology->wanted);
    pthread_mutex_destroy(&topology->lock);
    td_cgroup_fini(&topology->cgroup);
    free(topology->facts.pus);
    free(topology->facts.caches);
    free(topology);
}

void td_topology_facts(const struct td_topology *topology, struct td_machine_facts *facts)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&topology->lock;
    pthread_mutex_lock(lock);
    *facts = topology->facts;
    facts->nr_throttled = td_cgroup_throttled(&topology->cgroup);
    pthread_mutex_unlock(lock);
}

bool td_topology_can_bind(const struct td_topology *topology)
{
    return is_real(topology) && strcmp(td_runtime()->backend, "none");
}
