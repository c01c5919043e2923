/* Whose requests are taken: the texts of Host and Origin. Internal to server/. */
#ifndef TD_SERVER_ORIGIN_H
#define TD_SERVER_ORIGIN_H

#include "server/config/config.h"

#include <stdbool.h>

/* Whether text is what a Host header may hold: a name, an IPv4 address or [an IPv6 address], with
 * or without a port. "" is not. */
bool td_host_is_right(const char *text);

/* Whether such a host is this machine by a name that no stranger can give to another address:
 * localhost, 127.0.0.0/8, [::1]; or whether one of allowed is it (without a port; "*" is all,
 * ".example.com" all names under it). */
bool td_host_is_ours(const char *host, const struct td_given *allowed);

/* Whether such a host, of a request that does not come over loopback, is one that no stranger can
 * give to this machine's address: an IP address, the machine's own name, a name of one label, or
 * one under a domain that the public name system does not have (localhost, local, internal, svc and
 * others); or whether td_host_is_ours says so. */
bool td_host_is_inside(const char *host, const struct td_given *allowed);

/* Whether a page of that Origin comes from the host itself, or from one of allowed ("*" is all),
 * each "http://name:port" as browsers say it. host may be NULL. */
bool td_origin_is_ours(const char *origin, const char *host, const struct td_given *allowed);

#endif
