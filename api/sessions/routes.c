/* The routes of sessions: making, forking, restoring, looking, and ending them. */
#include "api/names/names.h"
#include "api/sessions/sessions.h"
#include "api/web/web.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LISTED 1000    /* sessions in a list, at most */
#define LITTLE 16      /* elements of a tensor that are shown */
#define PER_SESSION 32 /* bytes of text per session, that a list makes its thread look at */

/* ---- looking ---- */

static double seconds(int64_t ns)
{
    return (double)(ns / 1000000) * 1e-3;
}

static void write_head(struct td_writer *w, const struct td_session_view *view)
{
    td_write_str(w, "name", view->name);
    if (*view->owner)
        td_write_str(w, "token", view->owner);
    td_write_int(w, "step", view->step);
    td_write_int(w, "bytes", (int64_t)view->bytes);
    if (*view->pool) {
        td_write_str(w, "pool", view->pool);
        td_write_int(w, "node", view->node);
    }
    td_write_bool(w, "busy", view->busy);
    td_write_num(w, "idle_s", seconds(view->idle_ns));
    td_write_num(w, "expires_s", seconds(view->left_ns));
}

static void write_state(struct td_writer *w, const struct td_session_view *view, int i)
{
    const struct td_kept *state = &view->served->state[i];
    const struct td_model_port port = td_kept_port(view->served, state);
    const struct td_tensor *t = view->contents        ? &view->contents->tensor[i]
                                : state->initial.data ? &state->initial
                                                      : NULL;
    td_write_open(w, NULL, '{');
    td_write_str(w, "name", state->name);
    td_write_str(w, "datatype", td_dtype_name(t ? t->dtype : port.dtype));
    if (t) {
        td_write_shape(w, t);
    } else {
        td_write_open(w, "shape", '[');
        for (int d = 0; d < port.rank; d++)
            td_write_int(w, NULL, port.shape[d]);
        td_write_close(w, ']');
    }
    td_write_str(w, "kind", td_keeping_name(state->kind));
    if (t && state->grows >= 0)
        td_write_int(w, "used", t->shape[state->grows]);
    if (t && td_numel(t) <= LITTLE)
        td_write_data(w, t);
    td_write_close(w, '}');
}

/* Bytes of the model's file that a reply may have to wait for. */
static size_t unhashed(struct td_request *req)
{
    struct td_served *now = td_models_find(req->service->models, req->var[0]);
    size_t bytes = now ? td_served_unhashed(now) : 0;
    td_served_unref(&now);
    return bytes;
}

/* Whether the name leads to another file than the session's now. */
static bool is_replaced(struct td_request *req, const struct td_served *served)
{
    struct td_served *now = td_models_find(req->service->models, req->var[0]);
    bool other = now && !td_served_is_alike(now, served);
    td_served_unref(&now);
    return other;
}

static int no_session(struct td_request *req, int err)
{
    struct td_problem problem;
    if (err != -ENOENT)
        return td_api_problem(req, err, "no memory for the session");
    struct td_served *served = td_models_find(req->service->models, req->var[0]);
    if (!served)
        return td_api_no_model(req);
    td_served_unref(&served);
    td_sessions_unknown(req->service->sessions, td_access_viewer(req), req->var[0], req->var[1],
                        &problem);
    return td_api_problem(req, err, "%s", problem.text);
}

static int answer(struct td_request *req, struct td_response *res, const char *name, int status)
{
    struct td_session_view view;
    struct td_writer w;
    int err = td_sessions_see(req->service->sessions, td_access_viewer(req), req->var[0], name,
                              req->arena, &view);
    if (err)
        return no_session(req, err);
    td_write_init(&w, req->arena, 1024);
    td_write_open(&w, NULL, '{');
    write_head(&w, &view);
    if (is_replaced(req, view.served))
        td_write_str(&w, "model", "replaced");
    td_write_open(&w, "state", '[');
    for (int i = 0; i < view.served->n_states; i++)
        write_state(&w, &view, i);
    td_write_close(&w, ']');
    td_write_close(&w, '}');
    td_session_view_end(&view);
    return td_write_response(&w, res, status);
}

int td_api_sessions_get(struct td_request *req, struct td_response *res)
{
    struct td_session_view view;
    if (!td_asks_for(req, "Accept", "application/x-safetensors"))
        return td_api_is_bulk(req, unhashed(req), 0) ? td_api_hand_over(req)
                                                     : answer(req, res, req->var[1], 200);
    int err = td_sessions_see(req->service->sessions, td_access_viewer(req), req->var[0],
                              req->var[1], req->arena, &view);
    if (err)
        return no_session(req, err);
    bool bulk = td_api_is_bulk(req, td_served_unhashed(view.served), view.bytes);
    err = bulk ? 0 : td_session_file(req, &view);
    td_session_view_end(&view);
    return bulk ? td_api_hand_over(req) : err;
}

int td_api_sessions_list(struct td_request *req, struct td_response *res)
{
    const char *after;
    long long limit;
    struct td_session_view *list;
    struct td_session_group total;
    struct td_served *served = td_models_find(req->service->models, req->var[0]);
    if (!served)
        return td_api_no_model(req);
    td_served_unref(&served);
    int err = td_api_query(req, "after", &after);
    if (err || (err = td_api_query_number(req, "limit", 1, LISTED, 100, &limit)))
        return err;
    struct td_session_group *groups;
    int n_groups = td_sessions_groups(req->service->sessions, req->arena, &groups);
    for (int i = 0; i < n_groups; i++)
        if (!strcmp(groups[i].model, req->var[0]) &&
            td_api_is_bulk(req, PER_SESSION * (size_t)groups[i].n, 0))
            return td_api_hand_over(req);
    int n = td_sessions_list(req->service->sessions, td_access_viewer(req), req->var[0],
                             after ? after : "", (int)limit, req->arena, &list, &total);
    if (n < 0)
        return td_api_problem(req, n, "no memory for the list");
    struct td_writer w;
    struct td_session_stats stats;
    td_sessions_stats(req->service->sessions, &stats);
    td_write_init(&w, req->arena, 1024);
    td_write_open(&w, NULL, '{');
    td_write_open(&w, "sessions", '[');
    for (int i = 0; i < n; i++) {
        td_write_open(&w, NULL, '{');
        write_head(&w, &list[i]);
        td_write_close(&w, '}');
    }
    td_write_close(&w, ']');
    td_write_int(&w, "count", total.n);
    td_write_int(&w, "bytes", (int64_t)total.bytes);
    td_write_open(&w, "store", '{');
    td_write_int(&w, "bytes", (int64_t)stats.bytes);
    td_write_int(&w, "limit_bytes", (int64_t)stats.limit);
    td_write_close(&w, '}');
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

/* ---- making ---- */

struct order {                    /* what a new session is to be */
    const char *from;             /* another one's name, or NULL */
    long long ttl_s;              /* 0: as ever */
    struct td_served *served;     /* a reference */
    struct td_contents *contents; /* a reference, or NULL: what the model begins with */
    int64_t step;
};

static int read_order(struct td_request *req, struct order *order, struct td_problem *problem)
{
    static const char *const right[] = {"from", "ttl_s", NULL};
    struct td_json json;
    if (!req->body_size)
        return 0;
    int err =
        td_json_parse(&json, req->body, req->body_size, req->service->limits.json_depth, problem);
    if (!err && !cJSON_IsObject(json.root))
        err = td_problem_set(problem, EINVAL, "the body: must be an object, {} for a new session");
    if (!err)
        err = td_json_members(json.root, "the body", right, problem);
    const cJSON *from = err ? NULL : td_json_member(json.root, "from"),
                *ttl = err ? NULL : td_json_member(json.root, "ttl_s");
    __int128 whole = 0;
    if (from && !cJSON_IsString(from))
        err = td_problem_set(problem, EINVAL, "from: must be the name of a session");
    else if (ttl && (!cJSON_IsNumber(ttl) || td_json_is_float(ttl) || !td_json_whole(ttl, &whole) ||
                     whole < 1 || whole > TD_SESSION_MOST_TTL_S))
        err = td_problem_set(problem, EINVAL, "ttl_s: must be a whole number from 1 to %d",
                             TD_SESSION_MOST_TTL_S);
    if (!err && from) {
        order->from = td_arena_strdup(req->arena, from->valuestring, strlen(from->valuestring));
        err = order->from ? 0 : td_problem_set(problem, ENOMEM, "no memory for the request");
    }
    order->ttl_s = ttl && !err ? (long long)whole : order->ttl_s;
    td_json_free(&json);
    return err;
}

/* As the other one is now, which may be at work. */
static int fork_from(struct td_request *req, struct order *order, struct td_problem *problem)
{
    struct td_session_view view;
    int err = td_sessions_see(req->service->sessions, td_access_viewer(req), req->var[0],
                              order->from, req->arena, &view);
    if (err == -ENOENT)
        return td_sessions_unknown(req->service->sessions, td_access_viewer(req), req->var[0],
                                   order->from, problem);
    if (err)
        return td_problem_set(problem, -err, "no memory for the session");
    td_served_unref(&order->served);
    order->served = view.served;
    order->contents = view.contents;
    order->step = view.step;
    return 0;
}

static int make(struct td_request *req, const struct order *order, const char *name,
                struct td_problem *problem)
{
    struct td_session *session;
    struct td_session_ask ask = {.viewer = td_access_viewer(req),
                                 .model = req->var[0],
                                 .name = name,
                                 .served = order->served,
                                 .start = true};
    int err = td_sessions_take(req->service->sessions, &ask, &session, problem);
    if (err)
        return err;
    int status = td_session_is_new(session) ? 201 : 200;
    err = td_session_reserve(session, order->contents ? order->contents->bytes : 0, problem);
    if (!err && order->ttl_s)
        td_session_set_ttl(session, (int)order->ttl_s);
    if (!err)
        td_session_commit(session, td_contents_ref(order->contents), order->served, order->step,
                          NULL, -1);
    td_session_release(&session, false);
    return err ? err : status;
}

static int put(struct td_request *req, struct td_response *res, const char *name)
{
    struct td_problem problem;
    struct order order = {.served = td_models_find(req->service->models, req->var[0])};
    bool any = false, file = td_api_is_type(req, "application/x-safetensors");
    int err = order.served ? 0 : td_api_no_model(req);
    if (!err &&
        (err = td_api_query_number(req, "ttl_s", 1, TD_SESSION_MOST_TTL_S, 0, &order.ttl_s)) == 0)
        err = td_api_query_flag(req, "any", &any);
    if (err) {
        td_served_unref(&order.served);
        return err;
    }
    if (!order.served->n_states)
        err = td_problem_set(&problem, EINVAL,
                             "%.80s has no state: no buffer that it writes, and no output whose "
                             "name goes with an input's",
                             req->var[0]);
    else if (!td_sessions_name_is_right(name))
        err = td_problem_set(&problem, EINVAL,
                             "'%.60s': a session's name is letters, digits and . _ -, at most 200",
                             name);
    else if (file)
        err = td_session_read_file(req, order.served, any, &order.contents, &order.step, &problem);
    else
        err = read_order(req, &order, &problem);
    if (!err && order.from)
        err = fork_from(req, &order, &problem);
    int status = err ? err : make(req, &order, name, &problem);
    td_contents_unref(&order.contents);
    td_served_unref(&order.served);
    if (status < 0)
        return td_api_problem(req, status, "%s", problem.text);
    err = answer(req, res, name, status);
    const char *at = td_arena_printf(req->arena, "/v1/models/%s/sessions/%s", req->var[0], name);
    if (!err && status == 201 && at)
        res->header[0] = (struct td_header){"Location", at};
    return err;
}

int td_api_sessions_put(struct td_request *req, struct td_response *res)
{
    return td_api_is_bulk(req, unhashed(req), req->body_size) ? td_api_hand_over(req)
                                                              : put(req, res, req->var[1]);
}

int td_api_sessions_post(struct td_request *req, struct td_response *res)
{
    char name[33];
    if (td_api_is_bulk(req, unhashed(req), 0))
        return td_api_hand_over(req);
    if (td_names_draw(name))
        return td_api_problem(req, -EIO, "no random numbers for a name");
    return put(req, res, td_arena_strdup(req->arena, name, strlen(name)));
}

/* ---- ending ---- */

struct removal { /* that waits */
    struct td_session_waiter waiter;
    struct td_request *req;
    long long wait_ms;
};

static void wait(struct td_session_waiter *waiter)
{
    struct td_request *req = ((struct removal *)waiter)->req;
    req->defer(req);
}

static void go(struct td_session_waiter *waiter, struct td_session *session, int err)
{
    struct removal *removal = (struct removal *)waiter;
    struct td_request *req = removal->req;
    if (session)
        td_session_release(&session, true);
    if (err == -ETIMEDOUT)
        td_api_problem(req, -EBUSY, "session '%.80s': a call was at it for longer than %lld ms",
                       req->var[1], removal->wait_ms);
    else /* by whoever was before */
        req->response.status = 204;
    req->reply(req);
}

int td_api_sessions_delete(struct td_request *req, struct td_response *res)
{
    struct td_problem problem;
    struct td_session *session;
    struct removal *removal = td_arena_zalloc(req->arena, sizeof *removal);
    struct td_session_ask ask = {
        .viewer = td_access_viewer(req), .model = req->var[0], .name = req->var[1]};
    if (!removal)
        return td_api_problem(req, -ENOMEM, "no memory for the request");
    int err = td_api_query_number(req, "wait_ms", 0, 1000000000, 0, &removal->wait_ms);
    if (err)
        return err;
    removal->req = req;
    removal->waiter.go = go;
    removal->waiter.wait = wait;
    removal->waiter.until_ns = td_now_ns() + removal->wait_ms * 1000000;
    ask.waiter = removal->wait_ms ? &removal->waiter : NULL;
    err = td_sessions_take(req->service->sessions, &ask, &session, &problem);
    if (err == -ENOENT)
        return no_session(req, err);
    if (err)
        return err == -EINPROGRESS ? err : td_api_problem(req, err, "%s", problem.text);
    td_session_release(&session, true);
    res->status = 204;
    return 0;
}
