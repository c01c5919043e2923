/* CPU lists, and binding threads to them.
 *
 * A list keeps the order in which it was given, because shares of a pool are cut from it in that
 * order; only its text is sorted. Kernel masks are allocated at the size the machine needs: the
 * fixed cpu_set_t ends at CPU 1023. Everything here works on the caller's storage, so any thread
 * may enter. */
#include "pools/machine/cpus.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CPU_NUMBER_MAX 65535 /* above any kernel's limit, and not enough to eat memory */

static int no_list(const char *text, char *problem, size_t size)
{
    snprintf(problem, size, "'%.60s' is not a list of CPUs such as 0-3,8", text);
    return -EINVAL;
}

/* A decimal number at *text, which moves behind it; -1 when there is none or it is too large. */
static long number(const char **text)
{
    if (**text < '0' || **text > '9')
        return -1;
    char *end;
    long value = strtol(*text, &end, 10);
    *text = end;
    return value <= CPU_NUMBER_MAX ? value : -1;
}

int td_cpus_parse(struct td_cpus *cpus, const char *text, char *problem, size_t problem_size)
{
    const char *at = text;
    do {
        long first = number(&at), last = first;
        if (first >= 0 && *at == '-') {
            at++;
            last = number(&at);
        }
        if (first < 0 || last < first || (*at && *at != ',')) {
            td_cpus_fini(cpus);
            return no_list(text, problem, problem_size);
        }
        for (long cpu = first; cpu <= last; cpu++)
            if (td_cpus_append(cpus, (int)cpu)) {
                td_cpus_fini(cpus);
                snprintf(problem, problem_size, "out of memory");
                return -ENOMEM;
            }
    } while (*at++ == ',');
    return 0;
}

static int ascending(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

void td_cpus_format(const struct td_cpus *cpus, char *text, size_t size)
{
    struct td_cpus sorted = {0};
    text[0] = 0;
    if (td_cpus_copy(&sorted, cpus->cpu, cpus->n))
        return;
    if (sorted.n)
        qsort(sorted.cpu, sorted.n, sizeof(int), ascending);
    size_t used = 0;
    for (int i = 0, last; i < sorted.n; i = last + 1) {
        for (last = i; last + 1 < sorted.n && sorted.cpu[last + 1] == sorted.cpu[last] + 1; last++)
            ;
        char part[32];
        int n = snprintf(part, sizeof part, last > i ? "%s%d-%d" : "%s%d", i ? "," : "",
                         sorted.cpu[i], sorted.cpu[last]);
        if (used + n + sizeof "..." > size) {
            snprintf(text + used, size - used, "...");
            break;
        }
        memcpy(text + used, part, n + 1);
        used += n;
    }
    td_cpus_fini(&sorted);
}

bool td_cpus_has(const struct td_cpus *cpus, int cpu)
{
    for (int i = 0; i < cpus->n; i++)
        if (cpus->cpu[i] == cpu)
            return true;
    return false;
}

bool td_cpus_equal(const struct td_cpus *a, const struct td_cpus *b)
{
    if (a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++)
        if (!td_cpus_has(b, a->cpu[i]))
            return false;
    return true;
}

int td_cpus_append(struct td_cpus *cpus, int cpu)
{
    if (td_cpus_has(cpus, cpu))
        return 0;
    if (!(cpus->n & (cpus->n - 1))) { /* full at each power of two */
        int *more = realloc(cpus->cpu, (cpus->n ? 2 * (size_t)cpus->n : 1) * sizeof *more);
        if (!more)
            return -ENOMEM;
        cpus->cpu = more;
    }
    cpus->cpu[cpus->n++] = cpu;
    return 0;
}

int td_cpus_copy(struct td_cpus *to, const int *cpu, int n)
{
    for (int i = 0; i < n; i++)
        if (td_cpus_append(to, cpu[i])) {
            td_cpus_fini(to);
            return -ENOMEM;
        }
    return 0;
}

void td_cpus_fini(struct td_cpus *cpus)
{
    free(cpus->cpu);
    *cpus = (struct td_cpus){0};
}

int td_affinity_set(pid_t tid, const struct td_cpus *cpus)
{
    int highest = 0;
    for (int i = 0; i < cpus->n; i++)
        if (cpus->cpu[i] > highest)
            highest = cpus->cpu[i];
    size_t size = CPU_ALLOC_SIZE(highest + 1);
    cpu_set_t *set = CPU_ALLOC(highest + 1);
    if (!set)
        return -ENOMEM;
    CPU_ZERO_S(size, set);
    for (int i = 0; i < cpus->n; i++)
        CPU_SET_S(cpus->cpu[i], size, set);
    int error = sched_setaffinity(tid, size, set) ? -errno : 0;
    CPU_FREE(set);
    return error;
}

int td_affinity_get(pid_t tid, struct td_cpus *cpus)
{
    for (int bits = 1024; bits <= 16 * (CPU_NUMBER_MAX + 1); bits *= 2) {
        size_t size = CPU_ALLOC_SIZE(bits);
        cpu_set_t *set = CPU_ALLOC(bits);
        if (!set)
            return -ENOMEM;
        CPU_ZERO_S(size, set);
        int error = sched_getaffinity(tid, size, set) ? -errno : 0;
        for (int cpu = 0; !error && cpu < bits; cpu++)
            if (CPU_ISSET_S(cpu, size, set))
                error = td_cpus_append(cpus, cpu);
        CPU_FREE(set);
        if (error != -EINVAL) /* EINVAL: the kernel's mask is larger than ours */
            return error;
    }
    return -EINVAL;
}
