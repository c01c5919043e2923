/* A part of a call. Internal to dispatch/choice. */
#ifndef TD_DISPATCH_PART_H
#define TD_DISPATCH_PART_H

#include "dispatch/call/own.h"

struct td_part {
    struct td_call call;
    struct td_value arg[TD_MAX_ARGS];
    struct td_tensor out[TD_MAX_OUTS];
    double times; /* the whole call's operations are so many times the part's */
};

/* Makes a part of the call, which is bound, with addresses that are the whole call's. False: it is
 * not worth it, or the call has no dimension of rows. */
bool td_part_of(const struct td_call *call, struct td_part *part);

#endif
