/* The cache of bound expressions: what /v1/eval has parsed, bound and fused, for the next call. Any
 * thread may enter. */
#ifndef TD_DISPATCH_GRAPH_CACHE_H
#define TD_DISPATCH_GRAPH_CACHE_H

#include "dispatch/dispatch.h"

/* Does what td_run_bind_expr does, or takes a run that was bound to such arguments before from the
 * cache: of the same text, and of arguments with the same names, keys, types and shapes, and values
 * where they are no tensors. *entry: the caller gives it back with td_expr_leave, as its memory is
 * the run's; NULL: the run is bound in the memory of options, since there can be no entry. */
struct td_expr_entry;
int td_expr_take(struct td_expr_entry **entry, struct td_run *run, const char *expr,
                 const struct td_named *args, int n_args, const struct td_options *options);
/* Gives back the entry, if there is one, and nulls the pointer; run must not be used any more. The
 * entry goes to the cache if its run was selected, by no kernel's name, and is the same whenever
 * it runs. */
void td_expr_leave(struct td_expr_entry **entry, struct td_run *run);
/* Frees all entries that are not in use. */
void td_expr_forget(void);
/* Does so when td_memory is full, before anything else is given back. To be called before there are
 * other threads. */
void td_expr_watch_memory(void);

struct td_expr_counts {
    long long hits, misses, evicted; /* evicted: for others, or because memory was wanted */
    size_t bytes;                    /* of the entries in the cache */
};
struct td_expr_counts td_expr_count(void);

#endif
