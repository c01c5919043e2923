/* What is kept of measurements (td_tune). */
#ifndef TD_DISPATCH_TUNE_H
#define TD_DISPATCH_TUNE_H

#include <stdint.h>

struct td_tuned {
    int64_t kinds;             /* of calls that are kept now */
    int64_t most;              /* that are kept at a time */
    int64_t measured, evicted; /* kinds since the start */
    int64_t postponed; /* selections by the rows' order: the set was full, and had just evicted */
};
struct td_tuned td_tuned(void);

#endif
