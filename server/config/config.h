/* The options of `serve`, from flags, environment and file. Internal to server/. */
#ifndef TD_SERVER_CONFIG_H
#define TD_SERVER_CONFIG_H

#include "kernels/kernels.h"

#define TD_MAX_GIVEN 64

struct td_given { /* an option that can be given several times */
    const char *text[TD_MAX_GIVEN];
    int n;
};

#define TD_OPTION_text const char *
#define TD_OPTION_written const char *
#define TD_OPTION_list struct td_given
#define TD_OPTION_number int
#define TD_OPTION_bytes size_t
#define TD_OPTION_choice int
#define TD_OPTION_flag bool
/* As in options.def; client_shared_memory is an enum td_shm_clients. */
struct td_config {
#define TD_OPTION(type, name, ...) TD_OPTION_##type name;
#include "server/config/options.def"
#undef TD_OPTION
    char given[1024]; /* as flags: those that were given, as far as there is room */
    char *memory_;    /* what file values point into */
};

/* Reads them; flags go before the environment, which goes before the file; of a repeatable option
 * the highest place gives the whole list. argv: what follows the command; the texts in config point
 * into it. -EINVAL with the sentence in problem; 1 when --help was asked for. td_config_fini is
 * right after each of them. */
int td_config_read(struct td_config *config, int argc, char **argv, struct td_problem *problem);
void td_config_fini(struct td_config *config);

/* Files, which others may replace, and folders: read, or written as well; and addresses of which
 * some are Unix sockets. */
enum td_option_reach {
    TD_REACH_file,
    TD_REACH_folder,
    TD_REACH_written_file,
    TD_REACH_written_folder,
    TD_REACH_socket
};
/* Calls each for what the options name in the file system: those whose value is a FILE, but for the
 * configuration itself, which is read once, or a DIR, and what is listened on. Paths may be empty.
 */
void td_config_each_path(const struct td_config *config,
                         void (*each)(void *arg, enum td_option_reach reach, const char *path),
                         void *arg);

/* The option list, for --help, on standard output. */
void td_config_help(void);

/* ---- file.c ---- */

/* Calls each for every member of a JSON object at text, values as text, an array's one by one: how
 * a configuration file is read. Stops at the first error and gives it back. -EINVAL. */
int td_config_each_member(const char *text, size_t length,
                          int (*each)(void *arg, const char *key, const char *value,
                                      struct td_problem *problem),
                          void *arg, struct td_problem *problem);

#endif
