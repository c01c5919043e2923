/* Requests whose reading or writing takes long, whatever is computed: a hundred megabytes of JSON
 * are two seconds' work. An HTTP thread has other connections, so a worker runs the handler
 * instead, as it would run a call; a call for the worker's own pool is then computed right there.
 *
 * Which requests these are, a handler says itself, before it has done anything. */
#include "api/request/request.h"

#include <errno.h>

#define BULK_TEXT (128 * 1024) /* bytes of JSON, some tenths of a millisecond */
#define BULK_BODY (8 << 20)    /* bytes of anything */

struct bulk {
    struct td_job job;
    struct td_request *req;
    struct td_pool *pool; /* a reference */
};

bool td_api_is_bulk(const struct td_request *req, size_t text, size_t bytes)
{
    return !req->worker && (text > BULK_TEXT || bytes > BULK_BODY);
}

/* Requests that show or delete may use memory beyond the budget (pools/pools.h): they must work
 * when nothing else does. Bodies of theirs are small, as are those of the few others of that kind.
 */
static bool is_for_control(const struct td_request *req)
{
    return req->route->body == TD_BODY_small;
}

int td_api_run(struct td_request *req)
{
    if (is_for_control(req))
        td_arena_favour(req->arena);
    int err = req->route->handler(req, &req->response);
    if (err == -EINPROGRESS)
        return err;
    if (!req->response.status)
        td_api_problem(req, -ENOMEM, "no memory for the reply");
    return 0;
}

bool td_api_is_gone(struct td_request *req)
{
    if (!req->gone || !atomic_load(req->gone))
        return req->crowded && req->crowded(req);
    td_api_problem(req, -ETIMEDOUT,
                   "the client closed its side while the request waited in a queue");
    return true;
}

static void run_job(struct td_job *job, struct td_worker *worker)
{
    struct td_request *req = ((struct bulk *)job)->req;
    struct td_pool *pool = ((struct bulk *)job)->pool;
    int64_t ms = req->service->limits.timeout_ms;
    int err = 0;
    req->worker = worker;
    td_worker_note(worker, job->what, ms ? req->begin_ns + ms * 1000000 : 0);
    if (!td_api_is_gone(req))
        err = td_api_run(req);
    if (err != -EINPROGRESS)
        req->reply(req);
    td_pool_unref(pool);
}

int td_api_refused(struct td_request *req, struct td_pool *pool, int err)
{
    return td_api_problem(req, err, "pool %s: %s", td_pool_name(pool),
                          err == -EAGAIN ? "its queue is full" : "it is stopping");
}

int td_api_hand_over(struct td_request *req)
{
    struct td_pool *pool = td_pools_find(req->service->pools, req->home);
    if (!pool) /* it is no more, and the thread is still there */
        pool = td_pools_find(req->service->pools, NULL);
    return td_api_hand_over_to(req, pool);
}

int td_api_hand_over_to(struct td_request *req, struct td_pool *pool)
{
    struct bulk *bulk = td_arena_zalloc(req->arena, sizeof *bulk);
    if (!bulk) {
        td_pool_unref(pool);
        return td_api_problem(req, -ENOMEM, "no memory for the request");
    }
    *bulk = (struct bulk){{.run = run_job, .what = req->route->pattern}, req, pool};
    req->defer(req);
    int err = td_pool_submit(pool, &bulk->job);
    if (err) {
        td_api_refused(req, pool, err);
        td_pool_unref(pool);
        req->reply(req);
    }
    return -EINPROGRESS; /* the worker may have answered by now */
}
