/* The options of `serve`, from flags, environment and file. Internal to server/. */
#ifndef TD_SERVER_CONFIG_H
#define TD_SERVER_CONFIG_H

#include "kernels/kernels.h"

#define TD_MAX_GIVEN 64

struct td_given { /* an option that can be given several times */
    const char *text[TD_MAX_GIVEN];
    int n;
};

struct td_config {
    struct td_given listen, pool;
    const char *io_cpus, *cpu_capability, *pin_backend;
    int io_threads, io_spin_us, json_depth, connections, idle_s, drain_s, task_ttl_s, tasks;
    size_t max_body, max_headers, task_bytes;
    int client_shared_memory; /* enum td_shm_clients */
    char *memory_;            /* what file values point into */
};

/* Reads them; flags go before the environment, which goes before the file; of a repeatable option
 * the highest place gives the whole list. argv: what follows the command; the texts in config point
 * into it. -EINVAL with the sentence in problem; 1 when --help was asked for. td_config_fini is
 * right after each of them. */
int td_config_read(struct td_config *config, int argc, char **argv, struct td_problem *problem);
void td_config_fini(struct td_config *config);

/* The option list, for --help, on standard output. */
void td_config_help(void);

#endif
