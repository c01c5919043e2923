/* Tasks: calls whose request has been answered before they are done.
 *
 * A call lives in its request's arena, so the arena gets a second holder and the call a copy of the
 * request in it, whose reply() ends here instead of on a connection. The result is copied out and
 * everything else of the call freed at once: what is kept is what a client can still fetch. Tasks
 * that are done are forgotten task_ttl_s later. What a result may take is taken when its task is
 * accepted, so that one that was computed can be kept; the call itself holds its arena, like any.
 *
 * `lock` guards the table: lists, hash, states, waiters. It is never held while a reply is made or
 * memory copied. Who waits for a task and when results run out is wait.c's. */
#include "api/tasks/table.h"
#include "api/names/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct own { /* a call's own request */
    struct td_request req;
    struct td_task *task;
};

/* ---- the life of a task ---- */

/* Of all results, and of the token's. */
static int take(struct td_task *task, size_t bytes)
{
    struct td_budget *budget = &task->table->budget;
    int err = td_budget_take(budget, bytes);
    if (!err && (err = td_account_keep(task->owner, bytes)))
        td_budget_give(budget, bytes);
    return err;
}

static void give(struct td_task *task, size_t bytes)
{
    td_budget_give(&task->table->budget, bytes);
    td_account_give(task->owner, bytes);
}

/* Has the task hold that many bytes: fewer than were taken for it, but for a long explanation. */
static int settle(struct td_task *task, size_t bytes)
{
    int err = bytes > task->bytes ? take(task, bytes - task->bytes) : 0;
    if (bytes < task->bytes)
        give(task, task->bytes - bytes);
    if (!err)
        task->bytes = bytes;
    return err;
}

/* Copies what the call has answered to where it may stay. */
static void keep_reply(struct td_task *task, const struct td_response *res)
{
    size_t size = res->size + 1;
    for (int i = 0; i < TD_MAX_HEADERS && res->header[i].name; i++)
        size += strlen(res->header[i].value) + 1;
    char *at = settle(task, size) ? NULL : malloc(size);
    task->block_ = at;
    if (!at) {
        td_api_text(&task->reply, 503, "application/problem+json",
                    "{\"type\":\"/problems/out-of-memory\",\"title\":\"The server is short of "
                    "memory\",\"status\":503,\"detail\":\"no memory to keep the result\",\"error\":"
                    "\"no memory to keep the result\"}\n");
        return;
    }
    task->reply = *res;
    task->reply.constant = false;
    task->reply.body = at;
    if (res->size)
        memcpy(at, res->body, res->size);
    at += res->size;
    for (int i = 0; i < TD_MAX_HEADERS && res->header[i].name; i++) {
        task->reply.header[i].value = strcpy(at, res->header[i].value);
        at += strlen(at) + 1;
    }
}

/* The call's own reply(): its response is there, or it was cancelled. */
static void finish(struct td_request *req)
{
    struct td_task *task = ((struct own *)req)->task;
    struct td_task_table *table = task->table;
    struct td_service *service = req->service;
    struct td_arena *arena = req->arena;
    if (td_task_state(task) != TD_TASK_cancelled)
        keep_reply(task, &req->response);
    req->release_(req);
    td_token_unref(req->token);
    td_arena_destroy(arena); /* and req with it */
    pthread_mutex_lock(&table->lock);
    bool cancelled = task->state == TD_TASK_cancelled; /* perhaps only now */
    struct td_task_waiter *waiters = NULL;
    if (cancelled) {
        table->stats.kept--;
    } else {
        table->stats.running--;
        table->stats.done++;
        table->stats.results++;
        td_task_cut(&table->active, task);
        task->state = TD_TASK_done;
        task->end_ns = td_now_ns();
        td_task_append(&table->done, task);
        waiters = td_task_take_waiters(table, task, 0);
        td_task_wake_clock(table, task->end_ns + td_task_ttl_ns(table));
    }
    pthread_mutex_unlock(&table->lock);
    td_task_answer_waiters(waiters);
    td_task_unref(task);
    atomic_fetch_sub(&service->front.in_flight, 1); /* the last: then the service may go */
}

static void no_defer(struct td_request *req)
{
    (void)req;
}

/* Puts the task into the table, if there is room. */
static int enter(struct td_task_table *table, struct td_task *task, struct td_problem *problem)
{
    const struct td_limits *limits = &table->service->limits;
    int err = 0;
    if (task->bytes > limits->task_bytes)
        return td_problem_set(
            problem, EMSGSIZE,
            "the result may have %zu bytes, and those of all tasks together have %zu "
            "(task-bytes); without Prefer: respond-async there is no such limit",
            task->bytes, limits->task_bytes);
    pthread_mutex_lock(&table->lock);
    if (table->stats.kept >= limits->tasks)
        err = td_problem_set(problem, ENOBUFS,
                             "%d tasks are kept, and that is the most; DELETE /v1/tasks/{id} "
                             "forgets one, as does time",
                             limits->tasks);
    else if (td_task_start_clock(table))
        err = td_problem_set(problem, ENOMEM, "no thread for tasks");
    else if ((err = take(task, task->bytes)) == -EDQUOT)
        td_account_no_room(task->owner, "the result", problem);
    else if (err)
        td_problem_set(
            problem, -err,
            "the results of tasks have %zu of their %zu bytes (task-bytes), and this one "
            "may have %zu; DELETE /v1/tasks/{id} forgets one, as does time",
            (size_t)table->budget.used, limits->task_bytes, task->bytes);
    if (err) {
        table->stats.refused++;
    } else {
        struct td_task **at = td_task_place(table, task->id);
        task->same = *at;
        *at = task;
        td_task_append(&table->active, task);
        table->stats.kept++;
        table->stats.accepted++;
        table->stats.queued++;
    }
    pthread_mutex_unlock(&table->lock);
    return err;
}

int td_task_add(struct td_task **result, struct td_request *req, struct td_request **own_req,
                const char *op, const char *pool, size_t bytes, struct td_problem *problem)
{
    struct td_service *service = req->service;
    struct td_task *task = calloc(1, sizeof *task);
    struct own *own = td_arena_alloc(req->arena, sizeof *own);
    int err = 0;
    if (atomic_load(&service->front.draining))
        err = td_problem_set(problem, ESHUTDOWN, "the server is draining and begins no tasks");
    else if (!task || !own || td_names_draw(task->id))
        err = td_problem_set(problem, ENOMEM, "no memory for a task");
    if (!err) {
        task->table = service->tasks;
        task->owner = td_access_viewer(req).account;
        task->bytes = bytes;
        task->begin_ns = td_now_ns();
        snprintf(task->op, sizeof task->op, "%s", op);
        snprintf(task->pool, sizeof task->pool, "%s", pool);
        atomic_init(&task->refs, 3); /* the table's, the call's, the caller's */
        err = enter(service->tasks, task, problem);
    }
    if (err) {
        free(task);
        return err;
    }
    *own = (struct own){.req = *req, .task = task};
    own->req.path = own->req.query = ""; /* these lie in the connection's memory */
    own->req.content_type = own->req.prefer = own->req.json_length_text = NULL;
    own->req.authorization = NULL;
    td_token_ref(own->req.token);
    own->req.flight_ = 0; /* that is of the request's own bytes */
    own->req.home = NULL;
    own->req.worker = NULL;
    own->req.gone = NULL; /* whoever was answered 202 may go */
    own->req.crowded = NULL;
    own->req.defer = no_defer;
    own->req.reply = finish;
    td_arena_ref(req->arena);
    req->call_ = NULL;
    req->release_ = NULL;
    atomic_fetch_add(&service->front.in_flight, 1);
    *own_req = &own->req;
    *result = task;
    return 0;
}

void td_task_take_back(struct td_request *req, struct td_request *own_req)
{
    struct td_task *task = ((struct own *)own_req)->task;
    struct td_task_table *table = task->table;
    req->call_ = own_req->call_;
    req->release_ = own_req->release_;
    td_token_unref(own_req->token);
    pthread_mutex_lock(&table->lock);
    bool cancelled = task->state == TD_TASK_cancelled; /* by somebody who saw it in the list */
    struct td_task_waiter *waiters = td_task_take_waiters(table, task, 0);
    table->stats.kept--;
    if (!cancelled) {
        td_task_unlink(task);
        task->state = TD_TASK_cancelled;
        table->stats.queued--;
    }
    table->stats.refused++;
    pthread_mutex_unlock(&table->lock);
    td_task_answer_waiters(waiters);
    if (!cancelled)
        td_task_unref(task);      /* the table's */
    td_task_unref(task);          /* the call's */
    td_arena_destroy(req->arena); /* there is still req's own hold */
    atomic_fetch_sub(&req->service->front.in_flight, 1);
}

bool td_task_begin(struct td_request *own_req)
{
    struct td_task *task = ((struct own *)own_req)->task;
    struct td_task_table *table = task->table;
    pthread_mutex_lock(&table->lock);
    bool begins = task->state == TD_TASK_queued;
    if (begins) {
        task->state = TD_TASK_running;
        table->stats.queued--;
        table->stats.running++;
    }
    pthread_mutex_unlock(&table->lock);
    return begins;
}

struct td_stop *td_task_stop(struct td_request *own_req)
{
    return &((struct own *)own_req)->task->stop;
}

int td_task_forget(struct td_task *task)
{
    struct td_task_table *table = task->table;
    struct td_task_waiter *waiters = NULL;
    pthread_mutex_lock(&table->lock);
    int err = *td_task_place(table, task->id) == task ? 0 : -ENOENT;
    if (!err) {
        td_task_unlink(task);
        if (task->state == TD_TASK_done) {
            table->stats.kept--;
            table->stats.results--;
        } else { /* it counts until it comes out of its pool's queue, or its kernel ends */
            bool runs = task->state == TD_TASK_running;
            *(runs ? &table->stats.running : &table->stats.queued) -= 1;
            task->state = TD_TASK_cancelled;
            atomic_store(&task->stop.asked, true);
            table->stats.cancelled++;
            waiters = td_task_take_waiters(table, task, 0);
        }
    }
    pthread_mutex_unlock(&table->lock);
    td_task_answer_waiters(waiters);
    if (!err)
        td_task_unref(task); /* the table's */
    return err;
}

/* ---- the table ---- */

struct td_task_table *td_task_table_create(struct td_service *service)
{
    struct td_task_table *table = calloc(1, sizeof *table);
    pthread_condattr_t attr;
    if (!table)
        return NULL;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&table->lock, NULL);
    pthread_cond_init(&table->earlier, &attr);
    pthread_condattr_destroy(&attr);
    table->service = service;
    td_budget_init(&table->budget, &td_memory, service->limits.task_bytes, ENOBUFS);
    return table;
}

void td_task_table_destroy(struct td_task_table *table)
{
    if (!table)
        return;
    td_task_stop_clock(table);
    for (struct td_task *next, *task = table->done.first; task; task = next) {
        next = task->next;
        td_task_unref(task);
    }
    pthread_cond_destroy(&table->earlier);
    pthread_mutex_destroy(&table->lock);
    free(table);
}
