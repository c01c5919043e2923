/* Replies of routes that never change while the process lives. Internal to api/. */
#ifndef TD_API_ROUTES_H
#define TD_API_ROUTES_H

#include "api/handlers.h"

/* ---- fixed.c: replies that never change ---- */

int td_fixed_create(struct td_service *service); /* -ENOMEM */
void td_fixed_destroy(struct td_service *service);

/* ---- isa.c, ops.c: the texts that fixed.c keeps ---- */

void td_write_isa(struct td_writer *w);
void td_write_ops(struct td_writer *w);

#endif
