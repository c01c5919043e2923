/* The table of sessions from the inside. Internal to this room. */
#ifndef TD_API_SESSIONS_TABLE_H
#define TD_API_SESSIONS_TABLE_H

#include "api/names/names.h"
#include "api/sessions/sessions.h"

#include <pthread.h>

#define TD_SESSION_SLOTS 1024 /* seconds of the wheel by which sessions expire */
#define TD_SESSION_MOURNED 4096
#define TD_SESSION_AT_ONCE 64 /* sessions that end under one hold of the lock, at most */

struct td_session_kin { /* the sessions of a model */
    struct td_session_kin *next;
    char model[TD_SESSION_NAME];
    int n;
    size_t bytes;
    struct td_session *first, *last; /* as they were called, the youngest call first */
};

struct td_session_settings { /* of a model's name, which keeps them when the model is replaced */
    struct td_session_settings *next;
    char model[TD_SESSION_NAME];
    int max;     /* sessions, or 0: as many as have room */
    int ttl_s;   /* of a new one, or 0: the table's */
    bool oldest; /* beyond that the one goes that was called least lately, of the same owner */
};

struct td_session { /* links and what a call sets are guarded by the table's lock */
    struct td_sessions *of;
    atomic_int refs; /* the table's, and of who has taken it */
    bool busy, is_new, gone;
    int n_waiters, node, ttl_s;
    struct td_session_waiter *waiter; /* the first to wait */
    struct td_session *next, *prev;   /* in its slot of the wheel, while nobody has it */
    struct td_session *sibling, *elder;
    struct td_session_kin *kin;
    struct td_account *owner;
    struct td_name *name; /* "OWNER:MODEL/NAME"; NULL: gone */
    struct td_served *served;
    struct td_contents *contents; /* NULL: what the model begins with */
    struct td_contents *spare;    /* a large one that it had before, for its next step; or NULL */
    size_t taken;                 /* of the budget */
    int64_t step, used_ns, expires_ns;
    char pool[TD_POOL_NAME];
};

struct td_sessions {
    struct td_models *models; /* borrowed */
    pthread_mutex_t lock;
    struct td_budget budget;
    struct td_names *names;
    struct td_session_kin *kin;
    struct td_session_settings *settings;
    struct td_session *slot[TD_SESSION_SLOTS];
    int64_t second; /* up to which the wheel has turned */
    int n_waiters, n_sessions, ttl_s;
    long long steps, conflicts, ended[TD_SESSION_ENDS];
    struct td_session_mourned { /* that ended last, by a hash of their names */
        uint64_t hash;
        int64_t at_ns;
        int idle_s;
        enum td_session_end how;
    } mourned[TD_SESSION_MOURNED];
    unsigned long long n_mourned;
    pthread_cond_t earlier;
    pthread_t clock;
    bool ticks, stopping;
};

/* ---- store.c; the lock is held ---- */

/* The sessions of a model, or NULL: it has none. */
struct td_session_kin *td_session_kin_of(struct td_sessions *sessions, const char *model);
/* The session of that name that the viewer sees, his own first, and which has not expired; or NULL.
 */
struct td_session *td_session_find(struct td_sessions *sessions, struct td_viewer viewer,
                                   const char *model, const char *name);
const char *td_session_name(const struct td_session *session); /* behind the model's */
bool td_session_is_seen(const struct td_session *session, struct td_viewer viewer);
/* A new one, which is busy. -ENOSPC, -ENOMEM. */
int td_session_make(struct td_sessions *sessions, const struct td_session_ask *ask,
                    struct td_session **session);
/* Nobody finds it any more; the table's reference becomes the caller's. */
void td_session_drop(struct td_session *session, enum td_session_end how, int64_t now);
/* So many bytes of all sessions', and of what its token may keep; taken, which is told, stays. */
int td_session_take(struct td_session *session, size_t bytes); /* 0, -ENOSPC, -EDQUOT */
void td_session_give(struct td_session *session, size_t bytes);
void td_session_count(struct td_session *session, size_t taken); /* it has so many bytes now */

void td_session_was_called(struct td_session *session); /* it is the youngest of its kin now */

/* ---- settings.c; the lock is held ---- */

/* NULL: the model says nothing. */
struct td_session_settings *td_session_settings_of(struct td_sessions *sessions, const char *model);
/* The settings of a file beside the model's; sessions: the table. What the route's refusals are. */
int td_sessions_settle_file(void *sessions, const char *model, const char *text, size_t size,
                            struct td_problem *problem);
void td_session_settings_drop(struct td_sessions *sessions, const char *model);
/* That there are fewer than max, so that one more is right. -ENOSPC, with the sentence. */
int td_session_make_way(struct td_sessions *sessions, const struct td_session_ask *ask,
                        struct td_problem *problem);
/* Where the model says so, the owner's session goes that nobody has called for longest: whether
 * one went. */
bool td_session_oldest_goes(struct td_sessions *sessions, const char *model,
                            const struct td_account *owner);

/* ---- store.c; without the lock ---- */

void td_session_unref(struct td_session *session); /* NULL is fine */

/* ---- clock.c; the lock is held ---- */

int td_session_start_clock(struct td_sessions *sessions);      /* once; -EAGAIN */
void td_session_wind(struct td_session *session, int64_t now); /* onto the wheel */
void td_session_unwind(struct td_session *session);
void td_session_stop_clock(struct td_sessions *sessions); /* without the lock */

/* ---- take.c; the lock is held ---- */

/* Takes off the waiters of a session that is gone; they come back as a list. */
struct td_session_waiter *td_session_take_waiters(struct td_session *session);
/* Takes off those whose time has come, over all sessions; *next: when the next one's does. */
struct td_session_waiter *td_session_late(struct td_sessions *sessions, int64_t now, int64_t *next);
/* Tells them; without the lock. */
void td_session_tell(struct td_session_waiter *list, int err);

#endif
