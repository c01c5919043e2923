/* Whose requests are taken: the texts of Host and Origin. Internal to server/. */
#ifndef TD_SERVER_ORIGIN_H
#define TD_SERVER_ORIGIN_H

#include "server/config.h"

#include <stdbool.h>

/* Whether text is what a Host header may hold: a name, an IPv4 address or [an IPv6 address], with
 * or without a port. "" is not. */
bool td_host_is_right(const char *text);

/* Whether such a host is this machine by a name that no stranger can give to another address:
 * localhost, 127.0.0.0/8, [::1]; or whether one of allowed is it (without a port; "*" is all). */
bool td_host_is_ours(const char *host, const struct td_given *allowed);

/* Whether a page of that Origin comes from the host itself, or from one of allowed ("*" is all),
 * each "http://name:port" as browsers say it. host may be NULL. */
bool td_origin_is_ours(const char *origin, const char *host, const struct td_given *allowed);

#endif
