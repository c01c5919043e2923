/* Files that the server writes: see kept.h. Called by main alone, but for what is said of a loop
 * that could not be written, which comes from any thread. */
#include "server/kept.h"

#include "kernels/jit/code.h"

#include <errno.h>
#include <string.h>

static struct td_log *kept_log; /* for those who say something and are given nothing else */

static void say_choices(const char *sentence)
{
    td_log_event(kept_log, "choices", "%s", sentence);
}

static void say_dump(const char *sentence)
{
    td_log_event(kept_log, "failed", "%s", sentence);
}

int td_kept_open(const struct td_config *config, struct td_service *service, struct td_log *log,
                 struct td_problem *problem)
{
    kept_log = log;
    int err = *config->dump_jit ? td_loops_dump(config->dump_jit, say_dump) : 0;
    if (err)
        return td_problem_set(problem, EINVAL, "dump-jit: '%.300s': %s", config->dump_jit,
                              strerror(-err));
    service->choices = config->choices;
    return *config->choices ? td_api_load_choices(service, say_choices) : 0;
}

void td_kept_write(struct td_service *service, struct td_log *log)
{
    struct td_problem problem;
    kept_log = log;
    if (td_api_keep_choices(service, &problem) < 0)
        say_choices(problem.text);
}
