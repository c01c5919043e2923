/* Sessions by name. A name leads to a session, whose contents and model are reference-counted; one
 * lock guards the names and what sessions have, and is never held while contents are copied,
 * written or freed. */
#include "api/sessions/table.h"
#include "api/tensors/tensors.h"
#include "kernels/hash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY (2 * TD_SESSION_NAME + 2 + TD_TOKEN_NAME)

bool td_sessions_name_is_right(const char *name)
{
    return td_tensors_name_is_right(name) && !strchr(name, '/');
}

static void write_key(char key[KEY], const struct td_account *owner, const char *model,
                      const char *name)
{
    snprintf(key, KEY, "%s:%.200s/%.200s", td_account_name(owner), model, name);
}

/* ---- the sessions of a model ---- */

struct td_session_kin *td_session_kin_of(struct td_sessions *sessions, const char *model)
{
    struct td_session_kin *kin = sessions->kin;
    while (kin && strcmp(kin->model, model) != 0)
        kin = kin->next;
    return kin;
}

static struct td_session_kin *make_kin(struct td_sessions *sessions, const char *model)
{
    struct td_session_kin *kin = td_session_kin_of(sessions, model);
    if (kin || td_budget_take(&td_memory, sizeof *kin))
        return kin;
    kin = calloc(1, sizeof *kin);
    if (!kin) {
        td_budget_give(&td_memory, sizeof *kin);
        return NULL;
    }
    snprintf(kin->model, sizeof kin->model, "%s", model);
    kin->next = sessions->kin;
    return sessions->kin = kin;
}

static void link_kin(struct td_session *session)
{
    struct td_session_kin *kin = session->kin;
    session->elder = NULL;
    session->sibling = kin->first;
    *(kin->first ? &kin->first->elder : &kin->last) = session;
    kin->first = session;
}

static void unlink_kin(struct td_session *session)
{
    struct td_session_kin *kin = session->kin;
    *(session->elder ? &session->elder->sibling : &kin->first) = session->sibling;
    *(session->sibling ? &session->sibling->elder : &kin->last) = session->elder;
}

void td_session_was_called(struct td_session *session)
{
    unlink_kin(session);
    link_kin(session);
}

static void leave_kin(struct td_session *session)
{
    struct td_session_kin *kin = session->kin, **at = &session->of->kin;
    unlink_kin(session);
    session->kin = NULL;
    kin->bytes -= session->taken;
    if (--kin->n)
        return;
    while (*at != kin)
        at = &(*at)->next;
    *at = kin->next;
    free(kin);
    td_budget_give(&td_memory, sizeof *kin);
}

static void join_kin(struct td_session *session, struct td_session_kin *kin)
{
    session->kin = kin;
    link_kin(session);
    kin->n++;
    kin->bytes += session->taken;
}

/* ---- one session ---- */

const char *td_session_name(const struct td_session *session)
{
    return strchr(session->name->text, '/') + 1;
}

bool td_session_is_seen(const struct td_session *session, struct td_viewer viewer)
{
    return viewer.all || session->owner == viewer.account;
}

static bool lives(const struct td_session *session)
{
    return session->busy || session->expires_ns > td_now_ns();
}

/* Of any owner. */
static struct td_session *find_others(struct td_sessions *sessions, const char *model,
                                      const char *name)
{
    struct td_session_kin *kin = td_session_kin_of(sessions, model);
    struct td_session *session = kin ? kin->first : NULL;
    while (session && (strcmp(td_session_name(session), name) != 0 || !lives(session)))
        session = session->sibling;
    return session;
}

struct td_session *td_session_find(struct td_sessions *sessions, struct td_viewer viewer,
                                   const char *model, const char *name)
{
    char key[KEY];
    write_key(key, viewer.account, model, name);
    const struct td_name *found = td_names_find(sessions->names, key);
    struct td_session *session = found ? found->item : NULL;
    if (session && lives(session))
        return session;
    return viewer.all && viewer.account ? find_others(sessions, model, name) : NULL;
}

int td_session_take(struct td_session *session, size_t bytes)
{
    int err = td_budget_take(&session->of->budget, bytes);
    if (!err && (err = td_account_keep(session->owner, bytes)))
        td_budget_give(&session->of->budget, bytes);
    return err;
}

void td_session_give(struct td_session *session, size_t bytes)
{
    td_budget_give(&session->of->budget, bytes);
    td_account_give(session->owner, bytes);
}

static void free_session(struct td_session *session)
{
    td_contents_unref(&session->contents);
    td_contents_unref(&session->spare);
    td_served_unref(&session->served);
    td_session_give(session, session->taken);
    td_budget_give(&td_memory, sizeof *session);
    free(session);
}

void td_session_unref(struct td_session *session)
{
    if (session && atomic_fetch_sub(&session->refs, 1) == 1)
        free_session(session);
}

static int no_room(struct td_session *session, int err)
{
    td_budget_give(&td_memory, sizeof *session);
    free(session);
    return err;
}

/* One of that name that has expired, and is still there, goes. */
static void drop_late(struct td_sessions *sessions, const char *key)
{
    const struct td_name *name = td_names_find(sessions->names, key);
    struct td_session *old = name ? name->item : NULL;
    if (old)
        td_session_drop(old, TD_SESSION_idle, td_now_ns());
    td_session_unref(old);
}

int td_session_make(struct td_sessions *sessions, const struct td_session_ask *ask,
                    struct td_session **result)
{
    char key[KEY];
    struct td_session *session = NULL;
    struct td_name *name;
    write_key(key, ask->viewer.account, ask->model, ask->name);
    drop_late(sessions, key);
    if (td_session_start_clock(sessions) || td_budget_take(&td_memory, sizeof *session))
        return -ENOMEM;
    session = calloc(1, sizeof *session);
    if (!session)
        return no_room(session, -ENOMEM);
    session->of = sessions;
    session->owner = ask->viewer.account;
    int err = td_session_take(session, sizeof *session);
    if (err)
        return no_room(session, err);
    session->taken = sizeof *session;
    err = td_names_add(sessions->names, key, &name);
    struct td_session_kin *kin = err ? NULL : make_kin(sessions, ask->model);
    if (!kin) {
        if (!err)
            td_names_drop(sessions->names, name);
        td_session_give(session, session->taken);
        return no_room(session, err ? err : -ENOMEM);
    }
    name->item = session;
    session->name = name;
    session->busy = session->is_new = true;
    const struct td_session_settings *settings = td_session_settings_of(sessions, ask->model);
    session->ttl_s = settings && settings->ttl_s ? settings->ttl_s : sessions->ttl_s;
    session->node = -1;
    session->served = ask->served;
    atomic_fetch_add(&ask->served->refs, 1);
    atomic_init(&session->refs, 1);
    join_kin(session, kin);
    ask->served->file->sessions++;
    sessions->n_sessions++;
    *result = session;
    return 0;
}

void td_session_drop(struct td_session *session, enum td_session_end how, int64_t now)
{
    struct td_sessions *sessions = session->of;
    struct td_session_mourned *m = &sessions->mourned[sessions->n_mourned % TD_SESSION_MOURNED];
    if (!session->is_new) {
        *m = (struct td_session_mourned){
            td_hash_bytes(session->name->text, strlen(session->name->text)), now, session->ttl_s,
            how};
        sessions->n_mourned++;
        sessions->ended[how]++;
    }
    if (!session->busy)
        td_session_unwind(session);
    td_names_drop(sessions->names, session->name);
    session->name = NULL;
    session->gone = true;
    leave_kin(session);
    session->served->file->sessions--;
    sessions->n_sessions--;
}

void td_session_count(struct td_session *session, size_t taken)
{
    if (session->kin)
        session->kin->bytes += taken - session->taken;
    session->taken = taken;
}

/* ---- their life ---- */

/* The first from here on that goes on with another file. */
static struct td_session *find_unlike(struct td_session *session, const struct td_served *now)
{
    while (session && now && td_served_is_alike(session->served, now))
        session = session->sibling;
    return session;
}

/* Has the files hashed that find_unlike will compare with the lock held. */
static void hash_files(struct td_sessions *sessions, const char *model, const struct td_served *now)
{
    struct td_served *served;
    do {
        served = NULL;
        pthread_mutex_lock(&sessions->lock);
        struct td_session_kin *kin = td_session_kin_of(sessions, model);
        for (struct td_session *s = kin ? kin->first : NULL; s && !served; s = s->sibling)
            served = td_served_must_hash(s->served, now) ? s->served : NULL;
        if (served)
            atomic_fetch_add(&served->refs, 1);
        pthread_mutex_unlock(&sessions->lock);
        if (served)
            td_served_is_alike(served, now);
        td_served_unref(&served);
    } while (served);
}

/* The model has gone, or is another now, whose file's sessions stay: its sessions end, some at a
 * time. */
static void end_model(void *arg, const char *model, const struct td_served *now)
{
    struct td_sessions *sessions = arg;
    int n;
    if (now)
        hash_files(sessions, model, now);
    do {
        struct td_session *gone[TD_SESSION_AT_ONCE], *session, *next;
        struct td_session_waiter *waiters[TD_SESSION_AT_ONCE];
        pthread_mutex_lock(&sessions->lock);
        struct td_session_kin *kin = td_session_kin_of(sessions, model);
        session = find_unlike(kin ? kin->first : NULL, now);
        for (n = 0; session && n < TD_SESSION_AT_ONCE; n++, session = next) {
            next = find_unlike(session->sibling, now);
            gone[n] = session;
            waiters[n] = td_session_take_waiters(session);
            td_session_drop(session, TD_SESSION_model, td_now_ns());
        }
        if (!now)
            td_session_settings_drop(sessions, model);
        pthread_mutex_unlock(&sessions->lock);
        for (int i = 0; i < n; i++) {
            td_session_tell(waiters[i], -ENOENT);
            td_session_unref(gone[i]);
        }
    } while (n == TD_SESSION_AT_ONCE);
}

struct td_sessions *td_sessions_create(struct td_models *models, size_t bytes, int ttl_s)
{
    struct td_sessions *sessions = calloc(1, sizeof *sessions);
    if (!sessions)
        return NULL;
    td_budget_init(&sessions->budget, NULL, bytes, ENOSPC);
    sessions->names = td_names_create(&sessions->budget);
    if (!sessions->names) {
        free(sessions);
        return NULL;
    }
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&sessions->earlier, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&sessions->lock, NULL);
    sessions->models = models;
    sessions->ttl_s = ttl_s;
    td_models_tell(models, end_model, td_sessions_settle_file, sessions);
    return sessions;
}

void td_sessions_destroy(struct td_sessions *sessions)
{
    if (!sessions)
        return;
    td_session_stop_clock(sessions);
    td_models_tell(sessions->models, NULL, NULL, NULL);
    while (sessions->kin) {
        struct td_session *session = sessions->kin->first;
        td_session_drop(session, TD_SESSION_end, 0);
        td_session_unref(session);
    }
    while (sessions->settings)
        td_session_settings_drop(sessions, sessions->settings->model);
    td_names_destroy(sessions->names);
    pthread_cond_destroy(&sessions->earlier);
    pthread_mutex_destroy(&sessions->lock);
    free(sessions);
}

/* ---- what ended ---- */

/* The last that ended under such a name, or NULL. */
static const struct td_session_mourned *find_mourned(const struct td_sessions *sessions,
                                                     uint64_t hash)
{
    const struct td_session_mourned *last = NULL;
    for (int i = 0; i < TD_SESSION_MOURNED; i++) {
        const struct td_session_mourned *m = &sessions->mourned[i];
        if (m->hash == hash && (!last || m->at_ns > last->at_ns))
            last = m;
    }
    return last;
}

int td_sessions_unknown(struct td_sessions *sessions, struct td_viewer viewer, const char *model,
                        const char *name, struct td_problem *problem)
{
    char key[KEY], what[120] = "";
    write_key(key, viewer.account, model, name);
    int64_t now = td_now_ns();
    pthread_mutex_lock(&sessions->lock);
    const struct td_session_mourned *m = find_mourned(sessions, td_hash_bytes(key, strlen(key)));
    const struct td_name *found = td_names_find(sessions->names, key);
    struct td_session_mourned late = {0};
    if (found && !((struct td_session *)found->item)->busy) { /* the clock has not seen it yet */
        const struct td_session *session = found->item;
        late = (struct td_session_mourned){0, session->expires_ns, session->ttl_s, TD_SESSION_idle};
        m = &late;
    }
    long long ago = m ? (now - m->at_ns) / 1000000000 : 0;
    if (m && m->how == TD_SESSION_idle)
        snprintf(what, sizeof what, ": it expired %lld s ago, idle for %d s", ago, m->idle_s);
    else if (m)
        snprintf(what, sizeof what, ": it ended %lld s ago%s", ago,
                 m->how == TD_SESSION_model    ? " with its model"
                 : m->how == TD_SESSION_oldest ? " for a new one, when_full is \"oldest\""
                                               : "");
    pthread_mutex_unlock(&sessions->lock);
    return td_problem_set(problem, ENOENT,
                          "%.80s has no session '%.80s'%s; \"session_start\":true in a call begins "
                          "one, as does PUT /v1/models/%.80s/sessions/%.80s",
                          model, name, what, model, name);
}
