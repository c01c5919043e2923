/* What the scans' files share. */
#ifndef TD_KERNELS_SCAN_H
#define TD_KERNELS_SCAN_H

#include "kernels/dims.h"

#include <math.h>

/* td_op.family points to one. From FIRST_PICK on there is a second result, of places. */
enum td_scan {
#define TD_SCAN_STEP(id, ...) TD_SCAN_##id,
#define TD_SCAN_PICK(id, ...) TD_SCAN_##id,
#include "kernels/scan/scan.def"
    TD_SCANS,
    TD_SCAN_FIRST_PICK = TD_SCAN_max
};

static inline enum td_scan td_scan_of(const struct td_call *call)
{
    return *(const enum td_scan *)call->op->family;
}

#endif
