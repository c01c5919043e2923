/* Running a generation: a turn is one run of the model, on the prompt or on the token that was
 * drawn last, and a step of the session. After each turn the generation goes to the end of its
 * pool's queue, so that it holds no worker while others wait. */
#include "api/generate/generate.h"
#include "api/metrics/metrics.h"

#include <errno.h>
#include <string.h>

/* ---- roles ---- */

static int find_roles(struct td_generation *g, const char *model)
{
    const struct td_served *served = g->served;
    g->input = served->tokens;
    g->output = served->logits;
    for (int i = 0; i < served->n_outputs && g->output < 0; i++)
        if (served->state_out[i] < 0) /* a .pt2's outputs have the names of nodes */
            g->output = i;
    bool right = g->input >= 0 && g->output >= 0 && served->n_states;
    return right ? 0
                 : td_problem_set(&g->problem, EINVAL,
                                  "%.80s: generates no tokens: that takes an input input_ids of "
                                  "INT64 or INT32, an output logits, and state, or settings that "
                                  "say what these are",
                                  model);
}

/* ---- a turn ---- */

/* So many tokens are fed at once: a prompt as a whole where the file leaves that size open. */
static int64_t next_tokens(const struct td_generation *g, const int64_t **from)
{
    const struct td_model_port *port = &g->served->input[g->input];
    int64_t left = g->n_prompt - g->fed;
    *from = left ? g->prompt + g->fed : g->token + g->n - 1;
    bool open = port->rank < 1 || port->shape[port->rank - 1] < 0;
    return left && open ? left : 1;
}

static int feed(const struct td_generation *g, struct td_tensor *inputs, struct td_arena *arena,
                int64_t n, const int64_t *from, struct td_problem *problem)
{
    const struct td_served *served = g->served;
    const struct td_model_port *port = &served->input[g->input];
    struct td_tensor *t = &inputs[g->input];
    *t = (struct td_tensor){.dtype = port->dtype, .rank = port->rank == 1 ? 1 : 2, .shape = {1, 1}};
    t->shape[t->rank - 1] = n;
    t->data = td_arena_alloc(arena, (size_t)n * 8);
    if (!t->data)
        return td_problem_set(problem, ENOMEM, "no memory for the tokens");
    for (int64_t i = 0; i < n; i++)
        if (t->dtype == TD_i64)
            ((int64_t *)t->data)[i] = from[i];
        else
            ((int32_t *)t->data)[i] = (int32_t)from[i];
    int err = td_session_fill(served, g->contents, inputs, arena, problem);
    for (int i = 0; i < served->n_inputs && !err; i++)
        if (!inputs[i].dtype)
            err = td_problem_set(problem, EINVAL,
                                 "the model wants '%.60s', and a generation feeds input_ids and "
                                 "what follows from it",
                                 served->input[i].name);
    return err ? err : td_model_check(served->model, inputs, served->all_inputs, problem);
}

static bool has(const int64_t *list, int64_t n, int64_t token)
{
    int64_t i = 0;
    while (i < n && list[i] != token)
        i++;
    return i < n;
}

/* Rooms for as many tokens as the logits are of, once. */
static int begin_sampler(struct td_generation *g, int64_t n)
{
    struct td_sampler *s = &g->sampler;
    struct td_arena *arena = g->req->arena;
    if (s->n == n)
        return 0;
    unsigned char *seen = td_arena_zalloc(arena, (size_t)n + 1);
    s->weight = td_arena_alloc(arena, sizeof *s->weight * (size_t)n + 1);
    s->ranked = td_arena_alloc(arena, sizeof *s->ranked * (size_t)n + 1);
    if (!seen || !s->weight || !s->ranked)
        return td_problem_set(&g->problem, ENOMEM, "no memory for the next token");
    for (int64_t i = 0; i < g->n_prompt; i++)
        if (g->prompt[i] < n)
            seen[g->prompt[i]] = 1;
    for (int64_t i = 0; i < g->n; i++)
        if (g->token[i] < n)
            seen[g->token[i]] = 1;
    s->seen = seen;
    s->n = n;
    return 0;
}

static int draw(struct td_generation *g, const struct td_tensor *logits)
{
    if (logits->dtype != TD_f32 || !logits->rank || !td_numel(logits))
        return td_problem_set(&g->problem, EINVAL, "logits: must be FP32, one for each token");
    int64_t n = logits->shape[logits->rank - 1];
    int err = begin_sampler(g, n);
    if (err)
        return err;
    g->sampler.logits = (const float *)logits->data + td_numel(logits) - n; /* the last row */
    double logprob;
    int64_t token = td_sample(&g->sampler, &g->how, (uint64_t)g->contents->position, &logprob);
    if (has(g->stop, g->n_stop, token)) {
        g->finish = "stop";
        return 0;
    }
    ((unsigned char *)g->sampler.seen)[token] = 1;
    g->logprob[g->n] = logprob;
    g->token[g->n++] = token;
    if (g->n == g->most)
        g->finish = "length";
    return 0;
}

/* What the run has left is the session's, or the call's own. */
static int keep(struct td_generation *g, const struct td_tensor *inputs,
                const struct td_model_results *results, struct td_arena *arena,
                struct td_worker *worker)
{
    const struct td_served *served = g->served;
    struct td_contents *after = NULL;
    struct td_tensor *out = td_arena_alloc(arena, sizeof *out * (size_t)served->all_outputs + 1);
    if (!out)
        return td_problem_set(&g->problem, ENOMEM, "no memory for the session's state");
    for (int i = 0; i < served->all_outputs; i++)
        out[i] = *td_model_result(results, i);
    int err =
        td_session_keep(served, g->contents, inputs, out,
                        g->taken ? td_session_spare(g->taken) : &g->spare, &after, &g->problem);
    if (!err && g->taken)
        err = td_session_reserve(g->taken, after->bytes, &g->problem);
    if (err) {
        td_contents_unref(&after);
        return err;
    }
    g->step++;
    if (g->taken)
        td_session_commit(g->taken, td_contents_ref(after), g->served, g->step,
                          td_pool_name(g->pool), td_worker_numa_node(worker));
    td_contents_unref(&g->spare);
    if (!g->taken && g->contents && g->contents->bytes >= TD_CONTENTS_LARGE)
        g->spare = g->contents;
    else
        td_contents_unref(&g->contents);
    g->contents = after;
    return 0;
}

static int turn(struct td_generation *g, struct td_worker *worker, struct td_arena *arena)
{
    const struct td_served *served = g->served;
    struct td_model_results *results = NULL;
    struct td_contents *before = td_contents_ref(g->contents); /* results may lie in it */
    struct td_model_call call = {.threads = td_worker_threads(worker),
                                 .node = td_worker_numa_node(worker),
                                 .stop = &g->req->stop};
    const int64_t *from;
    int64_t n = next_tokens(g, &from), begin = td_now_ns();
    struct td_tensor *inputs =
        td_arena_zalloc(arena, sizeof *inputs * (size_t)served->all_inputs + 1);
    int err = inputs ? feed(g, inputs, arena, n, from, &g->problem)
                     : td_problem_set(&g->problem, ENOMEM, "no memory for the tokens");
    if (!err)
        err = td_model_run(served->model, inputs, &call, &results, &g->problem);
    int64_t took = td_now_ns() - begin;
    g->compute_ns += took;
    if (!err)
        err = keep(g, inputs, results, arena, worker);
    if (!err) {
        g->fed += g->fed < g->n_prompt ? n : 0;
        td_metrics_model(g->req->service->metrics, g->req->trail.model, td_pool_name(g->pool),
                         begin - g->queued_ns, took);
        atomic_fetch_add(&g->served->calls, 1);
        atomic_fetch_add(&g->served->compute_ns, took);
    }
    if (!err && g->fed == g->n_prompt)
        err = draw(g, td_model_result(results, g->output));
    td_model_free_results(&results);
    td_contents_unref(&before);
    return err;
}

/* ---- turn after turn ---- */

/* A turn, and what it has given is told: 0, or why it ends. */
static int go_on(struct td_generation *g, struct td_worker *worker, struct td_arena *arena)
{
    int64_t before = g->n;
    int err = turn(g, worker, arena);
    if (err == -EINVAL && g->n) { /* beyond its cache: what was made stays */
        g->finish = "full";
        err = 0;
    }
    if (err || !g->streams || g->n == before)
        return err;
    bool first = !g->begun;
    if (first && !td_generate_begin_stream(g))
        return td_problem_set(&g->problem, ENOMEM, "no memory for the reply");
    bool sent = td_generate_send_token(g, arena);
    if (first)
        g->req->reply(g->req);
    return sent ? 0 : td_problem_set(&g->problem, ENOENT, "nobody reads it any more");
}

static void run_job(struct td_job *job, struct td_worker *worker)
{
    struct td_generation *g = (struct td_generation *)job;
    do {
        int err = td_stop_is_due(&g->req->stop) ? -ETIMEDOUT : 0;
        bool gone = !g->begun && td_api_is_gone(g->req);
        struct td_arena *arena = err || gone ? NULL : td_arena_create();
        if (arena)
            err = go_on(g, worker, arena);
        else if (!err && !gone)
            err = td_problem_set(&g->problem, ENOMEM, "no memory for the tokens");
        td_arena_destroy(arena);
        if (gone || err || g->finish) {
            td_generate_end(g, gone ? -ENOENT : err);
            return;
        }
        g->queued_ns = td_now_ns();
    } while (td_pool_submit(g->pool, &g->job)); /* the queue is full: it goes on here */
}

/* ---- the route ---- */

/* Of a stream the generation itself frees the rest, when it has seen that nobody reads. */
static void free_generation(struct td_request *req)
{
    struct td_generation *g = req->call_;
    if (req->response.stream)
        td_stream_close(req->response.stream);
    else
        td_generate_free(g);
    req->call_ = NULL;
}

static int take_session(struct td_generation *g)
{
    struct td_session_ask ask = {.viewer = td_access_viewer(g->req),
                                 .model = g->req->trail.model,
                                 .name = g->session,
                                 .served = g->served,
                                 .start = g->start};
    if (!g->session)
        return 0;
    int err = td_sessions_take(g->req->service->sessions, &ask, &g->taken, &g->problem);
    if (err || g->start)
        return err;
    struct td_served *served = td_session_served(g->taken), *now = g->served;
    atomic_fetch_add(&served->refs, 1);
    g->served = served;
    td_served_unref(&now);
    g->contents = td_contents_ref(td_session_contents(g->taken));
    g->step = td_session_step(g->taken);
    return find_roles(g, g->req->trail.model);
}

static int prepare(struct td_generation *g)
{
    struct td_request *req = g->req;
    int err = td_generate_read(g, &g->problem);
    if (!err)
        err = find_roles(g, req->trail.model);
    g->token = td_arena_alloc(req->arena, sizeof *g->token * (size_t)g->most);
    g->logprob = td_arena_alloc(req->arena, sizeof *g->logprob * (size_t)g->most);
    if (!err && (!g->token || !g->logprob))
        err = td_problem_set(&g->problem, ENOMEM, "no memory for the tokens");
    g->pool = err ? NULL : td_pools_find(req->service->pools, g->pool_name);
    if (!err && !g->pool)
        err = td_problem_set(&g->problem, ENOENT, "pool: no pool '%.80s'; GET /v1/pools lists them",
                             g->pool_name);
    return err ? err : take_session(g);
}

static int generate(struct td_request *req, bool streams)
{
    if (td_api_is_bulk(req, req->body_size, req->body_size))
        return td_api_hand_over(req);
    struct td_served *served = td_models_find(req->service->models, req->var[0]);
    if (!served)
        return td_api_no_model(req);
    struct td_generation *g = td_arena_zalloc(req->arena, sizeof *g);
    if (!g) {
        td_served_unref(&served);
        return td_api_problem(req, -ENOMEM, "no memory for the request");
    }
    g->req = req;
    g->served = served;
    g->streams = streams;
    req->call_ = g;
    req->release_ = free_generation;
    req->trail.model = req->var[0];
    int err = prepare(g);
    if (err) {
        td_session_release(&g->taken, false);
        return td_api_problem(req, err, "%s", g->problem.text);
    }
    g->job = (struct td_job){.run = run_job, .what = "a model", .priority = g->priority};
    g->queued_ns = td_now_ns();
    if (g->timeout_ms)
        req->stop.deadline_ns = req->begin_ns + g->timeout_ms * 1000000;
    if (req->worker) /* who has had his part */
        req->worker = NULL;
    else
        req->defer(req);
    err = td_pool_submit(g->pool, &g->job);
    if (err) {
        td_session_release(&g->taken, false);
        td_api_refused(req, g->pool, err);
        req->reply(req);
    }
    return -EINPROGRESS;
}

int td_api_v2_generate(struct td_request *req, struct td_response *res)
{
    (void)res;
    return generate(req, false);
}

int td_api_v2_generate_stream(struct td_request *req, struct td_response *res)
{
    (void)res;
    return generate(req, true);
}
