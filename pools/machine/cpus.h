/* CPU lists and thread affinity, inside pools/ only. */
#ifndef TD_CPUS_H
#define TD_CPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct td_cpus { /* CPU numbers in the order given; no number twice. All zero is the empty list */
    int n;
    int *cpu; /* heap memory of this list */
};

/* "0-3,8" into cpus (which must be empty). -EINVAL with the sentence in problem, or -ENOMEM. */
int td_cpus_parse(struct td_cpus *cpus, const char *text, char *problem, size_t problem_size);
/* Ascending with ranges; ends in "..." when size is too small for all of it. */
void td_cpus_format(const struct td_cpus *cpus, char *text, size_t size);
int td_cpus_append(struct td_cpus *cpus, int cpu);           /* unless it is there. -ENOMEM */
int td_cpus_copy(struct td_cpus *to, const int *cpu, int n); /* to must be empty. -ENOMEM */
bool td_cpus_has(const struct td_cpus *cpus, int cpu);
bool td_cpus_equal(const struct td_cpus *a, const struct td_cpus *b); /* as sets */
void td_cpus_fini(struct td_cpus *cpus);

/* The affinity of a thread of this process (0: the caller), of any machine size. 0 or -errno. */
int td_affinity_set(pid_t tid, const struct td_cpus *cpus);
int td_affinity_get(pid_t tid, struct td_cpus *cpus); /* cpus must be empty */

#endif
