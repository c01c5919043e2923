/* The main thread of a running server sleeps here. Once a second it looks whether the file of
 * tokens is still the one that it read: what replaces a file, as editors, configuration systems and
 * `tensord token` do, tells nobody. */
#include "server/reload.h"

static void refresh(struct td_service *service, struct td_log *log, bool asked)
{
    struct td_problem problem;
    struct td_access_stats stats;
    int got = td_access_refresh(service->access, asked, &problem);
    td_access_stats(service->access, &stats);
    if (got > 0)
        td_log_event(log, "tokens", "%d tokens hold from now on", stats.tokens);
    else if (got < 0)
        td_log_event(log, "tokens", "the %d tokens of before still hold: %s", stats.tokens,
                     problem.text);
}

int td_serve_until(const sigset_t *signals, struct td_service *service, struct td_log *log)
{
    struct timespec tick = {.tv_sec = 1};
    for (;;) {
        int caught =
            service->access ? sigtimedwait(signals, NULL, &tick) : sigwaitinfo(signals, NULL);
        if (caught > 0 && caught != SIGHUP)
            return caught;
        if (service->access)
            refresh(service, log, caught == SIGHUP);
    }
}
