/* Sessions: what a model remembers for a client between its calls, under a name of the model's.
 * A session has contents, one tensor for each state of the model, which never change: a call reads
 * them, and when it has gone well others take their place (a step). So a fork shares them, and a
 * snapshot needs no call to wait. Where there are tokens a session is of the token that made it,
 * and names are each token's own. One call at a time has a session; another is refused or waits.
 *
 * store.c is their table, look.c shows it, take.c who has one and who waits, clock.c when they end
 * by themselves, settings.c what a model says of all its own, contents.c what they hold, snapshot.c
 * that as a file, and routes.c what clients ask. Any thread may enter. Internal to api/. */
#ifndef TD_API_SESSIONS_H
#define TD_API_SESSIONS_H

#include "api/access/access.h"
#include "api/models/models.h"

#define TD_SESSION_NAME 201
#define TD_SESSION_MOST_TTL_S 31536000

/* ---- contents.c ---- */

struct td_contents { /* of the model's states, in their order; references are counted */
    atomic_int refs;
    size_t bytes;     /* with the elements, which are of td_memory */
    int64_t position; /* tokens that led here, of a model that takes input_ids */
    int n;
    struct td_tensor tensor[];
};
#define TD_CONTENTS_LARGE ((size_t)256 << 10) /* bytes from which on a block is used again */
/* Copies of n tensors. spare: a reference to contents that are wanted no more, whose block is used
 * where it can be, and *spare is NULL then; NULL: there are none. -ENOMEM. */
int td_contents_copy(struct td_contents **contents, struct td_contents **spare,
                     const struct td_tensor *from, int n);
struct td_contents *td_contents_ref(struct td_contents *contents); /* NULL is fine, in both */
void td_contents_unref(struct td_contents **contents);             /* nulls the pointer */

/* ---- store.c ---- */

struct td_sessions;
struct td_session;

/* bytes: that they may hold, of td_memory; ttl_s: for how long one is kept that says nothing else.
 * NULL: out of memory. */
struct td_sessions *td_sessions_create(struct td_models *models, size_t bytes, int ttl_s);
void td_sessions_destroy(struct td_sessions *sessions); /* NULL is fine */

/* The sentence for a name that no session has; gives back -ENOENT. */
int td_sessions_unknown(struct td_sessions *sessions, struct td_viewer viewer, const char *model,
                        const char *name, struct td_problem *problem);

/* Letters, digits, . _ -, not dots only; 200 at most. */
bool td_sessions_name_is_right(const char *name);

/* ---- look.c ---- */

/* By its client, by time, for a new one's sake, or with its model. */
enum td_session_end {
    TD_SESSION_end,
    TD_SESSION_idle,
    TD_SESSION_oldest,
    TD_SESSION_model,
    TD_SESSION_ENDS
};

struct td_session_stats {
    size_t bytes, limit;
    long long steps, conflicts, ended[TD_SESSION_ENDS];
};
void td_sessions_stats(struct td_sessions *sessions, struct td_session_stats *stats);

struct td_session_group { /* of a model */
    const char *model;
    int n;
    size_t bytes;
};
/* Those models that have sessions, in an array of the arena: how many, or -ENOMEM. */
int td_sessions_groups(struct td_sessions *sessions, struct td_arena *arena,
                       struct td_session_group **groups);

struct td_session_view {            /* of a moment */
    const char *name;               /* in the arena */
    const char *owner;              /* the token's name, borrowed, or "" */
    struct td_served *served;       /* a reference: the model that it goes on with, */
    struct td_contents *contents;   /* and one; NULL: what the model begins with */
    int64_t step, idle_ns, left_ns; /* left until it expires */
    size_t bytes;
    bool busy;
    char pool[TD_POOL_NAME]; /* where it was last, or "" */
    int node;
};
void td_session_view_end(struct td_session_view *view);
/* -ENOENT, -ENOMEM. */
int td_sessions_see(struct td_sessions *sessions, struct td_viewer viewer, const char *model,
                    const char *name, struct td_arena *arena, struct td_session_view *view);
/* The sessions of a model by name behind `after`, at most `most`, without their contents: how many,
 * or -ENOMEM. total: of all. */
int td_sessions_list(struct td_sessions *sessions, struct td_viewer viewer, const char *model,
                     const char *after, int most, struct td_arena *arena,
                     struct td_session_view **list, struct td_session_group *total);

/* ---- take.c ---- */

#define TD_SESSION_WAITERS 16 /* that may wait for one session */

struct td_session_waiter;
/* The session is the waiter's now; or NULL, and it has ended (-ENOENT) or time has (-ETIMEDOUT). */
typedef void td_session_go(struct td_session_waiter *waiter, struct td_session *session, int err);
struct td_session_waiter { /* the caller's, until go has been called */
    struct td_session_waiter *next;
    struct td_session *of;
    int64_t until_ns;
    td_session_go *go;
    void (*wait)(struct td_session_waiter *waiter); /* called once it waits, before go can be */
};

struct td_session_ask {
    struct td_viewer viewer; /* whose request it is; a new one is his */
    const char *model, *name;
    struct td_served *served;         /* borrowed: a new one's model */
    bool start;                       /* make it where there is none */
    struct td_session_waiter *waiter; /* with until_ns, go and wait; NULL: do not wait */
};
/* Has the session for the caller alone, until td_session_release. -EINPROGRESS: the waiter will be
 * told. -ENOENT, -EBUSY, -ENOSPC, -ENOMEM, with the sentence. */
int td_sessions_take(struct td_sessions *sessions, const struct td_session_ask *ask,
                     struct td_session **session, struct td_problem *problem);

/* Of a session that is taken: */
struct td_served *td_session_served(const struct td_session *session);     /* borrowed */
struct td_contents *td_session_contents(const struct td_session *session); /* borrowed, or NULL */
struct td_contents **td_session_spare(struct td_session *session); /* for td_contents_copy */
int64_t td_session_step(const struct td_session *session);
bool td_session_is_new(const struct td_session *session);
void td_session_set_ttl(struct td_session *session, int ttl_s);
/* Room for contents of so many bytes. -ENOSPC, with the sentence. */
int td_session_reserve(struct td_session *session, size_t bytes, struct td_problem *problem);
/* What it has from now on, of a model; room is reserved. Takes the contents' reference. pool: where
 * it ran, NULL: nowhere. */
void td_session_commit(struct td_session *session, struct td_contents *contents,
                       struct td_served *served, int64_t step, const char *pool, int node);
/* Gives it to the next; a new one without a commit, or one that is to end, is gone. */
void td_session_release(struct td_session **session, bool end); /* nulls the pointer */

/* ---- inputs.c ---- */

/* Gives those of all inputs that have no type yet, and are kept or follow, what a session with
 * such contents has for them; and puts contexts before those that have one. before: NULL where the
 * model begins. -EINVAL, -ENOMEM. */
int td_session_fill(const struct td_served *served, const struct td_contents *before,
                    struct td_tensor *inputs, struct td_arena *arena, struct td_problem *problem);
/* The contents after a run that gave all these outputs; spare: as td_contents_copy has it. -EINVAL:
 * they do not fit, -ENOMEM. */
int td_session_keep(const struct td_served *served, const struct td_contents *before,
                    const struct td_tensor *inputs, const struct td_tensor *out,
                    struct td_contents **spare, struct td_contents **after,
                    struct td_problem *problem);

/* ---- snapshot.c ---- */

/* Makes a .safetensors file of the contents the response. What td_api_problem gives back. */
int td_session_file(struct td_request *req, const struct td_session_view *view);
/* Contents from the request's body, such a file, judged by the model; *step: that it was at. any:
 * also of another model's file. -EINVAL, -EBUSY (of another file), -ENOMEM. */
int td_session_read_file(struct td_request *req, const struct td_served *served, bool any,
                         struct td_contents **contents, int64_t *step, struct td_problem *problem);

#endif
