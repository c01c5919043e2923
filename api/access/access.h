/* Who may do what. A service with a file of tokens (--tokens) wants one of them with each request
 * (Authorization: Bearer SECRET), except on open routes. Without a file everybody may do
 * everything.
 *
 * A token has scopes, limits, and perhaps a prefix: the names that it stores begin with it. Each
 * route needs one scope (routes.def). What a token makes and uses is counted in an account, which
 * belongs to the token's name and lives as long as the service; lines of the file come and go.
 * file.c reads the file, tokens.c judges requests, limits.c counts, route.c serves GET /v1/access.
 * All functions are safe to call from any thread. Internal to api/, except for what api.h declares
 * for server/. */
#ifndef TD_API_ACCESS_H
#define TD_API_ACCESS_H

#include "api/api.h"
#include "kernels/weight.h"

struct td_access;  /* the tokens of a service */
struct td_token;   /* a line of the file; counts its references */
struct td_account; /* what a token's name has made and uses */

#define TD_TOKEN_NAME 64 /* bytes of a token's name, with the 0 */

/* ---- the file ---- */

/* Reads the file. service and store, the budget of all stored tensors and models, are borrowed.
 * -EINVAL: it cannot be read, others may read or write it, or a line is wrong; -ENOMEM. problem has
 * the sentence, which names the line. */
int td_access_create(struct td_access **access, struct td_service *service, struct td_budget *store,
                     const char *path, struct td_problem *problem);
/* After all that was stored and all requests; NULL is fine. */
void td_access_destroy(struct td_access *access);
/* ---- a request ---- */

/* Whether the request may use its route. 0: req->token is a reference to its token, or NULL where
 * none is needed. The token is the one whose secret came, or else the one that the client's
 * certificate names; where there are no tokens, any certificate that was accepted is enough.
 * -ENOKEY (401), -EKEYREJECTED (403), -EDQUOT (429), -EINVAL (400): the response is filled. */
int td_access_judge(struct td_request *req);
/* ---- for handlers ---- */

/* Whether the request's token has this scope, for what takes more than the route's scope. */
bool td_access_may(const struct td_request *req, enum td_access_scope scope);
/* Whether the request may store or delete a tensor or model of this name. what: how the sentence
 * begins, as "the tensor". 0, or -EKEYREJECTED with the sentence in problem; the response is not
 * filled. */
int td_access_name(const struct td_request *req, const char *what, const char *name,
                   struct td_problem *problem);
/* The account's room, from which stored bytes are taken as well as from the store; NULL: from the
 * store alone. */
struct td_weight_room *td_access_room(const struct td_request *req);

/* Whose sessions and tasks a request can see. */
struct td_viewer {
    struct td_account *account; /* its own; NULL: there are no tokens */
    bool all;                   /* those of all accounts */
};
struct td_viewer td_access_viewer(const struct td_request *req);
const char *td_account_name(const struct td_account *account); /* "" for NULL */
/* Bytes that the account's sessions and results of tasks hold. keep: bytes more, 0 or -EDQUOT;
 * give: bytes fewer. account may be NULL: nothing is counted. no_room writes the sentence for
 * -EDQUOT and returns that. */
int td_account_keep(struct td_account *account, size_t bytes);
void td_account_give(struct td_account *account, size_t bytes);
int td_account_no_room(struct td_account *account, const char *what, struct td_problem *problem);

/* Before the request makes or changes a pool. 1: the pool is new, and counts for the token from now
 * on; 0: it is known already, or there are no tokens; -EDQUOT, with the response filled: the token
 * has made as many pools as it may. _gone: no pool has that name any more. */
int td_access_pool(struct td_request *req, const char *pool);
void td_access_pool_gone(struct td_request *req, const char *pool);

#endif
