/* One operator on a client's tensors, the whole way: the protocol's request is read into named
 * arguments, dispatch binds them, a pool runs the call, the reply is written around the outputs.
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
#include <stdio.h>
#include <string.h>

/* The most that this thread's other connections are kept waiting for a call, and a sixth of what a
 * byte of the body costs on its way through the socket. */
#define INLINE_SECONDS 70e-6
#define INLINE_BYTE_SECONDS 50e-12
#define INLINE_TEXT_SECONDS 2e-9 /* a byte of a result's JSON, written behind the computing */
#define HEAD 4096                /* room before a binary output for the reply's JSON */
#define AROUND 1024              /* bytes of that, as a rule, that are not elements */

/* Room for the reply's JSON, so that a call without it is refused before it is computed. */
static int place_text(struct td_infer *in)
{
    in->text_size = 0;
    for (int i = 0; i < in->run.call.n_out; i++)
        if (in->output[i].form == TD_FORM_json)
            in->text_size += td_json_data_bound(&in->run.call.out[i]) *
                             (in->streams.apart ? (size_t)in->streams.parts : 1);
    td_write_init(&in->text, in->req->arena, AROUND + in->text_size);
    return in->text.failed ? td_problem_set(&in->run.problem, ENOMEM, "no memory for the reply")
                           : 0;
}

static int place_outputs(struct td_infer *in)
{
    struct td_call *call = &in->run.call;
    size_t limit = in->req->service->limits.body, at = 0, total = 0;
    for (int i = 0; i < call->n_out; i++) {
        size_t bytes = td_streams_bytes(in, i);
        if (bytes > limit)
            return td_problem_set(&in->run.problem, EINVAL,
                                  "the result would have %zu bytes; at most %zu are made", bytes,
                                  limit);
        if (in->output[i].form == TD_FORM_binary)
            total += bytes;
    }
    char *block = total ? td_arena_alloc(in->req->arena, HEAD + total) : NULL;
    in->binary = block ? block + HEAD : NULL;
    in->binary_size = total;
    for (int i = 0; i < call->n_out; i++) {
        struct td_tensor *out = &call->out[i];
        size_t bytes = td_streams_bytes(in, i);
        if (in->output[i].form == TD_FORM_shared) {
            int err = td_shm_place(&in->shm, in->req->arena, i, out, &in->run.problem);
            if (err)
                return err;
            continue;
        }
        if (in->output[i].form == TD_FORM_stored && !td_infer_is_counted(in, i))
            continue;
        bool fits =
            in->output[i].form == TD_FORM_binary && block && at % td_dtype_size(out->dtype) == 0;
        out->data = fits ? in->binary + at : td_arena_alloc(in->req->arena, bytes + 1);
        if (!out->data)
            return td_problem_set(&in->run.problem, ENOMEM, "no memory for the result");
        if (in->output[i].form == TD_FORM_binary) {
            in->output[i].offset = at;
            at += bytes;
        }
    }
    return place_text(in);
}

/* ---- the reply ---- */

/* The JSON into the room before the outputs where it fits there, else everything into one block. */
static int join(struct td_infer *in, struct td_writer *w, struct td_response *res)
{
    struct td_call *call = &in->run.call;
    int err = td_write_response(w, res, 200);
    if (err || !in->binary_size)
        return err;
    size_t json = res->size;
    char *body = in->binary - json;
    if (json > HEAD) {
        body = td_arena_alloc(in->req->arena, json + in->binary_size);
        if (!body)
            return -ENOMEM;
    }
    memcpy(body, res->body, json);
    for (int i = 0; i < call->n_out; i++) {
        char *to = body + json + in->output[i].offset;
        if (in->output[i].form == TD_FORM_binary && to != call->out[i].data)
            memmove(to, call->out[i].data, td_streams_bytes(in, i));
    }
    char *length = td_arena_alloc(in->req->arena, TD_NUMBER_ROOM + 1);
    if (!length)
        return -ENOMEM;
    *td_print_i64((int64_t)json, length) = 0;
    res->type = "application/octet-stream";
    res->body = body;
    res->size = json + in->binary_size;
    res->header[0] = (struct td_header){"Inference-Header-Content-Length", length};
    return 0;
}

static void reply(struct td_infer *in)
{
    struct td_writer *w = &in->text;
    if (in->run.call.counted)
        td_infer_close_gaps(in);
    if (in->front)
        td_write_raw(w, NULL, in->front, in->front_size);
    else
        td_infer_write_front(in, w);
    td_infer_write_parameters(in, w);
    td_write_close(w, '}');
    if (join(in, w, &in->req->response))
        td_api_problem(in->req, -ENOMEM, "no memory for the reply");
}

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

/* On a worker, or without one on the HTTP thread. */
static void compute(struct td_infer *in, struct td_worker *worker)
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
    if (err || in->run.error) {
        td_api_problem(in->req, err ? err : in->run.error, "%s", in->run.problem.text);
        return;
    }
    if (in->ran_inline) /* it did not wait, and each look at the clock counts */
        in->queued_ns = in->begin_ns = in->end_ns - in->run.ns;
    if (!whole) /* for the trace: what all parts took */
        in->run.ns = in->end_ns - in->begin_ns;
    td_metrics_call(in->req->service->metrics, &in->run, td_pool_name(in->pool),
                    in->begin_ns - in->queued_ns, in->end_ns - in->begin_ns);
    td_infer_note_trail(in);
    if (worker && is_over(in, "took"))
        return;
    err = td_shm_end(&in->shm, in->run.call.out, &in->run.problem);
    if (!err)
        err = td_infer_store(in);
    if (err)
        td_api_problem(in->req, err, "%s", in->run.problem.text);
    else
        reply(in);
}

static void run_job(struct td_job *job, struct td_worker *worker)
{
    struct td_infer *in = (struct td_infer *)((char *)job - offsetof(struct td_infer, job));
    struct td_request *req = in->req;
    if (in->is_task && !td_task_begin(req))
        ; /* cancelled: nobody wants an answer */
    else if (!td_api_is_gone(req) && !is_over(in, "waited"))
        compute(in, worker);
    req->reply(req);
}

static int64_t begin_wait(struct td_infer *in)
{
    int64_t at = in->timeout_ms ? in->req->begin_ns + in->timeout_ms * 1000000 : 0;
    stop_of(in)->deadline_ns = at;
    in->queued_ns = td_now_ns();
    return at;
}

static int enqueue(struct td_infer *in)
{
    in->job =
        (struct td_job){.run = run_job, .what = in->run.handle->full, .priority = in->priority};
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
    if (!facts.enabled)
        return td_api_problem(
            req, -ENOSYS,
            "Prefer: respond-async: there are no tasks without bound threads (pin "
            "backend none)");
    struct td_task *task;
    int err = td_task_add(&task, req, &in->req, in->run.handle->full, td_pool_name(in->pool),
                          HEAD + in->binary_size + in->text_size, &in->run.problem);
    if (err)
        return td_api_problem(req, err, "%s", in->run.problem.text);
    in->is_task = true;
    req->trail.op = in->run.handle->full; /* the expression is the task's */
    td_api_task_accepted(req, task);      /* before a worker can use the arena */
    err = enqueue(in);
    if (err) {
        td_task_take_back(req, in->req);
        in->req = req;
        err = td_api_refused(req, in->pool, err);
    }
    td_task_unref(task);
    return err;
}

static void *alloc_part(void *arena, size_t bytes)
{
    return td_arena_alloc(arena, bytes);
}

static int bind(struct td_infer *in)
{
    struct td_request *req = in->req;
    in->options.alloc = alloc_part;
    in->options.alloc_arg = req->arena;
    in->options.also = td_infer_shared;
    struct td_key_scope before = td_keys_enter(in->scope.include, in->scope.exclude);
    int err = in->eval ? td_run_bind_expr(&in->run, in->expr, in->args, in->n_args, &in->options)
                       : td_run_bind(&in->run, in->op, in->args, in->n_args, &in->options);
    td_keys_leave(before);
    if (err == -ENOSYS && !in->eval)
        return td_infer_no_kernel(in);
    in->meta = !err && td_run_is_meta(&in->run);
    if (!err && in->shapes_only && !in->meta)
        err = td_problem_set(&in->run.problem, EINVAL,
                             "inputs: one has no data, and the keys lead to %s, not to Meta",
                             td_key_name(in->run.key));
    if (!err)
        err = td_infer_outputs(in);
    if (!err && !in->meta)
        err = td_streams_plan(in);
    return err ? td_api_problem(req, err, "%s", in->run.problem.text) : 0;
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
    struct td_cost cost = td_run_cost(&in->run);
    double most = td_pool_worth_seconds(in->pool);
    most = most < INLINE_SECONDS ? most : INLINE_SECONDS;
    most +=
        INLINE_BYTE_SECONDS * (double)req->body_size - INLINE_TEXT_SECONDS * (double)in->text_size;
    in->alone = cost.likely < most;
    return cost.most < most;
}

static int start(struct td_infer *in)
{
    struct td_request *req = in->req;
    if (in->meta) {
        td_write_init(&in->text, req->arena, AROUND);
        reply(in);
        return 0;
    }
    int err = place_outputs(in);
    if (err)
        return td_api_problem(req, err, "%s", in->run.problem.text);
    in->run.forced = in->forced;
    if (td_api_task_is_wanted(req)) {
        size_t scratch;
        err = in->forced ? td_run_select(&in->run, &scratch) : 0; /* a wrong one is said now */
        td_run_release(&in->run);
        return err ? td_api_problem(req, err, "%s", in->run.problem.text) : submit_task(in);
    }
    if (req->worker && td_worker_pool(req->worker) == in->pool) {
        td_worker_note(req->worker, in->run.handle->full);
        begin_wait(in);
        if (!is_over(in, "waited"))
            compute(in, req->worker);
        return 0;
    }
    if (is_small(in)) {
        in->ran_inline = true;
        if (req->busy)
            atomic_store_explicit(&req->busy->what, in->run.handle->full, memory_order_relaxed);
        compute(in, NULL);
        return 0;
    }
    return submit(in);
}

static void free_call(struct td_request *req)
{
    struct td_infer *in = req->call_;
    td_json_free(&in->json);
    for (int i = 0; i < in->n_held; i++)
        td_weight_unref(&in->held[i]);
    for (int i = 0; i < in->n_outputs; i++)
        td_weight_unref(&in->output[i].made);
    td_shm_release(&in->shm);
    td_pool_unref(in->pool);
    req->call_ = NULL;
}

static int begin(struct td_request *req, const char *op, const char *model, bool eval)
{
    size_t text = req->json_length >= 0 ? (size_t)req->json_length : req->body_size;
    if (td_api_is_bulk(req, text, req->body_size))
        return td_api_hand_over(req);
    struct td_infer *in = td_arena_alloc(req->arena, sizeof *in);
    if (!in)
        return td_api_problem(req, -ENOMEM, "no memory for the request");
    memset(in, 0, offsetof(struct td_infer, json));
    td_json_init(&in->json);
    in->req = req;
    in->op = req->trail.op = op;
    in->model = model;
    in->eval = eval;
    in->timeout_ms = req->service->limits.timeout_ms;
    req->call_ = in;
    req->release_ = free_call;
    req->explain_ = td_infer_explain;
    struct td_problem problem;
    int err = td_infer_parse(in, &problem);
    if (!err && !eval && td_infer_replay(in))
        return start(in);
    if (!err)
        err = td_infer_read(in, &problem);
    if (err)
        return td_api_problem(req, err, "%s", problem.text);
    err = bind(in);
    if (err)
        return err;
    td_infer_keep(in);
    return start(in);
}

int td_api_infer(struct td_request *req, const char *op, const char *model)
{
    return begin(req, op, model, false);
}

int td_api_eval(struct td_request *req, struct td_response *res)
{
    (void)res;
    static const char name[] = "eval";
    return begin(req, name, name, true);
}
