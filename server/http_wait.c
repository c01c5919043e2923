/* How an HTTP thread waits: by epoll_wait, in front of the C library's, for libmicrohttpd, which
 * finds this one as the program's.
 *
 * It polls a while before it sleeps: a CPU that went idle takes long to wake, above all a virtual
 * one (40 to 60 us of a call of 70). It does so only while events follow one another closely, so a
 * thread without traffic sleeps; not while a worker that may want its CPU has a request of this
 * thread; and not where others want the CPU, which then does not go idle anyway.
 *
 * libmicrohttpd asks for at most 128 events; when it gets exactly 128 it asks again before it
 * handles them, and with its whole timeout (seen in 0.9.75, daemon.c, MHD_epoll). So 128 or 256
 * clients that all send and wait for their answers were not answered until another connection had
 * something to say, or 30 seconds had passed. An array that is never quite filled keeps it from
 * asking again; events that were left are there at the next call. The alternative, running its loop
 * from outside, costs a system call more for each request. */
#include "server/http_threads.h"

#include <sched.h>
#include <stddef.h>
#include <sys/epoll.h>

#define LOST_NS 15000 /* a yield that takes longer has given the CPU to somebody */
#define CONTENDED_NS 20000000
#define LEAST_REST_NS 500000 /* from polling, after that */
#define MOST_REST_NS 64000000

static _Thread_local struct td_http_thread *here;

void td_http_settle(struct td_http_thread *thread)
{
    if (here)
        return;
    here = thread;
    if (*thread->home)
        td_pools_seat(thread->http->service->pools, thread->home);
    td_thread_alone(); /* small calls run here, on no team */
    td_thread_brisk(); /* beside the pool's worker */
}

int64_t td_http_yield(struct td_http_thread *thread, int64_t before)
{
    sched_yield();
    int64_t now = td_now_ns();
    if (now - before > LOST_NS)
        thread->contended_ns = now;
    return now;
}

bool td_http_is_contended(const struct td_http_thread *thread, int64_t now)
{
    return now - thread->contended_ns < CONTENDED_NS;
}

static bool may_poll(const struct td_http_thread *thread, int64_t now)
{
    return thread->pause_ns < thread->http->spin_ns && now >= thread->poll_from_ns &&
           (*thread->http->config.io_cpus || !atomic_load(&thread->handling));
}

/* Each time that others wanted the CPU, the next attempt comes twice as late. */
static void note_poll(struct td_http_thread *thread, int64_t now, bool found)
{
    if (thread->contended_ns == now) {
        int64_t rest = thread->rest_ns * 2;
        thread->rest_ns = rest < LEAST_REST_NS  ? LEAST_REST_NS
                          : rest < MOST_REST_NS ? rest
                                                : MOST_REST_NS;
        thread->poll_from_ns = now + thread->rest_ns;
    } else if (found) {
        thread->rest_ns = 0;
    }
}

static int poll_then_sleep(struct td_http_thread *thread, int fd, struct epoll_event *events, int n,
                           int timeout)
{
    struct td_service *service = thread->http->service;
    int64_t begin = td_now_ns(), now = begin;
    int got = 0;
    while (!got && may_poll(thread, now)) {
        now = td_http_yield(thread, now);
        got = epoll_pwait(fd, events, n, 0, NULL);
        thread->pause_ns = now - begin;
        note_poll(thread, now, got > 0);
    }
    atomic_fetch_add_explicit(got ? &service->io_polls : &service->io_sleeps, 1,
                              memory_order_relaxed);
    if (got)
        return got;
    got = epoll_pwait(fd, events, n, timeout, NULL);
    thread->pause_ns = td_now_ns() - begin;
    return got;
}

__attribute__((visibility("default"))) int epoll_wait(int fd, struct epoll_event *events, int n,
                                                      int timeout)
{
    int most = n > 1 ? n - 1 : n;
    if (!here || !timeout)
        return epoll_pwait(fd, events, most, timeout, NULL);
    int got = epoll_pwait(fd, events, most, 0, NULL);
    return got ? got : poll_then_sleep(here, fd, events, most, timeout);
}
