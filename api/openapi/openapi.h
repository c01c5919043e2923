/* The API's description: its pieces that are made from the operators, and what is kept of it.
 * Internal to api/. */
#ifndef TD_API_OPENAPI_H
#define TD_API_OPENAPI_H

#include "api/request/request.h"

#define TD_OPENAPI_REF "#/components/schemas/"

/* ---- openapi.c ---- */

void td_openapi_fini(struct td_service *service); /* frees what is kept; any number of times */

/* ---- schema.c: members of a schema, whose object is open ---- */

void td_openapi_full(struct td_writer *w, const struct td_handle *handle);  /* as inputs and
                                                                               parameters */
void td_openapi_brief(struct td_writer *w, const struct td_handle *handle); /* by name */
/* A number as it is written, in a way that JSON and YAML 1.1 agree on. */
void td_openapi_number(struct td_writer *w, const char *key, const char *text);

/* ---- example.c ---- */

/* An object: a request that is right, made from that sample of the operator which is good to look
 * at. brief: in the short form, where it can say the operator's types; false, with nothing written,
 * where it cannot. */
bool td_openapi_example(struct td_writer *w, const char *key, const struct td_handle *handle,
                        bool brief);

#endif
