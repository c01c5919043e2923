/* What the system knows of a connection that libmicrohttpd does not tell. Internal to server/. */
#ifndef TD_SERVER_TCP_H
#define TD_SERVER_TCP_H

#include "server/http/watch.h"

/* Bytes that have moved so far in the direction that counts in its phase. Of a Unix socket nobody
 * says what was read; who can reach it is on this machine. */
uint64_t td_tcp_moved(const struct td_client *client, int64_t now);
/* As recv of one byte, which stays: 0 where the client's side has ended and nothing is left of what
 * it has sent. Under TLS the end itself is sent, and may be left. */
ssize_t td_tcp_peek(const struct td_client *client);
/* Under TLS, of which only the system counts the bytes: those of the handshake, or of a request,
 * end here. */
void td_tcp_mark(struct td_client *client);
/* Whether it can be told what has come beyond its requests: not of Unix sockets, not during a
 * handshake, and without TLS not behind a body in chunks, whose frames nobody counts. */
bool td_tcp_tells(const struct td_client *client);
/* These bytes, encrypted ones under TLS; unread of them are still in the socket's buffer. Where
 * that cannot be told there is one. */
uint64_t td_tcp_surplus(const struct td_client *client, uint64_t *unread);

#endif
