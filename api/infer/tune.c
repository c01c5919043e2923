/* POST /v1/kernels/{op}/tune: a call of an operator that is read and bound as any other, and then
 * not computed: its kernels are timed on memory of their own, so that it needs no data, and what
 * was found serves all calls of its kind from then on (dispatch/choice/). On a worker of the pool
 * and with its team, as the calls that it is for. */
#include "dispatch/choice/tune.h"
#include "api/infer/call.h"

static void reply(struct td_infer *in, const struct td_measured *m)
{
    struct td_problem problem = {""};
    struct td_writer w;
    int stored = td_api_keep_choices(in->req->service, &problem);
    td_write_init(&w, in->req->arena, 2048);
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "op", in->run.handle->full);
    td_write_measured(&w, m);
    td_write_str(&w, "pool", td_pool_name(in->pool));
    td_write_int(&w, "threads", in->run.call.threads);
    td_write_bool(&w, "stored", stored > 0);
    if (stored < 0)
        td_write_str(&w, "warning", problem.text);
    td_write_close(&w, '}');
    td_write_response(&w, &in->req->response, 200);
}

static void measure(struct td_infer *in, struct td_worker *worker)
{
    struct td_measured measured;
    struct td_problem problem = {""};
    in->run.call.threads = td_worker_threads(worker);
    in->run.node = td_worker_numa_node(worker);
    const struct td_stop *before = td_stop_obey(&in->req->stop);
    int err = td_run_tune(&in->run, &measured, &problem);
    td_stop_obey(before);
    if (err)
        td_api_problem(in->req, err, "%s", problem.text);
    else
        reply(in, &measured);
}

static void run_job(struct td_job *job, struct td_worker *worker)
{
    struct td_infer *in = (struct td_infer *)((char *)job - offsetof(struct td_infer, job));
    struct td_request *req = in->req;
    if (!td_api_is_gone(req))
        measure(in, worker);
    req->reply(req);
}

int td_infer_tune(struct td_infer *in)
{
    struct td_request *req = in->req;
    if (in->meta)
        return td_api_problem(req, -EINVAL, "tune: the call leads to Meta, which runs nothing");
    if (in->forced)
        return td_api_problem(req, -EINVAL,
                              "kernel: tune measures all kernels that take the call, and keeps the "
                              "fastest");
    if (req->worker && td_worker_pool(req->worker) == in->pool) {
        measure(in, req->worker);
        return 0;
    }
    in->job =
        (struct td_job){.run = run_job, .what = in->run.handle->full, .priority = in->priority};
    if (req->worker) /* who has had his part */
        req->worker = NULL;
    else
        req->defer(req);
    int64_t at = in->timeout_ms ? req->begin_ns + in->timeout_ms * 1000000 : 0;
    req->stop.deadline_ns = in->job.deadline_ns = at;
    int err = td_pool_submit(in->pool, &in->job);
    if (err) {
        td_api_refused(req, in->pool, err);
        req->reply(req);
    }
    return -EINPROGRESS;
}
