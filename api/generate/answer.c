/* What a generation answers: all at its end, or each token as it comes, as server-sent events. */
#include "api/generate/generate.h"

#include <errno.h>
#include <string.h>

static void write_answer(struct td_generation *g, struct td_writer *out)
{
    struct td_writer w = *out;
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "model_name", g->req->trail.model);
    td_write_str(&w, "model_version", "1");
    if (g->id)
        td_write_str(&w, "id", g->id);
    td_write_str(&w, "finish_reason", g->finish);
    td_write_open(&w, "tokens", '[');
    for (int64_t i = 0; i < g->n; i++)
        td_write_int(&w, NULL, g->token[i]);
    td_write_close(&w, ']');
    if (g->logprobs)
        td_write_open(&w, "logprobs", '[');
    for (int64_t i = 0; i < g->n && g->logprobs; i++)
        td_write_num(&w, NULL, g->logprob[i]);
    if (g->logprobs)
        td_write_close(&w, ']');
    if (g->session) {
        td_write_str(&w, "session", g->session);
        td_write_int(&w, "session_step", g->step);
    }
    td_write_str(&w, "pool", td_pool_name(g->pool));
    td_write_us(&w, "compute_us", g->compute_ns);
    td_write_close(&w, '}');
    *out = w;
}

static int answer(struct td_generation *g)
{
    struct td_writer w;
    td_write_init(&w, g->req->arena, 256 + 32 * (size_t)g->n);
    write_answer(g, &w);
    return td_write_response(&w, &g->req->response, 200);
}

/* ---- as a stream of events ---- */

/* "data: TEXT", and an empty line. False: nobody reads any more. */
static bool send(struct td_generation *g, struct td_writer *w)
{
    static const char before[] = "data: ";
    size_t n = sizeof before - 1;
    char *text = w->failed ? NULL : td_arena_alloc(w->arena, w->length + n + 2);
    if (!text)
        return false;
    memcpy(text, before, n);
    memcpy(text + n, w->text, w->length);
    memcpy(text + n + w->length, "\n\n", 2);
    return td_stream_append(g->stream, text, w->length + n + 2);
}

bool td_generate_send_token(struct td_generation *g, struct td_arena *arena)
{
    struct td_writer w;
    td_write_init(&w, arena, 128);
    td_write_open(&w, NULL, '{');
    td_write_int(&w, "index", g->n - 1);
    td_write_int(&w, "token", g->token[g->n - 1]);
    td_write_num(&w, "logprob", g->logprob[g->n - 1]);
    td_write_close(&w, '}');
    return send(g, &w);
}

/* The last event: what an answer at the end would be, or why there is none. */
static void send_end(struct td_generation *g, int err)
{
    struct td_arena *arena = td_arena_create();
    struct td_writer w;
    if (!arena)
        return;
    td_write_init(&w, arena, 256 + 32 * (size_t)g->n);
    if (err) {
        td_write_open(&w, NULL, '{');
        td_write_str(&w, "error",
                     err == -ETIMEDOUT ? "timeout_ms: it took longer than that" : g->problem.text);
        td_write_close(&w, '}');
    } else {
        write_answer(g, &w);
    }
    send(g, &w);
    td_arena_destroy(arena);
}

bool td_generate_begin_stream(struct td_generation *g)
{
    struct td_request *req = g->req;
    g->stream = td_stream_create();
    if (!g->stream)
        return false;
    td_arena_ref(req->arena);
    atomic_fetch_add(&req->service->front.in_flight, 1);
    req->response =
        (struct td_response){.status = 200, .type = "text/event-stream", .stream = g->stream};
    req->response.header[0] = (struct td_header){"Cache-Control", "no-store"};
    g->begun = true;
    return true;
}

/* ---- the end ---- */

void td_generate_free(struct td_generation *g)
{
    td_session_release(&g->taken, false);
    td_contents_unref(&g->contents);
    td_contents_unref(&g->spare);
    td_served_unref(&g->served);
    td_pool_unref(g->pool);
}

static void end_stream(struct td_generation *g, int err)
{
    struct td_arena *arena = g->req->arena;
    struct td_service *service = g->req->service;
    td_session_release(&g->taken, false);
    send_end(g, err);
    td_generate_free(g);
    td_stream_end(g->stream);
    td_arena_destroy(arena);
    atomic_fetch_sub(&service->front.in_flight, 1); /* the last: then the service may go */
}

/* The session is free before the client can know. */
void td_generate_end(struct td_generation *g, int err)
{
    struct td_request *req = g->req;
    if (g->streams && !g->begun && !err && td_generate_begin_stream(g))
        req->reply(req);
    if (g->begun) {
        end_stream(g, err);
        return;
    }
    if (g->session && g->step) {
        req->trail.session = g->session;
        req->trail.step = g->step;
    }
    td_session_release(&g->taken, false);
    if (err == -ETIMEDOUT)
        td_api_problem(req, err,
                       "timeout_ms: the generation took longer than %lld ms; %lld tokens "
                       "had come",
                       (long long)g->timeout_ms, (long long)g->n);
    else if (err)
        td_api_problem(req, err, "%s", g->problem.text);
    else if (answer(g))
        td_api_problem(req, -ENOMEM, "no memory for the reply");
    req->reply(req);
}
