/* What the files of api/ need of each other. Internal to api/. */
#ifndef TD_API_HANDLERS_H
#define TD_API_HANDLERS_H

#include "api/api.h"
#include "api/json/json.h"

#define TD_ROUTE(method, pattern, name) td_handler td_api_##name;
#include "api/routes.def"
#undef TD_ROUTE

/* ---- reply.c; td_api_problem and td_api_text are in api.h ---- */

/* Makes the text the response's body (application/json). 0 or -ENOMEM. */
int td_write_response(struct td_writer *w, struct td_response *res, int status);

/* A problem with members of its own: begin writes the usual ones, then the caller's, then end makes
 * it the response and gives back error. */
void td_api_problem_begin(struct td_request *req, struct td_writer *w, int error,
                          const char *detail);
int td_api_problem_end(struct td_request *req, struct td_writer *w, int error);

/* ---- query.c ---- */

/* Un-escapes n bytes of a path segment or query value. NULL when an escape is malformed, stands
 * for 0, or memory is out. */
char *td_api_unescape(struct td_arena *arena, const char *text, size_t n);
/* The value of name in the request's query, unescaped; NULL when it is not there. -EINVAL. */
int td_api_query(struct td_request *req, const char *name, const char **value);

/* ---- fixed.c: replies that never change ---- */

int td_fixed_create(struct td_service *service); /* -ENOMEM */
void td_fixed_destroy(struct td_service *service);

/* ---- shm.c: regions of clients' shared memory; what lies in them is in shm.h ---- */

struct td_shm *td_shm_create(void); /* NULL: out of memory */
void td_shm_destroy(struct td_shm *shm);
bool td_shm_is_open(const struct td_request *req); /* clients' regions are taken where it came */

/* ---- async.c: tasks, which are calls answered 202; their routes are in tasks.c ---- */

struct td_async_stats {
    int kept, queued, running, results; /* now; kept is all, with those cancelled in a queue */
    size_t bytes;
    int64_t accepted, done, cancelled, expired, refused; /* since start */
};
struct td_async_table *td_async_create(struct td_service *service); /* NULL: out of memory */
void td_async_destroy(struct td_async_table *table);
void td_async_stats(struct td_async_table *table, struct td_async_stats *stats);

/* ---- infer.c: running one operator, by /v1/ops and by /v2/models ---- */

/* Runs op ("add", "add.Tensor") on the request's tensors; model is what the reply calls it. */
int td_api_infer(struct td_request *req, const char *op, const char *model);

/* ---- metrics.c ---- */

struct td_metrics *td_metrics_create(void);
void td_metrics_destroy(struct td_metrics *metrics);
void td_metrics_request(struct td_metrics *metrics, const struct td_request *req, int64_t now_ns);
void td_metrics_call(struct td_metrics *metrics, const struct td_run *run, int64_t queue_ns,
                     int64_t compute_ns);

/* ---- isa.c, ops.c: the texts that fixed.c keeps ---- */

void td_write_isa(struct td_writer *w);
void td_write_ops(struct td_writer *w);

#endif
