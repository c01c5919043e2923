/* A call in a session: the session's contents are the inputs that the client leaves out, and what
 * the run makes of them is the session's when all else has gone well. Whatever goes wrong before
 * leaves it as it was. */
#include "api/infer/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- parameters ---- */

static int read_count(const cJSON *item, int64_t most, int64_t *count, struct td_problem *problem)
{
    __int128 whole;
    if (!cJSON_IsNumber(item) || td_json_is_float(item) || !td_json_whole(item, &whole) ||
        whole < 0 || whole > most)
        return td_problem_set(problem, EINVAL, "%s: must be a whole number from 0 to %lld",
                              item->string, (long long)most);
    *count = (int64_t)whole;
    return 0;
}

/* A session's name, or a sequence's number, of which 0 is none. */
static int read_name(struct td_infer *in, const cJSON *item, struct td_problem *problem)
{
    struct td_infer_session *s = &in->session;
    bool sequence = !strcmp(item->string, "sequence_id");
    int64_t id = 0;
    if (s->name)
        return td_infer_refuse(problem, item->string, "the call is in a session already");
    s->sequence = sequence;
    if (sequence && cJSON_IsNumber(item)) {
        int err = read_count(item, INT64_MAX, &id, problem);
        if (err || !id)
            return err;
        s->name = td_arena_printf(in->req->arena, "%lld", (long long)id);
        return s->name ? 0 : td_problem_set(problem, ENOMEM, "no memory for the request");
    }
    if (!cJSON_IsString(item))
        return td_infer_refuse(problem, item->string, "must be a session's name");
    if (sequence && !*item->valuestring)
        return 0;
    if (*item->valuestring && !td_sessions_name_is_right(item->valuestring))
        return td_problem_set(problem, EINVAL,
                              "%s: '%.60s': a session's name is letters, digits and . _ -, at most "
                              "200; \"\" computes once from where the model begins",
                              item->string, item->valuestring);
    s->name = item->valuestring;
    return 0;
}

bool td_infer_session_parameter(struct td_infer *in, const cJSON *item, int *err,
                                struct td_problem *problem)
{
    struct td_infer_session *s = &in->session;
    const char *key = item->string;
    if (!strcmp(key, "session") || !strcmp(key, "sequence_id"))
        *err = read_name(in, item, problem);
    else if (!strcmp(key, "session_start") || !strcmp(key, "sequence_start"))
        *err = td_infer_read_bool(item, &s->start, problem);
    else if (!strcmp(key, "session_end") || !strcmp(key, "sequence_end"))
        *err = td_infer_read_bool(item, &s->end, problem);
    else if (!strcmp(key, "session_step"))
        *err = (s->counts = true, read_count(item, INT64_MAX, &s->step, problem));
    else if (!strcmp(key, "session_wait_ms"))
        *err = (s->waits = true, read_count(item, 1000000000, &s->wait_ms, problem));
    else
        return false;
    return true;
}

/* ---- taking it ---- */

/* "'h', 'n'" */
static const char *list_states(const struct td_infer *in)
{
    const size_t room = 300;
    char *text = td_arena_zalloc(in->req->arena, room);
    size_t n = 0;
    for (int i = 0; text && i < in->served->n_states && n + 1 < room; i++)
        n += (size_t)snprintf(text + n, room - n, "%s'%.60s'", i ? ", " : "",
                              in->served->state[i].name);
    return text ? text : "";
}

static int no_state(struct td_infer *in)
{
    return td_problem_set(&in->run.problem, EINVAL,
                          "session: %.80s has no state: no buffer that it writes, and no output "
                          "whose name goes with an input's; its settings may say what is kept",
                          in->model);
}

static int judge(struct td_infer *in)
{
    const struct td_infer_session *s = &in->session;
    const struct td_served *served = in->served;
    if (!s->name && (s->start || s->end || s->counts || s->waits))
        return td_infer_refuse(&in->run.problem, "session", "is not named, and belongs to these");
    if (!s->name && served->n_needed)
        return td_problem_set(
            &in->run.problem, EINVAL,
            "session: the model remembers %s between calls: name a session, as in "
            "\"session\":\"s\",\"session_start\":true; \"session\":\"\" computes once from where "
            "it begins",
            list_states(in));
    if (s->name && *s->name && !served->n_states && s->start)
        return no_state(in);
    if ((s->name || served->n_needed) && in->streams.asked)
        return td_infer_refuse(&in->run.problem, "streams", "a call in a session is not cut");
    return 0;
}

static struct td_infer *call_of(struct td_session_waiter *waiter)
{
    return (struct td_infer *)((char *)waiter - offsetof(struct td_infer, session.waiter));
}

/* The request goes on without its thread. The lock of the sessions is held. */
static void wait(struct td_session_waiter *waiter)
{
    struct td_request *req = call_of(waiter)->req;
    if (req->worker)
        req->worker = NULL;
    else
        req->defer(req);
}

static void go(struct td_session_waiter *waiter, struct td_session *session, int err)
{
    struct td_infer *in = call_of(waiter);
    struct td_request *req = in->req;
    in->session.session = session;
    if (err == -ETIMEDOUT)
        td_api_problem(req, -EBUSY, "session '%s': another call was at it for longer than %lld ms",
                       in->session.name, (long long)in->session.wait_ms);
    else if (err)
        td_api_problem(req, err, "session '%s': it ended while this call waited for it",
                       in->session.name);
    else if ((err = td_pool_submit(in->pool, &in->session.job))) {
        td_infer_leave_session(in);
        td_api_refused(req, in->pool, err);
    }
    if (err)
        req->reply(req);
}

static int first_without_start(struct td_infer *in)
{
    return td_problem_set(&in->run.problem, EINVAL,
                          "inference request for sequence %.80s to model '%.80s' must specify the "
                          "START flag on the first request of the sequence",
                          in->session.name, in->model);
}

int td_infer_take_session(struct td_infer *in)
{
    struct td_infer_session *s = &in->session;
    int err = judge(in);
    if (err || !s->name || !*s->name || s->session)
        return err;
    bool waits = s->waits ? s->wait_ms : s->sequence;
    if (waits && !s->waits)
        s->wait_ms = in->timeout_ms ? in->timeout_ms : 60000;
    struct td_session_ask ask = {.viewer = td_access_viewer(in->req),
                                 .model = in->model,
                                 .name = s->name,
                                 .served = in->served,
                                 .start = s->start};
    if (waits) {
        s->waiter.until_ns = td_now_ns() + s->wait_ms * 1000000;
        s->waiter.go = go;
        s->waiter.wait = wait;
        ask.waiter = &s->waiter;
    }
    struct td_session *taken;
    struct td_problem problem; /* of this thread: the call may be another's by now */
    err = td_sessions_take(in->req->service->sessions, &ask, &taken, &problem);
    if (err == -EINPROGRESS)
        return err;
    s->session = taken;
    if (err)
        in->run.problem = problem;
    if (err == -ENOENT && !in->served->n_states) /* nor has a file, or settings, before it */
        return no_state(in);
    return err == -ENOENT && s->sequence ? first_without_start(in) : err;
}

int td_infer_enter_session(struct td_infer *in)
{
    struct td_infer_session *s = &in->session;
    if (!s->session)
        return 0;
    s->step_before = s->start ? 0 : td_session_step(s->session);
    if (s->counts && s->step != s->step_before)
        return td_problem_set(
            &in->run.problem, EBUSY,
            "session_step: session '%.80s' has made %lld steps, not %lld; nothing "
            "has been changed",
            s->name, (long long)s->step_before, (long long)s->step);
    if (s->start)
        return 0;
    struct td_served *served = td_session_served(s->session), *now = in->served;
    if (served != now) { /* the model was replaced: the session goes on with its own */
        atomic_fetch_add(&served->refs, 1);
        in->served = served;
        td_served_unref(&now);
    }
    s->before = td_contents_ref(td_session_contents(s->session));
    return 0;
}

/* ---- the step ---- */

int td_infer_fill_states(struct td_infer *in)
{
    const struct td_infer_session *s = &in->session;
    if (s->session)
        return td_session_fill(in->served, s->before, in->inputs, in->req->arena, &in->run.problem);
    const struct td_served *served = in->served;
    td_model_begin_states(served->model, in->inputs);
    for (int i = 0; i < served->n_states; i++)
        if (served->state[i].needed)
            in->inputs[served->state[i].input] = served->state[i].initial;
    return 0;
}

int td_infer_prepare_step(struct td_infer *in)
{
    struct td_infer_session *s = &in->session;
    const struct td_served *served = in->served;
    if (!s->session)
        return 0;
    int err = td_session_keep(served, s->before, in->inputs, in->out, td_session_spare(s->session),
                              &s->after, &in->run.problem);
    return err || s->end ? err : td_session_reserve(s->session, s->after->bytes, &in->run.problem);
}

void td_infer_commit_step(struct td_infer *in)
{
    struct td_infer_session *s = &in->session;
    if (!s->session)
        return;
    s->made = s->step_before + 1;
    in->req->trail.session = s->name;
    in->req->trail.step = s->made;
    td_session_commit(s->session, s->after, in->served, s->made, td_pool_name(in->pool),
                      in->run.node);
    s->after = NULL;
    td_session_release(&s->session, s->end);
}

void td_infer_leave_session(struct td_infer *in)
{
    td_contents_unref(&in->session.after);
    td_session_release(&in->session.session, false);
}
