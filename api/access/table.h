/* The tokens from the inside. Internal to this room. */
#ifndef TD_API_ACCESS_TABLE_H
#define TD_API_ACCESS_TABLE_H

#include "api/access/access.h"

#include <pthread.h>
#include <sys/stat.h>

#define TD_HASH_BYTES 32

struct td_account {
    struct td_weight_room room; /* first, so that weights lead back here */
    struct td_account *next;
    struct td_access *of;
    struct td_budget store;  /* bytes of tensors and models in its name, a part of the store's */
    struct td_budget memory; /* bytes of sessions and of results of tasks */
    struct td_budget flight; /* bytes of bodies and replies under way */
    _Atomic int64_t due_ns;  /* when the rate would have its next request, if all came evenly */
    atomic_llong requests, limited;
    char name[TD_TOKEN_NAME];
};

struct td_token_limits { /* 0: none */
    size_t flight, store, memory;
    int rate, pools;
};

struct td_token { /* does not change */
    atomic_int refs;
    struct td_account *account;
    unsigned char hash[TD_HASH_BYTES]; /* SHA-256 of its secret */
    unsigned scopes;                   /* 1 << enum td_access_scope */
    int64_t expires_s;                 /* of the clock; 0: never */
    struct td_token_limits limits;
    uint64_t round; /* of the file's reading that brought it */
    char prefix[201];
};

struct td_tokens { /* of one reading; references are counted under the lock */
    int refs, n;
    struct td_token *token[];
};

struct td_access {
    struct td_service *service; /* borrowed, as store */
    struct td_budget *store;
    const char *path, *called; /* the latter in sentences */
    bool tried;                /* by a command: whose the file is does not matter */
    struct stat seen;          /* the file just before it was last read; zeros: there was none */
    pthread_mutex_t lock;
    struct td_tokens *tokens;
    struct td_account *accounts;
    _Atomic uint64_t round;
    struct {
        char name[TD_POOL_NAME];
        const struct td_account *by;
    } pool[TD_MAX_POOLS];
    atomic_llong read, not_read, missing, unknown, expired, lacking, limited;
};

/* ---- file.c ---- */

struct td_token_line { /* as it stands there */
    char name[TD_TOKEN_NAME];
    struct td_token token; /* without its account */
};
/* Reads the file's lines into an array that the caller frees; how many, or -EINVAL, -ENOMEM with
 * the sentence. */
int td_access_read(const struct td_access *access, struct td_token_line **lines,
                   struct td_problem *problem);

/* ---- limits.c ---- */

/* The name's, a new one if need be; the lock is held. NULL: out of memory. */
struct td_account *td_account_get(struct td_access *access, const char *name);
/* What it may hold from now on. */
void td_account_limit(struct td_account *account, const struct td_token_limits *limits);

#endif
