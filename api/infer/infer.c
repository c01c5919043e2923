/* One operator on a client's tensors, the whole way: the protocol's request is read into named
 * arguments, dispatch binds them, a pool runs the call, the reply is written around the outputs. A
 * model goes the same way, and differs where model.c has it.
 *
 * Binary tensors are used where the body landed, and a binary output is computed right behind the
 * room where the reply's JSON will stand, so that neither is copied. A call for the pool whose CPU
 * this HTTP thread sits on runs to completion here when it is small: handing it over would cost
 * more than the work, or the work is little beside what this thread has just spent on the body.
 * Anything else goes through the pool's queue and is answered by its worker. */
#include "api/infer/call.h"
#include "api/metrics/metrics.h"
#include "api/tasks/tasks.h"

#include <errno.h>
#include <string.h>

/* The most that this thread's other connections are kept waiting for a call, and a sixth of what a
 * byte of the body costs on its way through the socket. */
#define INLINE_SECONDS 70e-6
#define INLINE_BYTE_SECONDS 50e-12
#define INLINE_TEXT_SECONDS 2e-9 /* a byte of a result's JSON, written behind the computing */
/* Of a model, whose time may follow from values: the most that it is known to take, and that it
 * gets. */
#define INLINE_MODEL_SECONDS 20e-6
#define INLINE_MODEL_NS 1000000

/* ---- running ---- */

static struct td_stop *stop_of(struct td_infer *in)
{
    return in->is_task ? td_task_stop(in->req) : &in->req->stop;
}

/* Whether the time is over, or nobody wants a result any more; the response is then that. A
 * library's kernel runs to its end nevertheless. */
static bool is_over(struct td_infer *in, const char *what)
{
    const struct td_stop *stop = stop_of(in);
    if (!td_stop_is_due(stop))
        return false;
    if (atomic_load(&stop->asked))
        td_api_problem(in->req, -ETIMEDOUT, "nobody waits for the result any more");
    else
        td_api_problem(in->req, -ETIMEDOUT, "timeout_ms: the request %s longer than %lld ms", what,
                       (long long)in->timeout_ms);
    return true;
}

/* What binding, or the kernel, says. */
static int run_operator(struct td_infer *in, struct td_worker *worker)
{
    size_t scratch_bytes;
    void *scratch = NULL;
    bool whole = in->streams.parts < 2;
    in->run.call.threads = worker && !in->alone ? td_worker_threads(worker) : 1;
    in->run.stop = worker ? stop_of(in) : NULL;
    in->run.node = worker ? td_worker_numa_node(worker) : td_pool_home_node(in->pool);
    in->begin_ns = in->ran_inline ? 0 : td_now_ns();
    int err = td_run_select(&in->run, &scratch_bytes);
    if (!err && whole && scratch_bytes &&
        !(scratch = td_arena_alloc(in->req->arena, scratch_bytes)))
        err = td_problem_set(&in->run.problem, ENOMEM, "no memory for the kernel's scratch");
    if (!err)
        err = td_infer_place_stored(in);
    if (!err && !whole)
        err = td_streams_run(in, worker);
    in->end_ns = whole && !err ? td_run_execute(&in->run, scratch) : td_now_ns();
    td_run_release(&in->run);
    if (err)
        return err;
    if (in->ran_inline) /* it did not wait, and each look at the clock counts */
        in->queued_ns = in->begin_ns = in->end_ns - in->run.ns;
    if (!whole) /* for the trace: what all parts took */
        in->run.ns = in->end_ns - in->begin_ns;
    return in->run.error;
}

static int run_model(struct td_infer *in, struct td_worker *worker)
{
    struct td_stop moment = {.deadline_ns = worker ? 0 : td_now_ns() + INLINE_MODEL_NS};
    int err = td_infer_run_model(in, worker, worker ? stop_of(in) : &moment);
    if (in->ran_inline)
        in->queued_ns = in->begin_ns;
    if (!err) {
        err = td_infer_place(in);
        atomic_store(&in->served->reply_bytes, td_infer_reply_bytes(in));
    }
    return err == -ETIMEDOUT && !worker ? -EAGAIN : err;
}

static void count(const struct td_infer *in)
{
    struct td_metrics *metrics = in->req->service->metrics;
    int64_t queue_ns = in->begin_ns - in->queued_ns, compute_ns = in->end_ns - in->begin_ns;
    if (in->served)
        td_metrics_model(metrics, in->model, td_pool_name(in->pool), queue_ns, compute_ns);
    else
        td_metrics_call(metrics, &in->run, td_pool_name(in->pool), queue_ns, compute_ns);
}

/* A model has looked itself, behind its last kernel: an answer that is there is given. */
static bool is_too_late(struct td_infer *in)
{
    return (!in->served || atomic_load(&stop_of(in)->asked)) && is_over(in, "took");
}

static int compute_call(struct td_infer *in, struct td_worker *worker)
{
    int err = in->served ? run_model(in, worker) : run_operator(in, worker);
    if (err == -EAGAIN)
        return err;
    if (err == -ETIMEDOUT && is_over(in, "took"))
        return 0;
    if (err) {
        td_api_problem(in->req, err, "%s", in->run.problem.text);
        return 0;
    }
    count(in);
    td_infer_note_trail(in);
    if (worker && is_too_late(in))
        return 0;
    err = td_infer_prepare_step(in);
    if (!err)
        err = td_shm_end(&in->shm, in->out, &in->run.problem);
    if (!err)
        err = td_infer_store(in);
    if (!err)
        td_infer_commit_step(in);
    if (err)
        td_api_problem(in->req, err, "%s", in->run.problem.text);
    else
        td_infer_reply(in);
    return 0;
}

/* On a worker, or without one on the HTTP thread. The response is made, but after -EAGAIN: it takes
 * longer than that thread has. */
static int compute(struct td_infer *in, struct td_worker *worker)
{
    int err = compute_call(in, worker);
    if (err != -EAGAIN)
        td_infer_leave_session(in); /* before the client can know */
    return err;
}

/* The same where what is behind the results may keep the thread no longer than a model may. */
static int compute_inline(struct td_infer *in)
{
    int err = compute(in, NULL);
    struct td_stop moment = {.deadline_ns = td_now_ns() + INLINE_MODEL_NS};
    const struct td_stop *before = td_stop_obey(&moment);
    td_infer_free_results(in);
    td_stop_obey(before);
    return err;
}

static void run_job(struct td_job *job, struct td_worker *worker)
{
    struct td_infer *in = (struct td_infer *)((char *)job - offsetof(struct td_infer, job));
    struct td_request *req = in->req;
    if (in->is_task && !td_task_begin(req))
        ; /* cancelled: nobody wants an answer */
    else if (!td_api_is_gone(req) && !is_over(in, "waited"))
        compute(in, worker);
    td_infer_leave_session(in);
    struct td_model_results *results = in->results; /* of which a plan may be made: none waits */
    in->results = NULL;
    req->reply(req);
    td_model_free_results(&results);
}

static int64_t begin_wait(struct td_infer *in)
{
    int64_t at = in->timeout_ms ? in->req->begin_ns + in->timeout_ms * 1000000 : 0;
    stop_of(in)->deadline_ns = at;
    in->queued_ns = td_now_ns();
    return at;
}

/* For the watchdog: lives as long as the process. */
static const char *name_of(const struct td_infer *in)
{
    return in->served ? "a model" : in->run.handle->full;
}

static int enqueue(struct td_infer *in)
{
    in->job = (struct td_job){.run = run_job, .what = name_of(in), .priority = in->priority};
    in->job.deadline_ns = begin_wait(in);
    return td_pool_submit(in->pool, &in->job);
}

static int submit(struct td_infer *in)
{
    if (in->req->worker) /* who has had his part */
        in->req->worker = NULL;
    else
        in->req->defer(in->req);
    int err = enqueue(in);
    if (err) {
        td_infer_leave_session(in);
        td_api_refused(in->req, in->pool, err);
        in->req->reply(in->req);
    }
    return -EINPROGRESS; /* the worker may have answered and freed all of it by now */
}

/* Answers 202 at once; the call then belongs to a task. */
static int submit_task(struct td_infer *in)
{
    struct td_request *req = in->req;
    struct td_runtime_facts facts;
    td_runtime_facts(&facts);
    if (!facts.enabled) {
        td_infer_leave_session(in);
        return td_api_problem(
            req, -ENOSYS,
            "Prefer: respond-async: there are no tasks without bound threads (pin "
            "backend none)");
    }
    struct td_task *task;
    size_t bytes = td_infer_reply_bytes(in);
    if (in->served) /* as the last time */
        bytes += atomic_load(&in->served->reply_bytes);
    int err = td_task_add(&task, req, &in->req, td_infer_called(in), td_pool_name(in->pool), bytes,
                          &in->run.problem);
    if (err) {
        td_infer_leave_session(in);
        return td_api_problem(req, err, "%s", in->run.problem.text);
    }
    in->is_task = true;
    if (!in->served)
        req->trail.op = in->run.handle->full; /* the expression is the task's */
    td_api_task_accepted(req, task);          /* before a worker can use the arena */
    err = enqueue(in);
    if (err) {
        td_infer_leave_session(in);
        td_task_take_back(req, in->req);
        in->req = req;
        err = td_api_refused(req, in->pool, err);
    }
    td_task_unref(task);
    return err;
}

/* Whether this HTTP thread runs the call itself: only when it is known to be little. One that is
 * merely likely to be is run by a worker as this thread would, alone, so that what it makes and
 * learns serves the next here. */
static bool is_small(struct td_infer *in)
{
    const struct td_request *req = in->req;
    if (req->worker || !req->home || strcmp(td_pool_name(in->pool), req->home) ||
        in->streams.parts > 1)
        return false;
    double model = in->served ? td_infer_model_cost(in) : 0;
    struct td_cost cost = in->served ? (struct td_cost){model, model} : td_run_cost(&in->run);
    double most = td_pool_worth_seconds(in->pool);
    double longest = in->served ? INLINE_MODEL_SECONDS : INLINE_SECONDS;
    most = most < longest ? most : longest;
    most +=
        INLINE_BYTE_SECONDS * (double)req->body_size - INLINE_TEXT_SECONDS * (double)in->text_size;
    in->alone = cost.likely < most;
    return cost.most < most;
}

int td_infer_start(struct td_infer *in)
{
    struct td_request *req = in->req;
    if (in->meta) {
        td_infer_reply(in);
        return 0;
    }
    int err = in->served ? 0 : td_infer_place(in); /* a model's are known when it has run */
    if (err)
        return td_api_problem(req, err, "%s", in->run.problem.text);
    in->run.forced = in->served ? NULL : in->forced;
    if (td_api_task_is_wanted(req)) {
        size_t scratch;
        err = in->run.forced ? td_run_select(&in->run, &scratch) : 0; /* a wrong one is said now */
        td_run_release(&in->run);
        if (err)
            return td_api_problem(req, err, "%s", in->run.problem.text);
        return submit_task(in);
    }
    if (req->worker && td_worker_pool(req->worker) == in->pool) {
        td_worker_note(req->worker, name_of(in), begin_wait(in));
        if (!is_over(in, "waited"))
            compute(in, req->worker);
        td_infer_leave_session(in);
        td_infer_free_results(in);
        return 0;
    }
    if (is_small(in)) {
        in->ran_inline = true;
        if (req->busy)
            atomic_store_explicit(&req->busy->what, name_of(in), memory_order_relaxed);
        if (!compute_inline(in))
            return 0;
        in->ran_inline = false;
    }
    return submit(in);
}
