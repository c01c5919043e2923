/* Where a server listens: a TCP address or a Unix socket. Internal to server/. */
#ifndef TD_SERVER_LISTEN_H
#define TD_SERVER_LISTEN_H

#include "kernels/kernels.h"

#include <sys/socket.h>

struct td_listener {
    struct sockaddr_storage address; /* TCP; family AF_UNSPEC for a Unix socket */
    int fd;                          /* of the Unix socket, listening; else -1 */
    char path[108];                  /* of the Unix socket; "" when there is none to remove */
};

/* mode: of a Unix socket, "0" to "0777" in octal. Reads ADDR:PORT, [ADDR]:PORT or unix:PATH. A TCP
 * address is found free (port 0: any), but not bound yet; a Unix socket is bound and listening.
 * -EINVAL (not such a text), -EADDRINUSE (a server is there already), -EEXIST (the path is
 * something else than a socket), others of bind(2); the sentence is in problem. After an error
 * there is nothing to close. */
int td_listener_open(struct td_listener *listener, const char *text, const char *mode,
                     struct td_problem *problem);

bool td_address_is_loopback(const struct sockaddr_storage *address); /* of IPv4 or IPv6 */

/* Whether all who can reach it are on this machine: a loopback address or a Unix socket. */
bool td_listener_is_local(const struct td_listener *listener);

/* "http://127.0.0.1:8080", "https://[::1]:8080" (tls) or "unix:/run/tensord.sock". */
void td_listener_name(const struct td_listener *listener, bool tls, char *name, size_t size);

/* Removes the Unix socket from the file system, so that nobody new comes; the rest stays open. */
void td_listener_unlink(struct td_listener *listener);
void td_listener_close(struct td_listener *listener);

#endif
