/* Calls that go on when their request has been answered 202: the table of tasks, their results, and
 * requests that wait for one. Internal to api/. */
#ifndef TD_API_TASKS_H
#define TD_API_TASKS_H

#include "api/access/access.h"
#include "api/request/request.h"

struct td_task_stats {
    int kept, queued, running, results; /* now; kept is all, with those cancelled in a queue */
    size_t bytes;                       /* taken for results, those to come included */
    int64_t accepted, done, cancelled, expired, refused; /* since start */
};
struct td_task_table *td_task_table_create(struct td_service *service); /* NULL: out of memory */
void td_task_table_destroy(struct td_task_table *table);
void td_task_table_stats(struct td_task_table *table, struct td_task_stats *stats);

enum td_task_state { TD_TASK_queued, TD_TASK_running, TD_TASK_done, TD_TASK_cancelled };

struct td_task { /* one task; references are counted */
    struct td_task *next, *prev, *same;
    struct td_task_table *table;
    atomic_int refs;
    struct td_account *owner;
    enum td_task_state state; /* guarded by the table's lock, as are the links */
    char id[33];              /* 128 random bits */
    char op[2 * TD_NAME_SIZE], pool[TD_POOL_NAME];
    int64_t begin_ns, end_ns; /* accepted, done; CLOCK_MONOTONIC */
    size_t bytes;             /* taken for its result until it is there, then by it */
    struct td_stop stop;      /* of its call: asked when a client deletes it */
    struct td_response reply; /* the call's own, once done; lives as long as the task */
    void *block_;             /* what reply points into */
};

/* Gives the call behind req (req->call_, req->release_, and the arena with all it has) a request of
 * its own, *own, which lives on in a new task after req has been answered; whoever runs the call
 * makes its response and calls own->reply. The task has a reference of the table's and one for the
 * caller. bytes: what the result may take. -ENOBUFS (too many tasks or bytes), -EMSGSIZE (more
 * bytes than all results may have), -ESHUTDOWN (draining), -ENOMEM; the sentence is in problem, and
 * nothing has changed. */
int td_task_add(struct td_task **task, struct td_request *req, struct td_request **own,
                const char *op, const char *pool, size_t bytes, struct td_problem *problem);
/* Undoes it, when the call could not be queued: req has everything back, the caller still his
 * reference. */
void td_task_take_back(struct td_request *req, struct td_request *own);
/* To be asked by the worker first: false when the task has been cancelled. own->reply is due in
 * either case. */
bool td_task_begin(struct td_request *own);
struct td_stop *td_task_stop(struct td_request *own); /* borrowed; what its call has to obey */

/* A new reference, for td_task_unref; NULL when there is none of that id that the viewer sees. */
struct td_task *td_task_find(struct td_task_table *table, struct td_viewer viewer, const char *id);
void td_task_unref(struct td_task *task); /* NULL is fine */
enum td_task_state td_task_state(struct td_task *task);
/* Forgets a task: its result, or its call, which never begins, or is stopped where it is (a
 * library's kernel runs to its end for nothing). -ENOENT: somebody else was faster. */
int td_task_forget(struct td_task *task);

/* Defers req until the task has ended or until_ns has come, then calls answer and replies. false:
 * it has ended already, and nothing is done. Needs a reference that lives as long as req. */
typedef void td_task_answer(struct td_request *req, struct td_task *task);
bool td_task_wait(struct td_task *task, struct td_request *req, int64_t until_ns,
                  td_task_answer *answer);

/* New references to tasks, those that wait or run first, each in the order they came; at most max.
 * Returns how many. */
int td_task_list(struct td_task_table *table, struct td_viewer viewer, struct td_task **list,
                 int max);

/* ---- tasks.c ---- */

/* Whether the client asked for it: Prefer: respond-async. */
bool td_api_task_is_wanted(const struct td_request *req);
/* Makes the 202 that says where the task is. */
void td_api_task_accepted(struct td_request *req, struct td_task *task);

#endif
