/* When sessions end by themselves: a wheel with a slot a second, in which a session lies at the
 * second when it will expire, modulo the wheel's size. Each second one slot is looked through. A
 * thread turns it, which sleeps while there are none, and also tells those that have waited for a
 * session long enough. */
#include "api/sessions/table.h"

#include <errno.h>

#define SECOND INT64_C(1000000000)

static struct td_session **slot_of(struct td_sessions *sessions, int64_t expires_ns)
{
    return &sessions->slot[(expires_ns / SECOND + 1) % TD_SESSION_SLOTS];
}

void td_session_wind(struct td_session *session, int64_t now)
{
    session->expires_ns = now + session->ttl_s * SECOND;
    struct td_session **slot = slot_of(session->of, session->expires_ns);
    session->prev = NULL;
    session->next = *slot;
    if (*slot)
        (*slot)->prev = session;
    *slot = session;
}

void td_session_unwind(struct td_session *session)
{
    if (session->prev)
        session->prev->next = session->next;
    else
        *slot_of(session->of, session->expires_ns) = session->next;
    if (session->next)
        session->next->prev = session->prev;
    session->next = session->prev = NULL;
}

/* Drops some that have expired in the slots up to now: how many. */
static int expire(struct td_sessions *sessions, int64_t now, struct td_session **gone)
{
    int64_t last = now / SECOND;
    int n = 0;
    if (last - sessions->second > TD_SESSION_SLOTS)
        sessions->second = last - TD_SESSION_SLOTS;
    while (sessions->second < last) {
        int64_t second = sessions->second + 1;
        struct td_session *next, *s = sessions->slot[second % TD_SESSION_SLOTS];
        for (; s && n < TD_SESSION_AT_ONCE; s = next) {
            next = s->next;
            if (s->expires_ns > now)
                continue;
            td_session_drop(s, TD_SESSION_idle, now);
            gone[n++] = s;
        }
        if (n == TD_SESSION_AT_ONCE)
            break;
        sessions->second = second;
    }
    return n;
}

static void *tick(void *arg)
{
    struct td_sessions *sessions = arg;
    struct td_session *gone[TD_SESSION_AT_ONCE];
    pthread_setname_np(pthread_self(), "td sessions");
    pthread_mutex_lock(&sessions->lock);
    while (!sessions->stopping) {
        int64_t now = td_now_ns(), next = INT64_MAX;
        if (!sessions->n_sessions)
            sessions->second = now / SECOND;
        int n = expire(sessions, now, gone);
        struct td_session_waiter *late = td_session_late(sessions, now, &next);
        if (n || late) {
            pthread_mutex_unlock(&sessions->lock);
            td_session_tell(late, -ETIMEDOUT);
            for (int i = 0; i < n; i++)
                td_session_unref(gone[i]);
            pthread_mutex_lock(&sessions->lock);
            continue;
        }
        int64_t turn = (now / SECOND + 1) * SECOND;
        next = sessions->n_sessions && turn < next ? turn : next;
        struct timespec until = {next / SECOND, next % SECOND};
        if (next == INT64_MAX)
            pthread_cond_wait(&sessions->earlier, &sessions->lock);
        else
            pthread_cond_timedwait(&sessions->earlier, &sessions->lock, &until);
    }
    pthread_mutex_unlock(&sessions->lock);
    return NULL;
}

int td_session_start_clock(struct td_sessions *sessions)
{
    if (!sessions->ticks) {
        sessions->second = td_now_ns() / SECOND;
        sessions->ticks = !pthread_create(&sessions->clock, NULL, tick, sessions);
    }
    if (!sessions->n_sessions)
        pthread_cond_signal(&sessions->earlier);
    return sessions->ticks ? 0 : -EAGAIN;
}

void td_session_stop_clock(struct td_sessions *sessions)
{
    pthread_mutex_lock(&sessions->lock);
    sessions->stopping = true;
    pthread_cond_signal(&sessions->earlier);
    pthread_mutex_unlock(&sessions->lock);
    if (sessions->ticks)
        pthread_join(sessions->clock, NULL);
}
