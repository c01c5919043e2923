/* What the files of api/access share. Internal to these. */
#ifndef TD_API_ACCESS_TABLE_H
#define TD_API_ACCESS_TABLE_H

#include "api/access/access.h"

#include <pthread.h>
#include <sys/stat.h>

#define TD_HASH_BYTES 32

struct td_account {
    struct td_weight_room room; /* first: limits.c casts a room to its account */
    struct td_account *next;
    struct td_access *of;
    struct td_budget store; /* bytes of tensors and models that it stored; a child of the store's */
    struct td_budget memory; /* bytes of sessions and of results of tasks */
    struct td_budget flight; /* bytes of bodies and replies under way */
    _Atomic int64_t due_ns;  /* when the next request would be due at an even rate */
    atomic_llong requests, limited;
    char name[TD_TOKEN_NAME];
};

struct td_token_limits { /* 0: none */
    size_t flight, store, memory;
    int rate, pools;
};

struct td_token { /* does not change once it is made */
    atomic_int refs;
    struct td_account *account;
    unsigned char hash[TD_HASH_BYTES]; /* SHA-256 of its secret */
    unsigned scopes;                   /* 1 << enum td_access_scope */
    int64_t expires_s;                 /* seconds since 1970; 0: never */
    struct td_token_limits limits;
    uint64_t round; /* the reading of the file that made it: the first is 1 */
    char prefix[201];
};

struct td_tokens { /* of one reading of the file; refs is changed under the lock */
    int refs, n;
    struct td_token *token[];
};

struct td_access {
    struct td_service *service; /* borrowed, as store */
    struct td_budget *store;
    const char *path, *called; /* called: the path in sentences */
    bool tried;                /* for td_access_try: owner and mode of the file do not matter */
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
/* Reads the file into an array of lines, which the caller frees. Returns their number, or -EINVAL
 * or -ENOMEM with the sentence in problem. */
int td_access_read(const struct td_access *access, struct td_token_line **lines,
                   struct td_problem *problem);

/* ---- limits.c ---- */

/* The account of that name, made if there is none. The caller holds the lock. NULL: out of memory.
 */
struct td_account *td_account_get(struct td_access *access, const char *name);
/* Sets what the account may hold from now on. */
void td_account_limit(struct td_account *account, const struct td_token_limits *limits);

#endif
