/* The pools of a report: "one" is of one thread, "all" of all, and pools.c has others beside them.
 * Internal to server/report. */
#ifndef TD_SERVER_REPORT_POOLS_H
#define TD_SERVER_REPORT_POOLS_H

#include "server/report/net.h"
#include "server/report/report.h"

#define TD_REPORT_POOLS 8

/* Fills in at most TD_REPORT_POOLS of them; how many. The first are "one" and, where there are CPUs
 * for it, "all"; the others are for NUM-9, which adds them: OpenMP's threads poll between regions
 * only as long as a process has no more of them than CPUs, and regions of a team whose members
 * sleep take several times as long. */
int td_report_pool_configs(struct td_pool_config *configs, int cpus);
int td_report_first_pools(int cpus); /* how many the other rows have */

#endif
