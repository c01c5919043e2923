/* Who may do what. A service with a file of tokens (--tokens) asks each request for one of them
 * (Authorization: Bearer SECRET), but for those of open routes; without a file all may do all.
 *
 * A token has scopes, of which a route wants one (routes.def); perhaps a prefix for names under
 * which it stores; and limits. What it makes and uses is counted for its name, its account: lines
 * of the file come and go, accounts stay as long as the service. file.c reads the file, tokens.c
 * judges requests, limits.c counts, route.c tells clients. Any thread may enter. Internal to api/,
 * but for what server/ needs to load the file and to know a head again. */
#ifndef TD_API_ACCESS_H
#define TD_API_ACCESS_H

#include "api/api.h"
#include "kernels/weight.h"

struct td_access;  /* the tokens of a service */
struct td_token;   /* a line of the file; references are counted */
struct td_account; /* what is counted for a name */

#define TD_TOKEN_NAME 64 /* bytes of a token's name, with the 0 */

/* ---- the file ---- */

/* Reads the file. service, and store, which what tokens store is a part of: borrowed.
 * -EINVAL: it cannot be read, others may read or write it, or it is wrong (the line is named);
 * -ENOMEM. The sentence is in problem. */
int td_access_create(struct td_access **access, struct td_service *service, struct td_budget *store,
                     const char *path, struct td_problem *problem);
/* After all that was stored and all requests; NULL is fine. */
void td_access_destroy(struct td_access *access);
/* ---- a request ---- */

/* Whether its token lets it use its route; req->token is then a reference, or NULL where none is
 * needed. The token is the one whose secret came, or else the one that the client's certificate
 * names; where there are no tokens, any certificate that was taken will do. -ENOKEY (401),
 * -EKEYREJECTED (403), -EDQUOT (429), -EINVAL, with the response filled. */
int td_access_judge(struct td_request *req);
/* ---- for handlers ---- */

/* Whether it has a scope, besides the route's. */
bool td_access_may(const struct td_request *req, enum td_access_scope scope);
/* Whether it may give or take the name of a tensor or model (what: "the tensor"): -EKEYREJECTED
 * with the sentence, and the response is not filled. */
int td_access_name(const struct td_request *req, const char *what, const char *name,
                   struct td_problem *problem);
/* Who answers for what it stores; NULL: the store alone. */
struct td_weight_room *td_access_room(const struct td_request *req);

/* Whose sessions and tasks are seen. */
struct td_viewer {
    struct td_account *account; /* NULL: there are no tokens */
    bool all;                   /* everybody's */
};
struct td_viewer td_access_viewer(const struct td_request *req);
const char *td_account_name(const struct td_account *account); /* "" for NULL */
/* Sessions and results of tasks in its name hold so many bytes more: 0, or -EDQUOT; and fewer.
 * NULL, where there are no tokens, is fine. no_room: the sentence for -EDQUOT, which it gives back.
 */
int td_account_keep(struct td_account *account, size_t bytes);
void td_account_give(struct td_account *account, size_t bytes);
int td_account_no_room(struct td_account *account, const char *what, struct td_problem *problem);

/* A pool is to be made in the token's name: 1, and it counts from now on; 0: it is there already,
 * or there are no tokens; -EDQUOT, with the response filled: it has made as many as it may. _gone:
 * there is none of that name any more. */
int td_access_pool(struct td_request *req, const char *pool);
void td_access_pool_gone(struct td_request *req, const char *pool);

#endif
