/* The pools of a report: "one" is of one thread, "all" of all, and pools.c has others beside them.
 * Internal to server/report. */
#ifndef TD_SERVER_REPORT_POOLS_H
#define TD_SERVER_REPORT_POOLS_H

#include "server/report/net.h"
#include "server/report/report.h"

#define TD_REPORT_POOLS 8

/* Fills in at most TD_REPORT_POOLS of them, the first "one"; how many. */
int td_report_pool_configs(struct td_pool_config *configs, int cpus);

#endif
