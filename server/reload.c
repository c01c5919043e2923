/* The main thread of a running server waits here for signals. Once a second it looks whether the
 * files of tokens and of TLS have changed, because editors, configuration systems and `tensord
 * token` replace files without a signal. */
#include "server/reload.h"

#include <time.h>

static void refresh_tokens(struct td_service *service, struct td_log *log, bool asked)
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

void td_say_certificate(struct td_service *service, const struct td_tls *tls, struct td_log *log)
{
    char text[40];
    struct tm utc;
    time_t ends = (time_t)td_tls_ends(tls);
    atomic_store(&service->certificate_ends, ends);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&ends, &utc));
    td_log_event(log, "tls", "new connections have a certificate that is valid until %s", text);
}

static void refresh_tls(struct td_service *service, struct td_tls *tls, struct td_log *log,
                        bool asked)
{
    struct td_problem problem;
    int got = td_tls_refresh(tls, asked, &problem);
    if (got > 0)
        td_say_certificate(service, tls, log);
    else if (got < 0)
        td_log_event(log, "tls", "the certificate of before stays: %s", problem.text);
}

int td_serve_until(const sigset_t *signals, struct td_service *service, struct td_tls *tls,
                   struct td_log *log)
{
    struct timespec tick = {.tv_sec = 1};
    for (;;) {
        int caught = service->access || tls ? sigtimedwait(signals, NULL, &tick)
                                            : sigwaitinfo(signals, NULL);
        if (caught > 0 && caught != SIGHUP)
            return caught;
        if (service->access)
            refresh_tokens(service, log, caught == SIGHUP);
        if (tls)
            refresh_tls(service, tls, log, caught == SIGHUP);
    }
}
