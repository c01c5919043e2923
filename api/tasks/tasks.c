/* The routes of tasks: who asks for one, how it stands, its result, its end. */
#include "api/tasks/tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define WAIT_MAX 600 /* seconds */

/* Preferences are separated by commas, each perhaps with a value and parameters (RFC 7240). */
bool td_api_task_is_wanted(const struct td_request *req)
{
    static const char wanted[] = "respond-async";
    for (const char *p = req->prefer; p && *p; p += strcspn(p, ","), p += *p == ',') {
        p += strspn(p, " \t");
        if (!strncasecmp(p, wanted, sizeof wanted - 1) && strchr(" \t,;", p[sizeof wanted - 1]))
            return true;
    }
    return false;
}

static void write_task(struct td_writer *w, struct td_task *task, int ttl_s)
{
    static const char *const names[] = {"queued", "running", "done", "cancelled"};
    enum td_task_state state = td_task_state(task);
    int64_t now = td_now_ns();
    td_write_open(w, NULL, '{');
    td_write_str(w, "id", task->id);
    td_write_str(w, "state", names[state]);
    td_write_str(w, "operator", task->op);
    td_write_str(w, "pool", task->pool);
    td_write_int(w, "age_ms", (now - task->begin_ns) / 1000000);
    if (state == TD_TASK_done) {
        int64_t left = ttl_s * INT64_C(1000000000) - (now - task->end_ns);
        td_write_int(w, "status", task->reply.status);
        td_write_int(w, "bytes", (int64_t)task->reply.size);
        td_write_int(w, "left_ms", left > 0 ? left / 1000000 : 0);
    }
    td_write_close(w, '}');
}

static void answer_state(struct td_request *req, struct td_task *task)
{
    struct td_writer w;
    td_write_init(&w, req->arena, 512);
    write_task(&w, task, req->service->limits.task_ttl_s);
    if (td_write_response(&w, &req->response, 202))
        td_api_problem(req, -ENOMEM, "no memory for the reply");
}

void td_api_task_accepted(struct td_request *req, struct td_task *task)
{
    char *location = td_arena_printf(req->arena, "/v1/tasks/%s", task->id);
    answer_state(req, task);
    if (!location || req->response.status != 202)
        return;
    req->response.header[0] = (struct td_header){"Location", location};
    req->response.header[1] = (struct td_header){"Preference-Applied", "respond-async"};
}

static int no_task(struct td_request *req)
{
    return td_api_problem(req, -ENOENT,
                          "no task '%.60s'; results are kept for %d s (task-ttl-s), and GET "
                          "/v1/tasks lists what there is",
                          req->var[0], req->service->limits.task_ttl_s);
}

/* ---- GET: how it stands, or what the call has answered ---- */

static void answer(struct td_request *req, struct td_task *task)
{
    enum td_task_state state = td_task_state(task);
    if (state == TD_TASK_done)
        req->response = task->reply;
    else if (state == TD_TASK_cancelled)
        td_api_problem(req, -ENOENT, "the task '%s' was cancelled", task->id);
    else
        answer_state(req, task);
}

static void release(struct td_request *req)
{
    td_task_unref(req->call_);
    req->call_ = NULL;
}

/* wait=SECONDS of the query, in *ns; absent is 0. */
static int read_wait(struct td_request *req, int64_t *ns)
{
    const char *text;
    char *end;
    int err = td_api_query(req, "wait", &text);
    *ns = 0;
    if (err || !text)
        return err;
    double seconds = strtod(text, &end);
    if (text[strspn(text, "0123456789.")] || end == text || *end ||
        !(seconds >= 0 && seconds <= WAIT_MAX))
        return td_api_problem(req, -EINVAL, "wait: must be a number of seconds from 0 to %d",
                              WAIT_MAX);
    *ns = (int64_t)(seconds * 1e9);
    return 0;
}

int td_api_tasks_get(struct td_request *req, struct td_response *res)
{
    int64_t wait_ns;
    int err = read_wait(req, &wait_ns);
    (void)res;
    if (err)
        return err;
    struct td_task *task = td_task_find(req->service->tasks, td_access_viewer(req), req->var[0]);
    if (!task)
        return no_task(req);
    req->call_ = task; /* its reply is sent from where it lies */
    req->release_ = release;
    if (wait_ns && td_task_wait(task, req, td_now_ns() + wait_ns, answer))
        return -EINPROGRESS;
    answer(req, task);
    return 0;
}

int td_api_tasks_list(struct td_request *req, struct td_response *res)
{
    struct td_task_stats stats;
    td_task_table_stats(req->service->tasks, &stats);
    struct td_task **list = td_arena_alloc(req->arena, ((size_t)stats.kept + 1) * sizeof *list);
    if (!list)
        return td_api_problem(req, -ENOMEM, "no memory for the reply");
    int n = td_task_list(req->service->tasks, td_access_viewer(req), list, stats.kept);
    struct td_writer w;
    td_write_init(&w, req->arena, 1024);
    td_write_open(&w, NULL, '{');
    td_write_open(&w, "tasks", '[');
    for (int i = 0; i < n; i++) {
        write_task(&w, list[i], req->service->limits.task_ttl_s);
        td_task_unref(list[i]);
    }
    td_write_close(&w, ']');
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

int td_api_tasks_delete(struct td_request *req, struct td_response *res)
{
    struct td_task *task = td_task_find(req->service->tasks, td_access_viewer(req), req->var[0]);
    int err = task ? td_task_forget(task) : -ENOENT;
    td_task_unref(task);
    if (err)
        return no_task(req);
    res->status = 204;
    return 0;
}
