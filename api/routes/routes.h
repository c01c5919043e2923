/* What the handlers of this room share, and replies of theirs that never change while the process
 * lives, made with the service. Internal to api/. */
#ifndef TD_API_ROUTES_H
#define TD_API_ROUTES_H

#include "api/request/request.h"

/* ---- fixed.c: replies that never change ---- */

int td_fixed_create(struct td_service *service); /* -ENOMEM */
void td_fixed_destroy(struct td_service *service);

/* ---- isa.c, ops.c: the texts that fixed.c keeps ---- */

void td_write_isa(struct td_writer *w);
void td_write_ops(struct td_writer *w);

/* The path's {op}; NULL: there is none, and the response says so. */
const struct td_handle *td_api_find_op(struct td_request *req);

/* ---- kernels.c: members of a row and of a measurement ---- */

struct td_measured;

void td_write_dtypes(struct td_writer *w, unsigned set); /* "dtypes" */
/* Of a library's row, which is one for all its levels: the highest for each type. */
void td_write_levels(struct td_writer *w, const struct td_op *op, const struct td_impl *row);
void td_write_bar(struct td_writer *w, const struct td_op *op, const struct td_impl *row);

/* ---- index.c ---- */

/* The member routes: the paths that begin so, each with its methods. */
void td_write_routes(struct td_writer *w, struct td_arena *arena, const char *under);
/* The pattern of the route that was likely meant, in the arena, or NULL. */
const char *td_nearest_route(struct td_arena *arena, const char *path);

/* ---- health.c ---- */

/* Why the server is not ready; "" when it is. hung: the threads to blame, at most max; how many. */
int td_api_find_hindrance(struct td_request *req, struct td_hung *hung, int max, char *why,
                          size_t size);

#endif
