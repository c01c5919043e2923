/* Kinds of calls and what their rows took, by a hash of the kind. Some thousand are kept; in a set
 * that is full the one that has not been used for longest makes room, but measuring for that takes
 * no more than a twentieth of the time. Internal to dispatch/. */
#ifndef TD_DISPATCH_KINDS_H
#define TD_DISPATCH_KINDS_H

#include "dispatch/call/own.h"

/* The row to take for calls of the kind, and that the kind is in use. NULL: it is not kept. Any
 * thread may ask, and takes no lock. */
const struct td_impl *td_kind_row(uint64_t key);
/* All of it. False: it is not kept. */
bool td_kind_copy(uint64_t key, struct td_measured *measured);
/* Whether it may be measured now: there is room, or the last eviction was long enough ago. */
bool td_kind_may_add(uint64_t key);
void td_kind_postpone(void); /* counts a selection for which it may not */
/* Keeps what took so long to measure. One thread at a time. */
void td_kind_add(uint64_t key, const struct td_measured *measured, int64_t took_ns);

#endif
