/* `tensord run`, between asking (run.c) and showing (run_show.c). Internal to server/. */
#ifndef TD_SERVER_RUN_H
#define TD_SERVER_RUN_H

#include "api/api.h"
#include "api/json/json.h"

#define TD_ONCE_INPUTS 64

struct td_once { /* one run of a model */
    const char *model, *directory;
    const char *input[TD_ONCE_INPUTS]; /* NAME=FILE */
    int n_inputs;
    bool eager, explain, json;
    struct td_service service;
    struct td_worker *worker;
    int failed;
};

/* Shows what the model has answered, and writes its outputs into the directory if there is one.
 * model: what /v1/models says of it. 0, or 1 once an error has been said. */
int td_once_show(struct td_once *once, const cJSON *model, const struct td_response *res);

int td_once_fail(const char *why); /* says it on standard error; gives back 1 */

#endif
