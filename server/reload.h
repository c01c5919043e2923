/* What a running server reads again: on SIGHUP, and when it changes. Internal to server/. */
#ifndef TD_SERVER_RELOAD_H
#define TD_SERVER_RELOAD_H

#include "api/api.h"
#include "server/log/log.h"

#include <signal.h>

/* Waits for one of the signals, which are blocked and of which SIGHUP is one, until it is another
 * than that, and gives it. On SIGHUP, and within a second of a change, the service's file of tokens
 * is read again; the log says what became of it. */
int td_serve_until(const sigset_t *signals, struct td_service *service, struct td_log *log);

#endif
