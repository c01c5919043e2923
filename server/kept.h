/* What the server keeps in the file system: measured choices, and generated code. */
#ifndef TD_SERVER_KEPT_H
#define TD_SERVER_KEPT_H

#include "api/api.h"
#include "server/config/config.h"
#include "server/log/log.h"

/* Before there are calls: --choices is read, --dump-jit written to from here on. A file of choices
 * that is wrong is ignored, which the log says. config and log: borrowed, as long as the process.
 * -EINVAL: the folder cannot be written to, -ENOMEM. */
int td_kept_open(const struct td_config *config, struct td_service *service, struct td_log *log,
                 struct td_problem *problem);
/* When no more calls come: writes --choices where something new was measured. */
void td_kept_write(struct td_service *service, struct td_log *log);

#endif
