/* An HTTP thread: runs its daemon while there is something to do, and waits.
 *
 * libmicrohttpd is driven from here as its manual says for an external loop: MHD_run handles what
 * is there and never waits; between two of these the thread polls or sleeps, on the daemon's epoll
 * descriptor and on one by which workers that have replied wake it, and td_http_stop. A worker
 * counts its reply and then looks whether the thread sleeps; the thread says that it does and then
 * looks at the count: so one of them sees the other.
 *
 * It polls a while before it sleeps: a CPU that went idle takes long to wake, above all a virtual
 * one (40 to 60 us of a call of 70). It does so only while requests follow one another closely, so
 * a thread without traffic sleeps; not while a worker that may want its CPU has a request of this
 * thread; and not where others want the CPU, which then does not go idle anyway. Polling is
 * MHD_run: one system call that finds the event and brings it.
 *
 * Big replies that have to wait (body.c) are suspended connections; the loop lets the first of
 * them go on when its time has come.
 *
 * While a TLS handshake waits for its client, libmicrohttpd (0.9.75) wants to be run again at once:
 * a client that connects and says nothing would keep a CPU busy. So where run after run has nobody
 * called back, it is run every FUTILE_NS alone, and when there is an event. */
#include "server/http/threads.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define SOON_NS 50000 /* after a shorter wait the next event may be there already */
#define LOST_NS 15000 /* a yield that takes longer has given the CPU to somebody */
#define CONTENDED_NS 20000000
#define LEAST_REST_NS 500000 /* from polling, after that */
#define MOST_REST_NS 64000000
#define FUTILE_RUNS 64 /* more than a reply that libmicrohttpd sends by itself takes */
#define FUTILE_NS 5000000
#define LOST_PART 32 /* a yield may cost this part of the time */

int64_t td_http_yield(struct td_http_thread *thread, int64_t before)
{
    sched_yield();
    int64_t now = td_now_ns();
    if (now - before > LOST_NS) {
        thread->contended_ns = now;
        thread->lost_ns = now - before;
    }
    return now;
}

bool td_http_is_contended(const struct td_http_thread *thread, int64_t now)
{
    return now - thread->contended_ns < CONTENDED_NS;
}

/* ---- big replies in waiting ---- */

void td_http_hold(struct td_http_thread *thread, struct td_http_held *held)
{
    held->next = NULL;
    *thread->last_held = held;
    thread->last_held = &held->next;
    MHD_suspend_connection(held->connection);
}

static void release_one(struct td_http_thread *thread)
{
    struct td_http_held *held = thread->held;
    thread->held = held->next;
    if (!thread->held)
        thread->last_held = &thread->held;
    MHD_resume_connection(held->connection);
}

static int64_t held_for(const struct td_http_thread *thread, int64_t now)
{
    int64_t left = thread->piece_ns + TD_HTTP_PACE_NS - now;
    return left > 0 ? left : 0;
}

/* ---- waiting ---- */

static bool may_poll(const struct td_http_thread *thread, int64_t now)
{
    return thread->pause_ns < thread->http->spin_ns && now >= thread->poll_from_ns &&
           (*thread->http->config.io_cpus || !atomic_load(&thread->handling));
}

static bool is_draining(const struct td_http_thread *thread)
{
    return atomic_load_explicit(&thread->http->draining, memory_order_relaxed) &&
           !atomic_load_explicit(&thread->drained, memory_order_relaxed);
}

/* Handles what is there; whether that was anything that a client or a worker has done. */
static bool run(struct td_http_thread *thread)
{
    unsigned long long before = thread->callbacks;
    thread->replies_seen = atomic_load(&thread->replies);
    thread->again = false;
    int64_t now = thread->now_ns = td_now_ns();
    atomic_store_explicit(&thread->busy.what, NULL, memory_order_relaxed);
    atomic_store_explicit(&thread->busy.since_ns, now, memory_order_relaxed);
    if (thread->held && !held_for(thread, now))
        release_one(thread);
    if (is_draining(thread))
        td_http_drain_turn(thread, now);
    if (!td_watch_due(&thread->watch, now))
        td_watch_look(&thread->watch, now);
    MHD_run(thread->daemon);
    bool found = thread->callbacks != before;
    thread->futile = found ? 0 : thread->futile + 1;
    return found;
}

/* Each time that others wanted the CPU, the next attempt comes twice as late, and so late that what
 * they took is a small part of the time: among programs that compute, a yield costs their slice. */
static void note_poll(struct td_http_thread *thread, int64_t now, bool found)
{
    if (thread->contended_ns == now) {
        int64_t rest = thread->rest_ns * 2, least = LOST_PART * thread->lost_ns;
        rest = rest < LEAST_REST_NS ? LEAST_REST_NS : rest;
        rest = rest < MOST_REST_NS ? rest : MOST_REST_NS;
        thread->rest_ns = rest < least ? least : rest;
        thread->poll_from_ns = now + thread->rest_ns;
    } else if (found) {
        thread->rest_ns = 0;
    }
}

/* Until there is an event or a reply, or a connection or a held reply is due. */
static void sleep_until_event(struct td_http_thread *thread, int64_t now)
{
    struct pollfd fds[] = {{.fd = thread->epoll, .events = POLLIN},
                           {.fd = thread->wake, .events = POLLIN}};
    unsigned long long ms;
    int64_t ns = MHD_get_timeout(thread->daemon, &ms) == MHD_YES ? (int64_t)ms * 1000000 : -1;
    if (!ns && thread->futile > FUTILE_RUNS)
        ns = FUTILE_NS;
    int64_t due = td_watch_due(&thread->watch, now);
    if (due >= 0 && (ns < 0 || due < ns))
        ns = due;
    if (thread->held && (ns < 0 || held_for(thread, now) < ns))
        ns = held_for(thread, now);
    if (is_draining(thread) && (ns < 0 || ns > TD_HTTP_DRAIN_NS))
        ns = TD_HTTP_DRAIN_NS;
    struct timespec most = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    atomic_store_explicit(&thread->busy.since_ns, 0, memory_order_relaxed);
    atomic_store(&thread->asleep, true);
    if (!thread->again && atomic_load(&thread->replies) == thread->replies_seen &&
        !atomic_load(&thread->http->stopping))
        ppoll(fds, 2, ns < 0 ? NULL : &most, NULL);
    uint64_t n;
    if (!atomic_exchange(&thread->asleep, false) && read(thread->wake, &n, sizeof n) < 0)
        abort(); /* it was woken, so there is something to read */
}

/* Waits for the next event and handles it. */
static void wait_and_run(struct td_http_thread *thread)
{
    struct td_service *service = thread->http->service;
    int64_t begin = td_now_ns(), now = begin;
    bool found = false;
    while (!found && may_poll(thread, now)) {
        now = td_http_yield(thread, now);
        found = run(thread);
        thread->pause_ns = now - begin;
        note_poll(thread, now, found);
    }
    atomic_fetch_add_explicit(found ? &service->front.io_polls : &service->front.io_sleeps, 1,
                              memory_order_relaxed);
    if (found)
        return;
    sleep_until_event(thread, now);
    thread->pause_ns = td_now_ns() - begin;
    run(thread);
}

static void *serve(void *arg)
{
    struct td_http_thread *thread = arg;
    td_thread_alone(); /* small calls run here, on no team */
    td_thread_brisk(); /* beside the pool's worker */
    if (*thread->home)
        td_pools_seat(thread->http->service->pools, thread->home, thread->part, thread->parts,
                      &thread->busy);
    /* Also what was given to a worker while td_http_stop looked. */
    while (!atomic_load_explicit(&thread->http->stopping, memory_order_relaxed) ||
           atomic_load(&thread->handling))
        if (thread->pause_ns > SOON_NS || !run(thread))
            wait_and_run(thread);
    while (thread->held) /* a daemon must not be stopped with suspended connections */
        release_one(thread);
    return NULL;
}

int td_http_thread_start(struct td_http_thread *thread)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(thread->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    thread->last_held = &thread->held;
    thread->epoll = info ? info->epoll_fd : -1;
    thread->wake = eventfd(0, EFD_CLOEXEC);
    if (thread->epoll < 0 || thread->wake < 0)
        return -EIO;
    int err = -pthread_create(&thread->thread, NULL, serve, thread);
    thread->runs = !err;
    if (!err)
        pthread_setname_np(thread->thread, "td http");
    return err;
}

void td_http_thread_join(struct td_http_thread *thread)
{
    if (thread->runs) {
        td_http_wake(thread);
        pthread_join(thread->thread, NULL);
    }
    if (thread->wake > 0)
        close(thread->wake);
}
