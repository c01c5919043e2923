/* Kinds of calls and what their rows took, by a hash of the kind. Some thousand are kept; in a set
 * that is full the one that has not been used for longest makes room, but measuring for that takes
 * no more than a twentieth of the time. Internal to dispatch/. */
#ifndef TD_DISPATCH_KINDS_H
#define TD_DISPATCH_KINDS_H

#include "dispatch/call/own.h"

/* ---- key.c ---- */

/* What of a call makes its kind, but for the operator: the same in each process of this version. */
uint64_t td_kind_signature(const struct td_call *call);
/* The kind's key, in this process alone. */
uint64_t td_kind_key(uint64_t signature, const struct td_impl *rows, const struct td_op *op);
/* "linear(FP32[8,128], FP32[256,128] stored, None) on 2 threads". */
void td_kind_tell(const struct td_call *call, char text[TD_KIND_TEXT]);

/* ---- measure.c ---- */

bool td_tune_is_on(void);
/* Measures all rows but the reference, whatever is kept, and keeps it. -ENOMEM: or no other row
 * takes it; -ETIMEDOUT: it was stopped. */
int td_measure_all(const struct td_impl *rows, const struct td_call *call, struct td_measured *m);

/* ---- trial.c ---- */

/* Whether the call is little enough to be copied and run a few times. */
bool td_measure_fits(const struct td_call *call);
/* Times the rows that take the call, but for the reference, and says which is the fastest. asked: a
 * client asked for it, so slow rows run to their end, and a team whose CPUs are busy is no reason
 * to give up. False: the caller was stopped, memory ran out, or no row takes the call. */
bool td_try_rows(const struct td_impl *rows, const struct td_call *call, bool asked,
                 struct td_measured *m);

/* ---- kinds.c ---- */

/* The row to take for calls of the kind, and that the kind is in use. NULL: it is not kept. Any
 * thread may ask, and takes no lock. selects: a call is about to run by it, which counts. */
const struct td_impl *td_kind_row(uint64_t key, bool selects);
/* All of it. False: it is not kept. */
bool td_kind_copy(uint64_t key, struct td_measured *measured);
/* Whether it may be measured now: there is room, or the last eviction was long enough ago. */
bool td_kind_may_add(uint64_t key);
void td_kind_postpone(const struct td_op *op); /* counts a selection for which it may not */
/* Keeps what took so long to measure, in place of what was kept of it before. One thread at a time.
 */
void td_kind_add(uint64_t key, const struct td_measured *measured, int64_t took_ns);
/* Whether kinds are kept that were asked for, so that any table may have one. */
bool td_kinds_were_asked(void);

#endif
