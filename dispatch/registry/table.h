/* Computing dispatch tables. Internal to dispatch/: the registry calls it under its lock. */
#ifndef TD_DISPATCH_TABLE_H
#define TD_DISPATCH_TABLE_H

#include "dispatch/registry/registry.h"

/* The table of an operator with these fallbacks; caller owns. NULL: no memory. */
struct td_table *td_table_make(const struct td_handle *handle,
                               const struct td_registration *fallbacks);
void td_table_free(const struct td_table *table); /* with all that retired before it */
/* Whether the handle's table is what it should be. 0 or -EINVAL. */
int td_table_check(const struct td_handle *handle, const struct td_registration *fallbacks,
                   struct td_problem *problem);

/* Compares def->signature, when there is one, with the operator's. 0, or -EINVAL with both, their
 * origins and the key. */
int td_check_signature(const struct td_handle *handle, const struct td_kernel_def *def,
                       struct td_problem *problem);

/* Keeps a registration that is no longer in force until all tables are gone, as retired tables
 * point to it; NULL frees the kept ones. */
void td_table_bury(struct td_registration *r);

#endif
