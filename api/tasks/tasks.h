/* Calls that go on when their request has been answered 202: the table of tasks, their results, and
 * requests that wait for one. (A td_task is pools/'s own, without HTTP.) Internal to api/. */
#ifndef TD_API_ASYNC_H
#define TD_API_ASYNC_H

#include "api/handlers.h"

enum td_async_state { TD_ASYNC_queued, TD_ASYNC_running, TD_ASYNC_done, TD_ASYNC_cancelled };

struct td_async { /* one task; references are counted */
    struct td_async *next, *prev, *same;
    struct td_async_table *table;
    atomic_int refs;
    enum td_async_state state; /* guarded by the table's lock, as are bytes and the links */
    char id[33];               /* 128 random bits */
    char op[2 * TD_NAME_SIZE], pool[TD_POOL_NAME];
    int64_t begin_ns, end_ns; /* accepted, done; CLOCK_MONOTONIC */
    size_t bytes;             /* of memory that it counts for */
    struct td_response reply; /* the call's own, once done; lives as long as the task */
    void *block_;             /* what reply points into */
};

/* Gives the call behind req (req->call_, req->release_, and the arena with all it has) a request of
 * its own, *own, which lives on in a new task after req has been answered; whoever runs the call
 * makes its response and calls own->reply. The task has a reference of the table's and one for the
 * caller. bytes: what call and result take. -ENOBUFS (too many tasks or bytes), -EMSGSIZE (more
 * bytes than all tasks may have), -ESHUTDOWN (draining), -ENOMEM; the sentence is in problem, and
 * nothing has changed. */
int td_async_add(struct td_async **task, struct td_request *req, struct td_request **own,
                 const char *op, const char *pool, size_t bytes, struct td_problem *problem);
/* Undoes it, when the call could not be queued: req has everything back, the caller still his
 * reference. */
void td_async_take_back(struct td_request *req, struct td_request *own);
/* To be asked by the worker first: false when the task has been cancelled. own->reply is due in
 * either case. */
bool td_async_begin(struct td_request *own);

/* A new reference, for td_async_unref; NULL when there is none of that id. */
struct td_async *td_async_find(struct td_async_table *table, const char *id);
void td_async_unref(struct td_async *task); /* NULL is fine */
enum td_async_state td_async_state(struct td_async *task);
/* Forgets a task that is done, or that has not begun (it never will). -EBUSY: it runs. -ENOENT:
 * somebody else was faster. */
int td_async_forget(struct td_async *task);

/* Defers req until the task has ended or until_ns has come, then calls answer and replies. false:
 * it has ended already, and nothing is done. Needs a reference that lives as long as req. */
typedef void td_async_answer(struct td_request *req, struct td_async *task);
bool td_async_wait(struct td_async *task, struct td_request *req, int64_t until_ns,
                   td_async_answer *answer);

/* New references to tasks, those that wait or run first, each in the order they came; at most max.
 * Returns how many. */
int td_async_list(struct td_async_table *table, struct td_async **list, int max);

/* ---- tasks.c ---- */

/* Whether the client asked for it: Prefer: respond-async. */
bool td_api_task_is_wanted(const struct td_request *req);
/* Makes the 202 that says where the task is. */
void td_api_task_accepted(struct td_request *req, struct td_async *task);

#endif
