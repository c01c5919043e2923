/* The options of `serve`, from flags, environment and file. Internal to server/. */
#ifndef TD_SERVER_CONFIG_H
#define TD_SERVER_CONFIG_H

#include "kernels/kernels.h"

#define TD_MAX_POOLS 64

struct td_config {
    const char *listen, *io_cpus, *cpu_capability, *pin_backend;
    const char *pool[TD_MAX_POOLS];
    int n_pools;
    int io_threads, json_depth, connections, idle_s, drain_s;
    size_t max_body, max_headers;
    char *memory_; /* what file values point into */
};

/* Reads them; flags go before the environment, which goes before the file. argv: what follows the
 * command. -EINVAL with the sentence in problem; 1 when --help was asked for. */
int td_config_read(struct td_config *config, int argc, char **argv, struct td_problem *problem);
void td_config_fini(struct td_config *config);

/* The option list, for --help, on standard output. */
void td_config_help(void);

#endif
