/* What a model says of all its sessions: how many, for how long, and what happens beyond that; and
 * what they keep, which is the room of models'. The settings are of the model's name: they stay
 * when it is replaced, and go when it is deleted. */
#include "api/sessions/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 1000000000 /* sessions that max may say */
#define FILE_DEPTH 32   /* of objects in each other, in a file */

/* ---- by the name of a model ---- */

struct td_session_settings *td_session_settings_of(struct td_sessions *sessions, const char *model)
{
    struct td_session_settings *settings = sessions->settings;
    while (settings && strcmp(settings->model, model) != 0)
        settings = settings->next;
    return settings;
}

void td_session_settings_drop(struct td_sessions *sessions, const char *model)
{
    struct td_session_settings **at = &sessions->settings, *gone;
    while (*at && strcmp((*at)->model, model) != 0)
        at = &(*at)->next;
    gone = *at;
    if (!gone)
        return;
    *at = gone->next;
    free(gone);
    td_budget_give(&td_memory, sizeof *gone);
}

/* -ENOENT: the model has gone meanwhile; -ENOMEM. */
static int set(struct td_sessions *sessions, const struct td_session_settings *what)
{
    struct td_session_settings *own = td_session_settings_of(sessions, what->model), *next;
    struct td_served *served = td_models_find(sessions->models, what->model);
    bool there = served;
    td_served_unref(&served);
    if (!there)
        return -ENOENT;
    if (!own) {
        if (td_budget_take(&td_memory, sizeof *own))
            return -ENOMEM;
        own = calloc(1, sizeof *own);
        if (!own) {
            td_budget_give(&td_memory, sizeof *own);
            return -ENOMEM;
        }
        own->next = sessions->settings;
        sessions->settings = own;
    }
    next = own->next;
    *own = *what;
    own->next = next;
    return 0;
}

/* ---- room for one more ---- */

bool td_session_oldest_goes(struct td_sessions *sessions, const char *model,
                            const struct td_account *owner)
{
    const struct td_session_settings *settings = td_session_settings_of(sessions, model);
    struct td_session_kin *kin = td_session_kin_of(sessions, model);
    struct td_session *session = kin && settings && settings->oldest ? kin->last : NULL;
    while (session && (session->busy || session->owner != owner))
        session = session->elder;
    if (!session)
        return false;
    td_session_drop(session, TD_SESSION_oldest, td_now_ns());
    td_session_unref(session);
    return true;
}

/* How many of the model's there are. */
static int count(struct td_sessions *sessions, const char *model)
{
    const struct td_session_kin *kin = td_session_kin_of(sessions, model);
    return kin ? kin->n : 0;
}

int td_session_make_way(struct td_sessions *sessions, const struct td_session_ask *ask,
                        struct td_problem *problem)
{
    const struct td_session_settings *settings = td_session_settings_of(sessions, ask->model);
    int gone = 0;
    if (!settings || !settings->max)
        return 0;
    while (count(sessions, ask->model) >= settings->max && gone < TD_SESSION_AT_ONCE &&
           td_session_oldest_goes(sessions, ask->model, ask->viewer.account))
        gone++;
    if (gone || count(sessions, ask->model) < settings->max)
        return 0; /* where max has become much smaller, each new one makes them fewer */
    return td_problem_set(problem, ENOSPC,
                          "no room for a session: %.80s has %d, and its settings say max %d; "
                          "DELETE one, or wait until one expires",
                          ask->model, count(sessions, ask->model), settings->max);
}

/* ---- the routes ---- */

static int answer(struct td_request *req, struct td_response *res)
{
    struct td_sessions *sessions = req->service->sessions;
    struct td_served *served = td_models_find(req->service->models, req->var[0]);
    struct td_session_settings now = {0};
    struct td_writer w;
    if (!served)
        return td_api_no_model(req);
    pthread_mutex_lock(&sessions->lock);
    const struct td_session_settings *own = td_session_settings_of(sessions, req->var[0]);
    if (own)
        now = *own;
    pthread_mutex_unlock(&sessions->lock);
    td_write_init(&w, req->arena, 256);
    td_write_open(&w, NULL, '{');
    td_write_open(&w, "sessions", '{');
    td_write_int(&w, "max", now.max);
    td_write_int(&w, "ttl_s", now.ttl_s ? now.ttl_s : sessions->ttl_s);
    td_write_str(&w, "when_full", now.oldest ? "oldest" : "refuse");
    td_write_close(&w, '}');
    if (served->settings) /* without the braces */
        td_write_raw(&w, NULL, served->settings + 1, strlen(served->settings) - 2);
    td_write_close(&w, '}');
    td_served_unref(&served);
    return td_write_response(&w, res, 200);
}

int td_api_settings_get(struct td_request *req, struct td_response *res)
{
    return answer(req, res);
}

static int read_whole(const cJSON *object, const char *key, int least, int most, int *value,
                      struct td_problem *problem)
{
    const cJSON *item = td_json_member(object, key);
    __int128 whole = 0;
    if (!item)
        return 0;
    if (!cJSON_IsNumber(item) || td_json_is_float(item) || !td_json_whole(item, &whole) ||
        whole < least || whole > most)
        return td_problem_set(problem, EINVAL, "sessions.%s: must be a whole number from %d to %d",
                              key, least, most);
    *value = (int)whole;
    return 0;
}

static int read_settings(const cJSON *root, struct td_session_settings *what,
                         struct td_problem *problem)
{
    static const char *const right[] = {"state", "sticky", "derived", "roles", "sessions", NULL};
    static const char *const own[] = {"max", "ttl_s", "when_full", NULL};
    if (!cJSON_IsObject(root))
        return td_problem_set(problem, EINVAL, "the body: must be an object of settings");
    int err = td_json_members(root, "the body", right, problem);
    const cJSON *sessions = td_json_member(root, "sessions");
    if (err || !sessions)
        return err;
    if (!cJSON_IsObject(sessions))
        return td_problem_set(problem, EINVAL, "sessions: must be an object");
    err = td_json_members(sessions, "sessions", own, problem);
    if (!err)
        err = read_whole(sessions, "max", 0, MOST, &what->max, problem);
    if (!err)
        err = read_whole(sessions, "ttl_s", 1, TD_SESSION_MOST_TTL_S, &what->ttl_s, problem);
    const cJSON *full = td_json_member(sessions, "when_full");
    if (err || !full)
        return err;
    what->oldest = cJSON_IsString(full) && !strcmp(full->valuestring, "oldest");
    if (!what->oldest && !(cJSON_IsString(full) && !strcmp(full->valuestring, "refuse")))
        return td_problem_set(problem, EINVAL,
                              "sessions.when_full: must be \"refuse\" or \"oldest\"");
    return 0;
}

/* What the text says, or nothing has changed. */
static int settle(struct td_sessions *sessions, const char *model, const char *text, size_t size,
                  int depth, struct td_problem *problem)
{
    struct td_session_settings what = {0};
    struct td_json json;
    int err = td_json_parse(&json, text, size, depth, problem);
    if (!err)
        err = read_settings(json.root, &what, problem);
    if (!err)
        err = td_models_settle(sessions->models, model, json.root, sessions->budget.limit, problem);
    td_json_free(&json);
    if (err)
        return err;
    snprintf(what.model, sizeof what.model, "%s", model);
    pthread_mutex_lock(&sessions->lock);
    err = set(sessions, &what);
    pthread_mutex_unlock(&sessions->lock);
    return err == -ENOMEM ? td_problem_set(problem, ENOMEM, "no memory for the settings") : err;
}

int td_sessions_settle_file(void *sessions, const char *model, const char *text, size_t size,
                            struct td_problem *problem)
{
    return settle(sessions, model, text, size, FILE_DEPTH, problem);
}

int td_api_settings_put(struct td_request *req, struct td_response *res)
{
    struct td_problem problem;
    struct td_served *served = td_models_find(req->service->models, req->var[0]);
    bool there = served;
    td_served_unref(&served);
    int err = there ? td_access_name(req, "the model", req->var[0], &problem) : -ENOENT;
    if (!err)
        err = settle(req->service->sessions, req->var[0], req->body, req->body_size,
                     req->service->limits.json_depth, &problem);
    if (err == -ENOENT)
        return td_api_no_model(req);
    return err ? td_api_problem(req, err, "%s", problem.text) : answer(req, res);
}
