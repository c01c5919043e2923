/* Dense copies of calls, on which rows are timed. Internal to dispatch. */
#ifndef TD_DISPATCH_COPY_H
#define TD_DISPATCH_COPY_H

#include "dispatch/call/own.h"

#define TD_COPY_BYTES ((size_t)32 << 20) /* of a copy's tensors, at most; of scratch twice that */

struct td_copy {
    struct td_call call; /* its threads are the caller's to set, before it begins */
    struct td_value arg[TD_MAX_ARGS];
    struct td_tensor out[TD_MAX_OUTS], list[TD_MAX_ARGS]; /* list: of list arguments */
    struct td_copy_memory *memory;
};

/* Makes copy->call like the call, with tensors at addresses that are not to be accessed: rows can
 * be asked. False: there are too many in lists. */
bool td_copy_begin(struct td_copy *copy, const struct td_call *call);
/* Gives a copy that has begun memory, and so much scratch. Elements of arguments are neither
 * denormal nor large in any type; results and scratch hold anything. May be called again for more
 * scratch. False: there is no memory, and the copy must not be run. */
bool td_copy_give_memory(struct td_copy *copy, const struct td_call *call, size_t scratch);
/* Frees the memory, or, between td_trials_begin and td_trials_end (own.h), keeps it for the next
 * copy. clean: no row has written to arguments; else it is freed in any case. */
void td_copy_end(struct td_copy *copy, bool clean);

#endif
