/* The cache of measurements: how long the rows took for each kind of call, by a hash of the kind.
 * It is set-associative, for some thousand kinds; a full set evicts the least recently used one.
 * Measuring that leads to evictions takes a twentieth of the time at most. Internal to dispatch. */
#ifndef TD_DISPATCH_KINDS_H
#define TD_DISPATCH_KINDS_H

#include "dispatch/call/own.h"

/* ---- key.c ---- */

/* A hash of what makes a call's kind, except the operator: equal in all processes of a version. */
uint64_t td_kind_signature(const struct td_call *call);
/* A hash of what the kinds of its family share: all but the large sizes of what is not stored. */
uint64_t td_kind_family(const struct td_call *call);
/* The key of a kind in the cache, with its table and operator; valid in this process only. */
uint64_t td_kind_key(uint64_t signature, const struct td_impl *rows, const struct td_op *op);
/* Writes a call as text: "linear(FP32[8,128], FP32[256,128] stored, None) on 2 threads". */
void td_kind_tell(const struct td_call *call, char text[TD_KIND_TEXT]);

/* ---- measure.c ---- */

bool td_tune_is_on(void);
/* Measures all rows but the reference, even if the kind is in the cache, and caches the result.
 * -ENOMEM: no memory, or no other row takes the call; -ETIMEDOUT: it was stopped. */
int td_measure_all(const struct td_impl *rows, const struct td_call *call, struct td_measured *m);

/* ---- copy.c ---- */

/* Whether the call is small enough to be copied and run a few times. */
bool td_measure_fits(const struct td_call *call);

/* ---- trial.c ---- */

/* Times the rows that take the call, except the reference, and finds the fastest. asked: a client
 * asked for it, so slow rows run to their end, and timing goes on even if other processes use the
 * team's CPUs. False: the caller was stopped, memory ran out, or no row takes the call. */
bool td_try_rows(const struct td_impl *rows, const struct td_call *call, bool asked,
                 struct td_measured *m);

/* ---- kinds.c ---- */

/* The row to use for calls of the kind, which becomes the most recently used; NULL: it is not in
 * the cache. Any thread, takes no lock. selects: a call will run by the row, so this counts as a
 * hit. */
const struct td_impl *td_kind_row(uint64_t key, bool selects);
/* Copies the whole entry. False: it is not in the cache. */
bool td_kind_copy(uint64_t key, struct td_measured *measured);
/* Copies the entry of the kind in the cache that has the family, operator and table of like and is
 * nearest to it in operations, by a factor of most at the most. False: there is none. */
bool td_kind_nearest(const struct td_measured *like, double most, struct td_measured *found);
/* Whether the kind may be measured now: its set is not full, or the last eviction is long enough
 * ago. */
bool td_kind_may_add(uint64_t key);
/* Counts a selection that was not measured for that reason. */
void td_kind_postpone(const struct td_op *op);
/* Adds or replaces the kind's entry. took_ns: how long measuring took, which sets the time of the
 * next eviction. */
void td_kind_add(uint64_t key, const struct td_measured *measured, int64_t took_ns);
/* Whether the cache has kinds that clients had measured: then rows of any table may be in it. */
bool td_kinds_were_asked(void);

#endif
