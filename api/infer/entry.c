/* A request becomes a call: it is read, has its session, is bound to an operator or a model, and is
 * started; and what it holds goes when it has been answered. */
#include "api/infer/call.h"
#include "api/web/web.h"
#include "dispatch/graph/cache.h"

#include <errno.h>
#include <string.h>

static int bind(struct td_infer *in)
{
    struct td_request *req = in->req;
    if (in->served) {
        int bad = td_infer_bind_model(in);
        return bad ? td_api_problem(req, bad, "%s", in->run.problem.text) : 0;
    }
    in->options.alloc = td_alloc_in_arena;
    in->options.alloc_arg = req->arena;
    in->options.also = td_infer_shared;
    int err = td_infer_bind_operator(in);
    if (err == -ENOSYS && !in->eval)
        return td_infer_no_kernel(in);
    in->meta = !err && td_run_is_meta(&in->run);
    if (!err && in->shapes_only && !in->meta && !in->tune)
        err = td_problem_set(&in->run.problem, EINVAL,
                             "inputs: one has no data, and the keys lead to %s, not to Meta",
                             td_key_name(in->run.key));
    if (!err)
        err = td_infer_outputs(in);
    if (!err && !in->meta && !in->tune)
        err = td_streams_plan(in);
    if (!err && in->npy && !in->meta)
        err = td_infer_check_npy(in);
    return err ? td_api_problem(req, err, "%s", in->run.problem.text) : 0;
}

static void free_call(struct td_request *req)
{
    struct td_infer *in = req->call_;
    td_expr_leave(&in->entry, &in->run);
    td_infer_free_results(in); /* they may lie in inputs, which go next */
    td_infer_leave_session(in);
    td_contents_unref(&in->session.before);
    td_served_unref(&in->served);
    td_json_free(&in->json);
    if (in->asked)
        td_json_free(in->asked);
    for (int i = 0; i < in->n_held; i++)
        td_weight_unref(&in->held[i]);
    for (int i = 0; i < in->n_outputs; i++)
        td_weight_unref(&in->output[i].made);
    td_shm_release(&in->shm);
    td_pool_unref(in->pool);
    req->call_ = NULL;
}

/* Unknown sizes are found by trial, which takes a millisecond: a worker begins anew. */
static int hand_over(struct td_request *req)
{
    free_call(req);
    req->release_ = NULL;
    req->explain_ = NULL;
    return td_api_hand_over(req);
}

/* With the session that it is a step of, if it is one. */
static int go_on(struct td_infer *in)
{
    struct td_request *req = in->req;
    int err = td_infer_enter_session(in);
    err = err ? td_api_problem(req, err, "%s", in->run.problem.text) : bind(in);
    if (err) {
        td_infer_leave_session(in);
        return err;
    }
    if (in->tune)
        return td_infer_tune(in);
    if (!in->served && !in->npy && !*req->query)
        td_infer_keep(in);
    return td_infer_start(in);
}

/* The session that it has waited for is its own. */
static void resume(struct td_job *job, struct td_worker *worker)
{
    struct td_infer *in = (struct td_infer *)((char *)job - offsetof(struct td_infer, session.job));
    struct td_request *req = in->req;
    int err = 0;
    req->worker = worker;
    if (td_api_is_gone(req))
        td_infer_leave_session(in);
    else
        err = go_on(in);
    if (err != -EINPROGRESS)
        req->reply(req);
}

/* What a request is of, besides an operator's call: an expression, whose kernels are to be timed,
 * or, not by the protocol's route, ours. */
struct way {
    bool eval, tune, ours;
};

/* Texts of few bytes may be many words: each has a row as long as that of the longest. */
#define CUT_BODY 2048

static bool is_bulk(const struct td_request *req, const struct td_served *served)
{
    size_t text = td_is_npy(req)          ? 0
                  : req->json_length >= 0 ? (size_t)req->json_length
                                          : req->body_size;
    bool cut = false;
    for (int i = 0; served && i < served->n_inputs; i++)
        cut = cut || served->input[i].tokenizer;
    return td_api_is_bulk(req, text, req->body_size) ||
           (cut && !req->worker && req->body_size > CUT_BODY);
}

/* served: NULL, or a reference that is taken. */
static int begin(struct td_request *req, const char *op, const char *model, struct way way,
                 struct td_served *served)
{
    bool bulk = is_bulk(req, served);
    struct td_infer *in = bulk ? NULL : td_arena_alloc(req->arena, sizeof *in);
    if (!in)
        td_served_unref(&served);
    if (bulk)
        return td_api_hand_over(req);
    if (!in)
        return td_api_problem(req, -ENOMEM, "no memory for the request");
    memset(in, 0, offsetof(struct td_infer, json));
    td_json_init(&in->json);
    in->req = req;
    in->op = op;
    in->model = model;
    in->served = served;
    req->trail.op = served ? NULL : op;
    req->trail.model = served ? model : NULL;
    in->eval = way.eval;
    in->tune = way.tune;
    in->ours = way.ours;
    in->npy = in->binary_output =
        way.ours && !way.tune && td_asks_for(req, "Accept", "application/x-npy");
    in->timeout_ms = req->service->limits.timeout_ms;
    req->call_ = in;
    req->release_ = free_call;
    req->explain_ = td_infer_explain;
    struct td_problem problem;
    int err = td_infer_parse(in, &problem);
    if (!err && !in->eval && !in->tune && !served && !in->npy && !*req->query &&
        td_infer_replay(in))
        return td_infer_start(in);
    if (!err)
        err = td_infer_read(in, &problem);
    if (err)
        return td_api_problem(req, err, "%s", problem.text);
    if (in->open && !req->worker)
        return hand_over(req);
    if (served) {
        in->session.job =
            (struct td_job){.run = resume, .what = "a model", .priority = in->priority};
        err = td_infer_take_session(in);
    }
    if (err == -EINPROGRESS)
        return err;
    return err ? td_api_problem(req, err, "%s", in->run.problem.text) : go_on(in);
}

int td_api_infer(struct td_request *req, const char *op, const char *model)
{
    return begin(req, op, model, (struct way){.ours = op == model}, NULL);
}

int td_api_infer_model(struct td_request *req, struct td_served *served, const char *model,
                       bool ours)
{
    return begin(req, "", model, (struct way){.ours = ours}, served);
}

int td_api_eval(struct td_request *req, struct td_response *res)
{
    (void)res;
    static const char name[] = "eval";
    return begin(req, name, name, (struct way){.eval = true, .ours = true}, NULL);
}

int td_api_kernels_tune(struct td_request *req, struct td_response *res)
{
    const char *name = td_op_called(req->var[0]);
    (void)res;
    return begin(req, name, name, (struct way){.tune = true, .ours = true}, NULL);
}
