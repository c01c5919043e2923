/* Who has a session, and who waits for it. Order over two connections is chance, so a second call
 * is refused unless it says that it waits; those that do get the session in the order they came. A
 * waiter holds no thread. */
#include "api/sessions/table.h"

#include <errno.h>
#include <string.h>

/* ---- waiting ---- */

struct td_session_waiter *td_session_take_waiters(struct td_session *session)
{
    struct td_session_waiter *list = session->waiter;
    session->of->n_waiters -= session->n_waiters;
    session->waiter = NULL;
    session->n_waiters = 0;
    return list;
}

static void take_late(struct td_session *session, int64_t now, int64_t *next,
                      struct td_session_waiter **late)
{
    struct td_session_waiter **at = &session->waiter;
    while (*at) {
        struct td_session_waiter *waiter = *at;
        if (waiter->until_ns > now) {
            *next = waiter->until_ns < *next ? waiter->until_ns : *next;
            at = &waiter->next;
            continue;
        }
        *at = waiter->next;
        session->n_waiters--;
        session->of->n_waiters--;
        waiter->next = *late;
        *late = waiter;
    }
}

struct td_session_waiter *td_session_late(struct td_sessions *sessions, int64_t now, int64_t *next)
{
    struct td_session_waiter *late = NULL;
    if (!sessions->n_waiters)
        return NULL;
    for (struct td_session_kin *kin = sessions->kin; kin; kin = kin->next)
        for (struct td_session *s = kin->first; s; s = s->sibling)
            if (s->waiter)
                take_late(s, now, next, &late);
    return late;
}

void td_session_tell(struct td_session_waiter *list, int err)
{
    while (list) {
        struct td_session_waiter *waiter = list;
        list = waiter->next;
        waiter->go(waiter, NULL, err);
    }
}

static int enqueue(struct td_session *session, struct td_session_waiter *waiter,
                   struct td_problem *problem)
{
    struct td_session_waiter **at = &session->waiter;
    if (session->n_waiters == TD_SESSION_WAITERS)
        return td_problem_set(problem, EBUSY, "session: %d calls wait for it already",
                              TD_SESSION_WAITERS);
    while (*at)
        at = &(*at)->next;
    waiter->next = NULL;
    waiter->of = session;
    waiter->wait(waiter);
    *at = waiter;
    session->n_waiters++;
    session->of->n_waiters++;
    pthread_cond_signal(&session->of->earlier);
    return -EINPROGRESS;
}

/* ---- taking ---- */

/* The name is looked up once more: of a model that has gone, sessions have been ended already. */
static int make(struct td_sessions *sessions, const struct td_session_ask *ask,
                struct td_session **session)
{
    struct td_served *served = td_models_find(sessions->models, ask->model);
    int err = served ? td_session_make(sessions, ask, session) : -ENOENT;
    td_served_unref(&served);
    return err;
}

static int take(struct td_sessions *sessions, const struct td_session_ask *ask,
                struct td_session *found, struct td_session **session, struct td_problem *problem)
{
    if (found && found->busy && ask->waiter)
        return enqueue(found, ask->waiter, problem);
    if (found && found->busy) {
        sessions->conflicts++;
        return td_problem_set(problem, EBUSY,
                              "session '%.80s': another call is at it; one at a time is right, or "
                              "say session_wait_ms",
                              ask->name);
    }
    int err = found ? 0 : td_session_make_way(sessions, ask, problem);
    if (err)
        return err;
    if (!found)
        do
            err = make(sessions, ask, &found);
        while (err == -ENOSPC && td_session_oldest_goes(sessions, ask->model, ask->viewer.account));
    if (err == -ENOSPC)
        return td_problem_set(problem, ENOSPC,
                              "no room for a session: they have %zu of their %zu bytes "
                              "(session-bytes); DELETE one, or wait until one expires",
                              (size_t)sessions->budget.used, (size_t)sessions->budget.limit);
    if (err == -EDQUOT)
        return td_account_no_room(ask->viewer.account, "a session", problem);
    if (err)
        return err == -ENOENT ? err : td_problem_set(problem, -err, "no memory for a session");
    if (!found->busy)
        td_session_unwind(found);
    found->busy = true;
    atomic_fetch_add(&found->refs, 1);
    *session = found;
    return 0;
}

int td_sessions_take(struct td_sessions *sessions, const struct td_session_ask *ask,
                     struct td_session **session, struct td_problem *problem)
{
    struct td_viewer viewer = ask->viewer;
    viewer.all &= !ask->start; /* a new one is one's own, whatever others have */
    *session = NULL;
    pthread_mutex_lock(&sessions->lock);
    struct td_session *found = td_session_find(sessions, viewer, ask->model, ask->name);
    int err = found || ask->start ? take(sessions, ask, found, session, problem) : -ENOENT;
    pthread_mutex_unlock(&sessions->lock);
    return err == -ENOENT ? td_sessions_unknown(sessions, viewer, ask->model, ask->name, problem)
                          : err;
}

/* ---- of one that is taken: nobody else changes these ---- */

struct td_served *td_session_served(const struct td_session *session)
{
    return session->served;
}

struct td_contents *td_session_contents(const struct td_session *session)
{
    return session->contents;
}

struct td_contents **td_session_spare(struct td_session *session)
{
    return &session->spare;
}

int64_t td_session_step(const struct td_session *session)
{
    return session->step;
}

bool td_session_is_new(const struct td_session *session)
{
    return session->is_new;
}

void td_session_set_ttl(struct td_session *session, int ttl_s)
{
    pthread_mutex_lock(&session->of->lock);
    session->ttl_s = ttl_s;
    pthread_mutex_unlock(&session->of->lock);
}

int td_session_reserve(struct td_session *session, size_t bytes, struct td_problem *problem)
{
    struct td_sessions *sessions = session->of;
    size_t wanted = sizeof *session + bytes;
    int err = 0;
    pthread_mutex_lock(&sessions->lock);
    if (wanted > session->taken) {
        do
            err = td_session_take(session, wanted - session->taken);
        while (err == -ENOSPC && session->kin &&
               td_session_oldest_goes(sessions, session->kin->model, session->owner));
        if (!err)
            td_session_count(session, wanted);
    }
    pthread_mutex_unlock(&sessions->lock);
    if (err == -EDQUOT)
        return td_account_no_room(session->owner, "the session's state", problem);
    return err ? td_problem_set(
                     problem, -err,
                     "no room for the session's state of %zu bytes: sessions have %zu of "
                     "their %zu bytes (session-bytes); nothing has been changed",
                     bytes, (size_t)sessions->budget.used, (size_t)sessions->budget.limit)
               : 0;
}

/* What it has goes for other contents: a large block of the same size stays for the next step, if
 * there is room, and is given back, else NULL is. The session counts with both. */
static struct td_contents *keep_spare(struct td_session *session, const struct td_contents *next)
{
    struct td_contents *old = session->contents;
    size_t own = sizeof *session + (next ? next->bytes : 0);
    bool twins = old && next && old->bytes == next->bytes && next->bytes >= TD_CONTENTS_LARGE;
    size_t wanted = own + (twins ? old->bytes : 0);
    if (wanted > session->taken && td_session_take(session, wanted - session->taken)) {
        twins = false;
        wanted = own > session->taken ? session->taken : own;
    }
    if (wanted < session->taken)
        td_session_give(session, session->taken - wanted);
    td_session_count(session, wanted);
    return twins ? old : NULL;
}

void td_session_commit(struct td_session *session, struct td_contents *contents,
                       struct td_served *served, int64_t step, const char *pool, int node)
{
    struct td_sessions *sessions = session->of;
    struct td_served *old_served = NULL;
    pthread_mutex_lock(&sessions->lock);
    struct td_contents *old = session->contents, *spare = session->spare;
    session->spare = keep_spare(session, contents);
    if (session->spare)
        old = NULL;
    if (served != session->served) {
        old_served = session->served;
        old_served->file->sessions -= !session->gone;
        served->file->sessions += !session->gone;
        session->served = served;
        atomic_fetch_add(&served->refs, 1);
    }
    session->contents = contents;
    session->step = step;
    session->is_new = false;
    sessions->steps += pool != NULL;
    if (pool) {
        session->node = node;
        strncpy(session->pool, pool, sizeof session->pool - 1);
    }
    pthread_mutex_unlock(&sessions->lock);
    td_contents_unref(&old);
    td_contents_unref(&spare);
    td_served_unref(&old_served);
}

void td_session_release(struct td_session **taken, bool end)
{
    struct td_session *session = *taken, *gone = NULL;
    *taken = NULL;
    if (!session)
        return;
    struct td_sessions *sessions = session->of;
    struct td_session_waiter *next = NULL, *left = NULL;
    int64_t now = td_now_ns();
    pthread_mutex_lock(&sessions->lock);
    session->used_ns = now;
    if (!session->gone && (end || session->is_new)) {
        left = td_session_take_waiters(session);
        td_session_drop(session, TD_SESSION_end, now);
        gone = session;
    }
    next = session->waiter;
    if (next) { /* which has the caller's reference */
        session->waiter = next->next;
        session->n_waiters--;
        sessions->n_waiters--;
    } else {
        session->busy = false;
        if (!session->gone) {
            td_session_wind(session, now);
            td_session_was_called(session);
        }
    }
    pthread_mutex_unlock(&sessions->lock);
    td_session_tell(left, -ENOENT);
    if (next)
        next->go(next, session, 0);
    else
        td_session_unref(session);
    td_session_unref(gone);
}
