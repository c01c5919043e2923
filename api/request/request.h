/* What the files of api/ need of each other. Internal to api/. */
#ifndef TD_API_REQUEST_H
#define TD_API_REQUEST_H

#include "api/api.h"
#include "api/json/json.h"

#define TD_ROUTE(method, pattern, name, body, scope) td_handler td_api_##name;
#include "api/routes.def"
#undef TD_ROUTE

/* Arguments of a call as they are sent, each element of a list of tensors being one. */
#define TD_MAX_INPUTS 64

/* ---- reply.c; td_api_problem and td_api_text are in api.h ---- */

/* Makes the text and a line's end the response's body (application/json). 0 or -ENOMEM. */
int td_write_response(struct td_writer *w, struct td_response *res, int status);

/* A problem with members of its own: begin writes the usual ones, then the caller's, then end makes
 * it the response and gives back error. */
void td_api_problem_begin(struct td_request *req, struct td_writer *w, int error,
                          const char *detail);
int td_api_problem_end(struct td_request *req, struct td_writer *w, int error);

/* ---- offload.c ---- */

/* Whether a request with so much text to read or write, or so many bytes, is for a worker; false
 * where one has it already. */
bool td_api_is_bulk(const struct td_request *req, size_t text, size_t bytes);
/* Has a worker run the route's handler, with req->worker set. -EINPROGRESS, for the handler to
 * return, or what td_api_problem gave. */
int td_api_hand_over(struct td_request *req);
/* The same, of that pool; takes the caller's reference to it. */
int td_api_hand_over_to(struct td_request *req, struct td_pool *pool);
/* The problem for a job that td_pool_submit has refused with err, which it gives back. */
int td_api_refused(struct td_request *req, struct td_pool *pool, int err);
/* To be asked by a worker before it begins: whether the client has closed, or has too much to read
 * as it is, which the response then says. */
bool td_api_is_gone(struct td_request *req);
/* What td_api_handle does once the request is judged: runs the handler. 0 or -EINPROGRESS. */
int td_api_run(struct td_request *req);

/* ---- query.c ---- */

/* Un-escapes n bytes of a path segment or query value. NULL when an escape is malformed, stands
 * for 0, or memory is out. */
char *td_api_unescape(struct td_arena *arena, const char *text, size_t n);
/* The value of name in the request's query, unescaped, "" when it stands alone; NULL when it is not
 * there. -EINVAL. */
int td_api_query(struct td_request *req, const char *name, const char **value);
/* Parses query parameter name as a decimal integer without a sign. *number is `otherwise` if the
 * query lacks it. -EINVAL: it has other characters, or lies outside [least, most]. */
int td_api_query_number(struct td_request *req, const char *name, long long least, long long most,
                        long long otherwise, long long *number);
/* Whether name stands in the query alone or is true or 1; not so where it is false, 0 or not there.
 * -EINVAL. */
int td_api_query_flag(struct td_request *req, const char *name, bool *flag);
/* The same of a query that may be wrong: a flag that is none of these is not set. Writes nothing.
 */
bool td_api_query_has_flag(struct td_request *req, const char *name);
/* Whether its Content-Type is that, whatever parameters follow. */
bool td_api_is_type(const struct td_request *req, const char *type);
/* Whether it says JSON, alone or with binary tensors behind it, or nothing. */
bool td_api_is_json(const struct td_request *req);

#endif
