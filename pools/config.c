/* What a pool is asked to be: its text form, and its check against the machine.
 *
 * CPUs that this process may not use are dropped with a warning, as a restricted process (taskset,
 * a container) should still run a configuration written for the whole machine; only when nothing is
 * left is it an error. A CPU quota bounds the default threads of every pool and leaves them
 * unpinned; who asks for more, or for pins, gets them with a warning. */
#include "pools/machine/runtime.h"
#include "pools/machine/topology.h"
#include "pools/pool.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_DEPTH 1024
#define QUEUE_DEPTH_MAX (1 << 20)
#define SPIN_US 50
#define SPIN_US_MAX 1000000
#define THREADS_PER_CPU 4 /* a client must not be able to ask for thousands of threads */

struct problem {
    char *text;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static int refuse(struct problem problem, const char *format,
                                                        ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(problem.text, problem.size, format, args);
    va_end(args);
    return -EINVAL;
}

/* Adds a sentence to the warnings. */
__attribute__((format(printf, 2, 3))) static void warn(struct problem problem, const char *format,
                                                       ...)
{
    size_t used = strlen(problem.text);
    if (used && used + 3 < problem.size)
        used += (size_t)snprintf(problem.text + used, problem.size - used, "; ");
    va_list args;
    va_start(args, format);
    vsnprintf(problem.text + used, problem.size - used, format, args);
    va_end(args);
}

struct td_pool_config td_pool_config_default(const char *name)
{
    struct td_pool_config config = {.numa_node = -1, .spin_us = -1, .pinned = -1};
    snprintf(config.name, sizeof config.name, "%s", name);
    return config;
}

static bool name_valid(const char *name)
{
    return *name && !name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "0123456789._-")];
}

/* ---- text ---- */

static int set_number(int *field, const char *key, const char *value, int low,
                      struct problem problem)
{
    char *end;
    errno = 0;
    long number = strtol(value, &end, 10);
    if (!*value || *end || errno || number < low || number > INT_MAX)
        return refuse(problem, "%s: '%.40s' is not a whole number from %d", key, value, low);
    *field = (int)number;
    return 0;
}

int td_pool_config_set(struct td_pool_config *config, const char *key, const char *value,
                       char *problem_text, size_t problem_size)
{
    struct problem problem = {problem_text, problem_size};
    const struct {
        const char *name;
        int *field, low;
    } numbers[] = {{"threads", &config->threads, 1},
                   {"streams", &config->streams, 1},
                   {"spin_us", &config->spin_us, 0},
                   {"queue_depth", &config->queue_depth, 1},
                   {"numa_node", &config->numa_node, 0}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(key, numbers[i].name))
            return set_number(numbers[i].field, key, value, numbers[i].low, problem);
    if (!strcmp(key, "cpus")) {
        if (strlen(value) >= TD_CPUS_TEXT)
            return refuse(problem, "cpus: a list of %zu characters; at most %d", strlen(value),
                          TD_CPUS_TEXT - 1);
        strcpy(config->cpus, value);
        return 0;
    }
    if (strcmp(key, "pinned") && strcmp(key, "pin"))
        return refuse(problem,
                      "'%.40s' is not a field of a pool; right are cpus, numa_node, threads, "
                      "streams, spin_us, queue_depth, pinned",
                      key);
    bool yes = !strcmp(value, "1") || !strcmp(value, "true");
    if (!yes && strcmp(value, "0") && strcmp(value, "false"))
        return refuse(problem, "%s: '%.40s' is neither true nor false", key, value);
    config->pinned = yes;
    return 0;
}

int td_pool_config_parse(struct td_pool_config *config, const char *text, char *problem_text,
                         size_t problem_size)
{
    struct problem problem = {problem_text, problem_size};
    char copy[512];
    size_t length = strlen(text);
    if (length >= sizeof copy)
        return refuse(problem, "a pool of %zu characters; at most %zu", length, sizeof copy - 1);
    memcpy(copy, text, length + 1);
    char *rest = copy, *first = strsep(&rest, ":"), *cpus = strchr(first, '=');
    if (!cpus)
        return refuse(problem, "'%.60s' is not NAME=CPUS[:key=value...]", text);
    *cpus++ = 0;
    if (!name_valid(first) || strlen(first) >= TD_POOL_NAME)
        return refuse(problem, "'%.70s' is not a pool's name: 1 to %d of A-Z a-z 0-9 . _ -", first,
                      TD_POOL_NAME - 1);
    *config = td_pool_config_default(first);
    int error = td_pool_config_set(config, "cpus", cpus, problem.text, problem.size);
    for (char *key; !error && (key = strsep(&rest, ":"));) {
        char *value = strchr(key, '=');
        if (!value)
            return refuse(problem, "'%.60s' is not key=value", key);
        *value++ = 0;
        error = td_pool_config_set(config, key, value, problem.text, problem.size);
    }
    return error;
}

/* ---- against the machine ---- */

/* The CPUs asked for that are allowed; what was dropped goes to problem as a warning. */
static int filter(const struct td_topology *topology, const char *text, struct td_cpus *cpus,
                  struct problem problem)
{
    struct td_cpus asked = {0}, dropped = {0};
    int error = td_cpus_parse(&asked, text, problem.text, problem.size);
    for (int i = 0; i < asked.n && !error; i++)
        error = td_cpus_append(td_topology_allows(topology, asked.cpu[i]) ? cpus : &dropped,
                               asked.cpu[i]);
    if (!error && dropped.n) {
        char list[TD_CPUS_TEXT];
        td_cpus_format(&dropped, list, sizeof list);
        warn(problem, "cpus: this process may not use %.100s", list);
    }
    td_cpus_fini(&asked);
    td_cpus_fini(&dropped);
    return error;
}

static int find_cpus(const struct td_pool_config *config, const struct td_topology *topology,
                     const struct td_machine_facts *facts, struct td_cpus *cpus,
                     struct problem problem)
{
    if (config->cpus[0]) {
        int error = filter(topology, config->cpus, cpus, problem);
        if (!error && config->numa_node >= 0)
            warn(problem, "numa_node: left aside, as cpus are given");
        if (!error && !cpus->n)
            return refuse(problem, "cpus: none of %.100s is allowed here; allowed are %.100s",
                          config->cpus, facts->allowed);
        return error;
    }
    if (config->numa_node >= td_topology_nodes(topology))
        return refuse(problem, "numa_node: %d is not a node; the machine has %d", config->numa_node,
                      td_topology_nodes(topology));
    int error = td_topology_cpus(topology, config->numa_node, cpus);
    if (!error && !cpus->n)
        return refuse(problem, "numa_node: no CPU of node %d is allowed here; allowed are %.100s",
                      config->numa_node, facts->allowed);
    return error;
}

static int check_counts(struct td_pool_config *config, int n_cpus,
                        const struct td_machine_facts *facts, struct problem problem)
{
    if (config->threads > THREADS_PER_CPU * n_cpus)
        return refuse(problem, "threads: %d is too many; at most %d for each of %d CPUs",
                      config->threads, THREADS_PER_CPU, n_cpus);
    if (config->queue_depth > QUEUE_DEPTH_MAX)
        return refuse(problem, "queue_depth: %d is too many; at most %d", config->queue_depth,
                      QUEUE_DEPTH_MAX);
    if (config->spin_us > SPIN_US_MAX)
        return refuse(problem, "spin_us: %d is too many; at most %d", config->spin_us, SPIN_US_MAX);
    if (config->streams > n_cpus) {
        warn(problem, "streams: reduced from %d to the %d CPUs", config->streams, n_cpus);
        config->streams = n_cpus;
    }
    if (!config->streams)
        config->streams = 1;
    if (config->threads && config->threads < config->streams)
        return refuse(problem, "threads: %d is fewer than the %d streams, each of which needs one",
                      config->threads, config->streams);
    int most = n_cpus < facts->default_threads ? n_cpus : facts->default_threads;
    if (!config->threads)
        config->threads = most > config->streams ? most : config->streams;
    if (config->threads > config->streams && !td_runtime()->library) {
        warn(problem, "threads: one for each stream, as no OpenMP runtime is loaded");
        config->threads = config->streams;
    }
    if (!config->queue_depth)
        config->queue_depth = QUEUE_DEPTH;
    return 0;
}

/* Pinning, and what a quota makes of a pool. */
static void settle_pinning(struct td_pool_config *config, const struct td_pool_config *asked,
                           const struct td_topology *topology, int n_cpus,
                           const struct td_machine_facts *facts, struct problem problem)
{
    bool can_bind = td_topology_can_bind(topology);
    bool free = !facts->pin_by_default; /* time is granted, not CPUs */
    config->pinned = can_bind && (asked->pinned < 0 ? !free : asked->pinned);
    if (asked->pinned > 0 && !can_bind)
        warn(problem, "pinned: threads cannot be bound here");
    if (free && (config->threads > facts->default_threads || config->pinned))
        warn(problem,
             "%s: as asked for, though the control group grants %.2f CPUs' worth of time only",
             config->pinned ? "pinned" : "threads", facts->quota);
    else if (free && !asked->threads && config->threads < n_cpus)
        warn(problem,
             "threads: %d on %d CPUs, as the control group grants %.2f CPUs' worth of time",
             config->threads, n_cpus, facts->quota);
}

/* Polling takes a CPU from whoever else is on it: it pays only where HTTP work is known to sit
 * elsewhere. The figures are in docs/pools.md. */
static int default_spin(const struct td_cpus *io, const struct td_cpus *cpus)
{
    for (int i = 0; i < cpus->n; i++)
        if (td_cpus_has(io, cpus->cpu[i]))
            return 0;
    return io->n ? SPIN_US : 0;
}

int td_pool_config_resolve(struct td_pool_config *config, const struct td_topology *topology,
                           const struct td_cpus *io, struct td_cpus *cpus, char *problem_text,
                           size_t problem_size)
{
    struct problem problem = {problem_text, problem_size};
    problem.text[0] = 0;
    if (!memchr(config->name, 0, sizeof config->name) || !name_valid(config->name))
        return refuse(problem, "'%.*s' is not a pool's name: 1 to %d of A-Z a-z 0-9 . _ -",
                      TD_POOL_NAME, config->name, TD_POOL_NAME - 1);
    struct td_machine_facts facts;
    td_topology_facts(topology, &facts);
    const struct td_pool_config asked = *config;
    int error = find_cpus(config, topology, &facts, cpus, problem);
    if (!error)
        error = check_counts(config, cpus->n, &facts, problem);
    if (error)
        return error;
    settle_pinning(config, &asked, topology, cpus->n, &facts, problem);
    if (config->spin_us < 0)
        config->spin_us = default_spin(io, cpus);
    td_cpus_format(cpus, config->cpus, sizeof config->cpus);
    return 0;
}
