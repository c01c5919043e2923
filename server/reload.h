/* What a running server reads again: on SIGHUP, and when it changes. Internal to server/. */
#ifndef TD_SERVER_RELOAD_H
#define TD_SERVER_RELOAD_H

#include "api/api.h"
#include "server/log/log.h"
#include "server/tls/tls.h"

#include <signal.h>

/* Waits for one of the signals, which are blocked and of which SIGHUP is one, until it is another
 * than that, and gives it. On SIGHUP, and within a second of a change, the service's file of tokens
 * and the files of tls (NULL: there is no TLS) are read again; the log says what became of it. */
int td_serve_until(const sigset_t *signals, struct td_service *service, struct td_tls *tls,
                   struct td_log *log);
/* Notes in the service when the certificate ends, and says it in the log. */
void td_say_certificate(struct td_service *service, const struct td_tls *tls, struct td_log *log);

#endif
